// SPDX-License-Identifier: Apache-2.0
#include "cts/random/turns.h"

#include <chrono>

namespace devrt::cts {
namespace {

using RealClock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPatience(10);

}  // namespace

void Turns::Await(int turn) {
  WaitUntil([this, turn] { return turn_.load() == turn; });
}

void Turns::Pass(int turn) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    turn_ = turn;
  }
  changed_.notify_all();
}

void Turns::Meet(int threads) {
  const int meeting = meetings_.load();
  bool last = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    last = ++here_ == threads;
    if (last) {
      here_ = 0;
      ++meetings_;
    }
  }
  if (last) return changed_.notify_all();
  WaitUntil([this, meeting] { return meetings_.load() != meeting; });
}

void Turns::WaitUntil(const std::function<bool()>& holds) {
  if (simulator_.has_value()) return Yield(holds);
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, holds);
}

void Turns::Yield(const std::function<bool()>& holds) {
  auto begin = RealClock::now();
  int turn = turn_.load();
  while (!holds()) {
    (void)simulator_->Yield();
    if (turn != turn_.load()) {
      turn = turn_.load();
      begin = RealClock::now();
    } else if (RealClock::now() - begin > kPatience && !told_.exchange(true)) {
      stuck_();
    }
  }
}

}  // namespace devrt::cts
