// SPDX-License-Identifier: Apache-2.0
//
// The recent past of a program, to say why two operations are unordered: up to
// where one stream comes after the other, and which waits nearly ordered them.
//
// Reports need little of it, so each stream keeps its last kKept operations and
// waits, and each event its last two records.
//
// Threads: one at a time; the caller has the lock.

#ifndef DEVRT_LAYERS_VALIDATE_HISTORY_H_
#define DEVRT_LAYERS_VALIDATE_HISTORY_H_

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "layers/validate/order.h"
#include "layers/validate/shadow.h"

namespace devrt::race {

// A record of an event, or a wait for one.
struct EventUse {
  uint64_t event = 0;  // the program's event
  Actor stream = kNoActor;
  Operation at;  // the call
  Epoch mark;    // the newest operation of the recorded stream that is covered;
                 // actor kNoActor: the event was never recorded
};

// Why a wait did not order the operations.
enum class NearMissKind : uint8_t {
  kNeverRecorded,   // the event that the stream waits for was never recorded
  kRecordedBefore,  // recorded on the right stream, before the earlier operation
  kOtherStream,     // recorded on another stream
  kReplaced,        // it covered the earlier operation until it was recorded
                    // again
  kNotWaitedFor,    // an event covers the operation, and nothing waits for it
};

struct NearMiss {
  NearMissKind kind = NearMissKind::kOtherStream;
  EventUse use;  // the wait; for kNotWaitedFor the record
  // The record that was waited for, unless the event was recorded anew more
  // than once since then.
  std::optional<Operation> record;
};

struct Explanation {
  // The newest operation of the earlier actor that the later operation does
  // come after; none: it comes after none of them, or the past is forgotten.
  std::optional<Operation> last_ordered;
  std::vector<NearMiss> near_misses;  // the newest first
};

// The last kSize values.
template <typename T, size_t kSize>
class Ring {
 public:
  void Push(const T& value) {
    if (values_.size() < kSize) {
      values_.push_back(value);
    } else {
      values_[next_] = value;
    }
    next_ = (next_ + 1) % kSize;
  }
  // Calls visit(value) until it returns false.
  template <typename Visit>
  void NewestFirst(Visit visit) const {
    for (size_t i = 0; i < values_.size(); ++i) {
      if (!visit(values_[(next_ + values_.size() - 1 - i) % values_.size()])) {
        return;
      }
    }
  }

 private:
  std::vector<T> values_;
  size_t next_ = 0;
};

class History {
 public:
  void Add(const Operation& operation);
  void AddRecord(const EventUse& record);
  void AddWait(const EventUse& wait);
  // The number stands for another stream from now on.
  void Forget(Actor actor) {
    if (actor < actors_.size()) actors_[actor] = Actors();
  }
  void RemoveEvent(uint64_t event) { events_.erase(event); }

  // Explains why `later`, whose clock is given, does not come after `earlier`.
  Explanation Explain(const Operation& earlier, const Operation& later,
                      const VectorClock& clock) const;

 private:
  static constexpr size_t kKept = 16;

  struct Actors {
    Ring<Operation, kKept> operations;
    Ring<EventUse, kKept> waits;
  };
  struct Records {
    EventUse last;
    std::optional<EventUse> before;
  };

  Actors& Of(Actor actor);
  std::optional<Operation> RecordOf(const EventUse& wait) const;
  NearMissKind WhyNot(const EventUse& wait, const Operation& earlier) const;

  std::vector<Actors> actors_;
  std::unordered_map<uint64_t, Records> events_;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_HISTORY_H_
