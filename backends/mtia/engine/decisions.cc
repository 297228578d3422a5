// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/decisions.h"

#include <utility>

namespace devrt::mtia {

void ChoiceLog::AddNonZero(uint32_t choice) {
  if (zeros_ == 0 && !runs_.empty() && runs_.back().choice == choice) {
    ++runs_.back().count;
  } else if (complete()) {
    runs_.push_back({zeros_, choice, 1});
  }
  zeros_ = 0;
}

void Decisions::Start(uint64_t seed) {
  log_.Clear();
  kept_.clear();
  replaying_ = false;
  random_ = seed;
}

void Decisions::StartReplay(uint64_t seed, ChoiceLog log) {
  Start(seed);
  replay_ = std::move(log);
  replaying_ = true;
  run_ = position_ = 0;
}

uint32_t Decisions::Choose(ChoiceKind kind, uint32_t n, uint32_t preferred) {
  const uint32_t choice = replaying_ ? Follow(n) : preferred;
  log_.Add(choice);
  if (keeps_) kept_.push_back({kind, n, choice});
  return choice;
}

void Decisions::DescribeLast(const HostThread& host) {
  kept_.back().thread = host.index;
  kept_.back().site = host.site;
}

void Decisions::DescribeLast(const StreamCore& stream) {
  Decision& last = kept_.back();
  last.thread = stream.head->thread;
  last.stream = stream.number;
  last.seq = stream.head->seq - stream.base;
  last.site = stream.head->site;
}

uint32_t Decisions::Follow(uint32_t n) {
  if (run_ == replay_.runs().size()) return 0;
  const ChoiceLog::Run& run = replay_.runs()[run_];
  if (position_++ < run.zeros) return 0;
  if (position_ == run.zeros + run.count) {
    ++run_;
    position_ = 0;
  }
  return run.choice < n ? run.choice : 0;
}

uint32_t Decisions::Uniform(uint32_t n) {
  return static_cast<uint32_t>(((NextRandom(&random_) >> 32) * n) >> 32);
}

}  // namespace devrt::mtia
