// SPDX-License-Identifier: Apache-2.0
#include "cts/call_ring.h"

#include <sched.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace devrt::cts {

void CallRing::Write(uint64_t number, const char* text) {
  Line& line = lines_[number % kLines];
  for (uint64_t state = line.state.load(std::memory_order_relaxed);;) {
    if (state >> 1 > number) return;
    if ((state & 1) != 0) {  // the writer may need this processor
      sched_yield();
      state = line.state.load(std::memory_order_relaxed);
    } else if (line.state.compare_exchange_weak(state, number << 1 | 1,
                                                std::memory_order_acquire,
                                                std::memory_order_relaxed)) {
      break;
    }
  }
  std::memcpy(line.text, text, kWidth);
  line.times = 1;
  line.state.store(number << 1, std::memory_order_release);
}

void CallRing::Finish(uint64_t number, const char* text) {
  if (!CountAtTheLineBefore(number, text)) Write(number, text);
}

bool CallRing::CountAtTheLineBefore(uint64_t number, const char* text) {
  if (number == 1) return false;
  Line& before = lines_[(number - 1) % kLines];
  const uint64_t written = (number - 1) << 1;
  uint64_t state = written;
  if (!before.state.compare_exchange_strong(state, written | 1,
                                            std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
    return false;
  }
  const bool counts = std::strncmp(before.text, text, kWidth) == 0 &&
                      last_.compare_exchange_strong(number, number - 1);
  if (counts) ++before.times;
  before.state.store(written, std::memory_order_release);
  return counts;
}

std::vector<std::string> CallRing::Lines() const {
  std::vector<std::string> all;
  const uint64_t last = last_.load();
  for (uint64_t i = last > kLines ? last - kLines + 1 : 1; i <= last; ++i) {
    const Line& line = lines_[i % kLines];
    // Otherwise its thread ended, or is, between Take and the end of Write.
    if (line.state.load(std::memory_order_acquire) != i << 1) continue;
    all.emplace_back(line.text, strnlen(line.text, kWidth));
    if (line.times > 1)
      absl::StrAppend(&all.back(), " (", line.times, " times)");
  }
  return all;
}

void CallRing::Clear() {
  last_.store(0);
  for (Line& line : lines_) line.state.store(0);
}

}  // namespace devrt::cts
