// SPDX-License-Identifier: Apache-2.0
//
// The recent past of a program, to say why two operations are unordered: up to
// where one stream comes after the other, and which waits nearly ordered them.
//
// Reports need little of it, so each stream keeps its last few operations and
// waits, and each event its last two records.
//
// Threads: one at a time; the caller has the lock.

#ifndef DEVRT_LAYERS_VALIDATE_HISTORY_H_
#define DEVRT_LAYERS_VALIDATE_HISTORY_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "layers/validate/handle_map.h"
#include "layers/validate/order.h"
#include "layers/validate/shadow.h"

namespace devrt::race {

// A record of an event, or a wait for one.
struct EventUse {
  uint64_t event = 0;  // the program's event
  Actor stream = kNoActor;
  // Of a wait: no order of the host threads puts the record before it.
  bool may_be_early = false;
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
  kMayBeEarly,      // the right record, which another thread may make too late
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
  // Returns the place of the next value, which holds an old one.
  T* Push() { return &values_[pushed_++ % kSize]; }
  // Calls visit(value) until it returns false.
  template <typename Visit>
  void NewestFirst(Visit visit) const {
    const size_t kept = std::min(pushed_, kSize);
    for (size_t i = 1; i <= kept; ++i) {
      if (!visit(values_[(pushed_ - i) % kSize])) return;
    }
  }

 private:
  std::array<T, kSize> values_;
  size_t pushed_ = 0;
};

class History {
 public:
  // Their places, which hold old values.  The caller sets all members.
  Operation* AddOperation(Actor actor) { return Of(actor).operations.Push(); }
  EventUse* AddWait(Actor stream) { return Of(stream).waits.Push(); }
  // The last two records of an event.  The last covers its stream up to itself.
  // They keep their address until RemoveEvent.
  struct Records {
    Operation last;  // number 0: there is none
    Operation before;
  };
  Records* RecordsOf(uint64_t event) { return events_.At(event); }
  // `operation` is the record.
  static void AddRecord(Records* records, const Operation& operation) {
    records->before = records->last;
    records->last = operation;
  }
  // The number stands for another stream from now on.
  void Forget(Actor actor) {
    if (actor < actors_.size()) actors_[actor].reset();
  }
  void RemoveEvent(uint64_t event) { events_.Erase(event); }

  // Calls visit(operation) for the actor's last operations, the newest first,
  // until it returns false.
  template <typename Visit>
  void ForEachLast(Actor actor, Visit visit) const {
    const Actors* const found = Find(actor);
    if (found != nullptr) found->operations.NewestFirst(visit);
  }

  // Explains why `later`, whose clock is given, does not come after `earlier`.
  Explanation Explain(const Operation& earlier, const Operation& later,
                      const VectorClock& clock) const;

 private:
  static constexpr size_t kKeptOperations = 8;
  static constexpr size_t kKeptWaits = 4;  // no explanation has more

  struct Actors {
    Ring<Operation, kKeptOperations> operations;
    Ring<EventUse, kKeptWaits> waits;
  };

  Actors& Of(Actor actor) {
    if (actor < actors_.size() && actors_[actor] != nullptr) {
      return *actors_[actor];
    }
    return Add(actor);
  }
  Actors& Add(Actor actor);
  // nullptr if it has done nothing.
  const Actors* Find(Actor actor) const {
    return actor < actors_.size() ? actors_[actor].get() : nullptr;
  }
  // Adds the first records that cover the operation, in their order.
  void AddUnused(const Operation& earlier, std::vector<NearMiss>* misses) const;
  std::optional<Operation> RecordOf(const EventUse& wait) const;
  NearMissKind WhyNot(const EventUse& wait, const Operation& earlier) const;

  std::vector<std::unique_ptr<Actors>> actors_;
  HandleMap<uint64_t, Records> events_;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_HISTORY_H_
