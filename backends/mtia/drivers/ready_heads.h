// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_DRIVERS_READY_HEADS_H_
#define DEVRT_BACKENDS_MTIA_DRIVERS_READY_HEADS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/mtia/drivers/stream_heap.h"
#include "backends/mtia/engine/machine.h"

namespace devrt::mtia {

// Owns the list of streams whose first operation, the head, may take a step: by
// the age of the head, and for strategy hw by the time of the step.
//
// A head that needs a token is runnable while one is free.  For hw a head that
// found no token leaves the order by time, until Grant brings it back.
//
// Threads: every member is called by the holder of the baton.
class ReadyHeads {
 public:
  void Clear() {
    by_age_.clear();
    while (!by_time_.empty()) by_time_.Remove(by_time_.top());
  }
  void set_hardware(bool hardware) { hardware_ = hardware; }
  // True for strategy hw.
  bool hardware() const { return hardware_; }

  const std::vector<StreamCore*>& by_age() const { return by_age_; }
  // For hw: the streams in the order of their next steps.
  const StreamHeap& by_time() const { return by_time_; }

  static bool Runnable(const StreamCore* s) {
    const Op* const op = s->head;
    return op->state == OpState::kRunning || !Tokens::NeedsToken(op) ||
           g_machine->tokens.Of(op).available();
  }
  // Their number, or `most` if there are more: counts no further.
  uint32_t CountRunnable(uint32_t most = UINT32_MAX) const {
    uint32_t count = 0;
    for (const StreamCore* const s : by_age_) {
      if (count == most) break;
      count += Runnable(s) ? 1 : 0;
    }
    return count;
  }

  void Insert(StreamCore* s) {
    if (by_age_.empty() || by_age_.back()->head->id < s->head->id) {
      by_age_.push_back(s);
    } else {
      by_age_.insert(Find(s), s);
    }
    if (hardware_) by_time_.Push(s);
  }
  void Remove(StreamCore* s) {
    by_age_.erase(Find(s));
    if (!hardware_) return;
    if (s->in_token_list) {
      auto& waiting = g_machine->tokens.Of(s->head).waiting;
      waiting.erase(std::find(waiting.begin(), waiting.end(), s));
      s->in_token_list = false;
    } else {
      by_time_.Remove(s);
    }
  }

  // For hw: the runnable head that moves first, or nullptr.  Heads that find no
  // token leave the order by time.
  StreamCore* First();
  // For hw: brings the most urgent head that waits for one of `tokens` back.
  void Grant(EngineTokens* tokens, VTime when);

 private:
  std::vector<StreamCore*>::iterator Find(const StreamCore* s) {
    return std::lower_bound(
        by_age_.begin(), by_age_.end(), s->head->id,
        [](const StreamCore* a, uint64_t id) { return a->head->id < id; });
  }

  bool hardware_ = true;
  std::vector<StreamCore*> by_age_;
  StreamHeap by_time_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_DRIVERS_READY_HEADS_H_
