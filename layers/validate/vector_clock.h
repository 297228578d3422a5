// SPDX-License-Identifier: Apache-2.0
//
// Vector clocks: which actions an actor comes after.  Actors are the host
// threads and the streams of a process; each numbers its own actions from 1.
//
//   VectorClock a(0), b(1);
//   const Epoch work = a.Publish();  // an action of actor 0
//   b.Join(a);                       // actor 1 waits for actor 0
//   b.Knows(work);                   // true: what actor 1 does now comes after
//
// Most joins bring little news, so the times lie in two parts.  The actor's own
// time, and the time of the thread that submits to a stream, are members.  The
// other times are shared by clocks until one of them changes (shared_times.h).
// A copy, which each record of an event makes, costs no allocation.  A join
// compares no times if one clock knows an action that tells of all the other
// one knows.
//
// Threads: one thread at a time uses or ends any of them (shared_times.h).

#ifndef DEVRT_LAYERS_VALIDATE_VECTOR_CLOCK_H_
#define DEVRT_LAYERS_VALIDATE_VECTOR_CLOCK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "layers/validate/shared_times.h"

namespace devrt::race {

// The `time`-th action of an actor.  Time 0 is before the first action.
struct Epoch {
  Actor actor = kNoActor;
  uint64_t time = 0;

  Epoch() = default;
  Epoch(Actor of, uint64_t at) : actor(of), time(at) {}
  // By members.  A compiler would copy both as one vector, and a processor
  // stalls when it loads a vector of which one part was just stored: a clock
  // counts, and then is copied.
  Epoch(const Epoch& other) noexcept : actor(other.actor), time(other.time) {}
  Epoch& operator=(const Epoch& other) noexcept {
    actor = other.actor;
    time = other.time;
    return *this;
  }
  ~Epoch() = default;

  friend bool operator==(Epoch a, Epoch b) {
    return a.actor == b.actor && a.time == b.time;
  }
};

class VectorClock {
 public:
  // Knows nothing, and belongs to no actor: the start of a join of clocks.
  VectorClock() = default;
  explicit VectorClock(Actor self) : own_{self, 0} {}
  VectorClock(const VectorClock& other)
      : own_(other.own_),
        submitter_(other.submitter_),
        times_(other.times_),
        all_(other.all_) {}
  VectorClock(VectorClock&& other) noexcept = default;
  VectorClock& operator=(const VectorClock& other) {
    if (this == &other) return *this;
    own_ = other.own_;
    submitter_ = other.submitter_;
    times_ = other.times_;
    joined_ = SharedTimes();
    all_ = other.all_;
    return *this;
  }
  VectorClock& operator=(VectorClock&& other) noexcept = default;
  ~VectorClock() = default;

  Epoch now() const { return own_; }

  // The newest action of `actor` that is known; 0: none.
  uint64_t TimeOf(Actor actor) const {
    if (actor == own_.actor) return own_.time;
    const uint64_t time = times_.Of(actor);
    return actor == submitter_.actor && time < submitter_.time ? submitter_.time
                                                               : time;
  }
  bool Knows(Epoch epoch) const { return epoch.time <= TimeOf(epoch.actor); }
  // True if the clock has learned of no other actor.
  bool empty() const { return times_.empty() && submitter_.actor == kNoActor; }
  // The bytes of the times, with those that other clocks share.
  size_t bytes() const { return times_.bytes(); }

  // A new action of this clock's actor.
  Epoch Tick() {
    ++own_.time;
    return own_;
  }
  // A new action that others learn of by joins alone.  Who knows it knows all
  // that this clock knows now, and a later action of this actor as well.
  Epoch Publish() {
    ++own_.time;
    if (all_.actor == kNoActor) all_ = own_;
    return own_;
  }
  // Learns what `other` knows.
  void Join(const VectorClock& other) {
    if (HasAllOf(other)) return Learn(other.own_);
    const bool is_part = IsPartOf(other);
    if (is_part) {
      times_ = other.times_;
    } else {
      times_.Join(other.times_);
    }
    all_ = {};
    Learn(other.own_);
    Learn(other.submitter_);
    if (is_part && own_.actor == kNoActor) all_ = other.KnownByAll();
  }
  // Join with the clock of the thread that submits to this stream.  Repeated
  // joins with one thread are cheap as long as the thread learned nothing.
  void JoinSubmitter(const VectorClock& thread) {
    if (ABSL_PREDICT_FALSE(submitter_.actor != thread.own_.actor)) {
      ChangeSubmitter(thread);
    }
    if (ABSL_PREDICT_FALSE(!thread.times_.IsSharedWith(joined_))) {
      JoinTimesOf(thread);
    }
    submitter_.time = std::max(submitter_.time, thread.own_.time);
    all_ = {};
  }
  // Learns of one action.
  void Learn(Epoch epoch) {
    if (epoch.time <= TimeOf(epoch.actor)) return;
    if (epoch.actor == own_.actor) {
      own_.time = epoch.time;
    } else if (epoch.actor == submitter_.actor) {
      submitter_.time = epoch.time;
    } else {
      times_.Set(epoch.actor, epoch.time);
    }
    if (epoch.actor != own_.actor) all_ = {};
  }

 private:
  // True if a join with `other` brings no news but of its actor.
  bool HasAllOf(const VectorClock& other) const {
    return other.all_.actor != kNoActor && Knows(other.all_);
  }
  // True if the times of `other` have all that these have.
  bool IsPartOf(const VectorClock& other) const {
    return all_.actor == kNoActor ? times_.empty() && own_.actor == kNoActor &&
                                        submitter_.actor == kNoActor
                                  : other.Knows(all_);
  }
  // Who knows it knows all that this clock knows, its own actions too.
  Epoch KnownByAll() const { return all_.actor == own_.actor ? own_ : all_; }
  ABSL_ATTRIBUTE_NOINLINE void ChangeSubmitter(const VectorClock& thread) {
    // The time of the thread before must not be lost.
    const Epoch before = std::exchange(submitter_, {thread.own_.actor, 0});
    if (before.actor != kNoActor) Learn(before);
  }
  ABSL_ATTRIBUTE_NOINLINE void JoinTimesOf(const VectorClock& thread) {
    if (!HasAllOf(thread)) {
      if (IsPartOf(thread)) {
        times_ = thread.times_;
      } else {
        times_.Join(thread.times_);
      }
    }
    joined_ = thread.times_;
  }

  Epoch own_;
  Epoch submitter_;
  SharedTimes times_;
  // The submitter's times at the last JoinSubmitter.  Copies have none.
  SharedTimes joined_;
  // An action of own_.actor.  Of a clock that belongs to no actor, an action of
  // the actor whose clock it copies.  Who knows it knows all that this clock
  // knows of others.  kNoActor: there is none.
  Epoch all_;
};

// What something comes after: all that any of a few clocks knows.  It costs no
// join, which most questions do not need.  The clocks outlive the object.
class Knowledge {
 public:
  Knowledge() = default;
  Knowledge(const VectorClock& clock) { Add(clock); }  // NOLINT: it is one

  void Add(const VectorClock& clock) { clocks_[count_++] = &clock; }
  bool Knows(Epoch epoch) const {
    for (size_t i = 0; i < count_; ++i) {
      if (clocks_[i]->Knows(epoch)) return true;
    }
    return false;
  }
  // One clock that knows all.
  VectorClock Joined() const {
    VectorClock joined;
    for (size_t i = 0; i < count_; ++i) joined.Join(*clocks_[i]);
    return joined;
  }

 private:
  static constexpr size_t kMost = 5;
  const VectorClock* clocks_[kMost];
  size_t count_ = 0;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_VECTOR_CLOCK_H_
