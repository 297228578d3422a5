// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/decisions.h"

#include <string>
#include <utility>

#include "backends/mtia/common/error.h"

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
  replay_ = ChoiceLog();
  run_ = position_ = followed_ = 0;
  misfit_ = {};
  random_ = seed;
}

void Decisions::StartReplay(uint64_t seed, ChoiceLog log, bool warns) {
  Start(seed);
  replay_ = std::move(log);
  replaying_ = true;
  warns_ = warns;
}

uint64_t Decisions::CountLeft() const {
  uint64_t left = 0;
  for (uint64_t i = run_; i < replay_.runs().size(); ++i) {
    left += replay_.runs()[i].count;
  }
  if (run_ == replay_.runs().size()) return 0;
  const uint64_t zeros = replay_.runs()[run_].zeros;
  return left - (position_ > zeros ? position_ - zeros : 0);
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
  ++followed_;
  if (run_ == replay_.runs().size()) return 0;
  const ChoiceLog::Run& run = replay_.runs()[run_];
  if (position_++ < run.zeros) return 0;
  if (position_ == run.zeros + run.count) {
    ++run_;
    position_ = 0;
  }
  if (run.choice < n) return run.choice;
  NoteMisfit(run.choice, n);
  return 0;
}

void Decisions::NoteMisfit(uint32_t choice, uint32_t n) {
  if (misfit_.decision != 0) return;
  misfit_ = {followed_, choice, n};
  if (!warns_ || g_host->log_min_level(g_host->host) > DEVRT_LOG_WARNING) {
    return;
  }
  const std::string text = "DEVRT_SIM_REPLAY: " + TextOf(misfit_, 0);
  g_host->log(g_host->host, DEVRT_LOG_WARNING, __FILE__, __LINE__, text.data(),
              text.size());
}

uint32_t Decisions::Uniform(uint32_t n) {
  return static_cast<uint32_t>(((NextRandom(&random_) >> 32) * n) >> 32);
}

}  // namespace devrt::mtia
