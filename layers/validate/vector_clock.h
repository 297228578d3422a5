// SPDX-License-Identifier: Apache-2.0
//
// Vector clocks: which actions an actor comes after.  Actors are the host
// threads and the streams of a process; each numbers its own actions from 1.
//
//   VectorClock a(0), b(1);
//   const Epoch work = a.Tick();  // an action of actor 0
//   b.Join(a);                    // actor 1 waits for actor 0
//   b.Knows(work);                // true: what actor 1 does now comes after it
//
// Most joins bring little news, so the times lie in two parts.  The actor's own
// time, and the time of the thread that submits to a stream, are members.  The
// other times lie in an array that clocks share until one of them changes it.
// A copy, which each record of an event makes, costs no allocation.
//
// Threads: clocks that share an array are used by one thread at a time.

#ifndef DEVRT_LAYERS_VALIDATE_VECTOR_CLOCK_H_
#define DEVRT_LAYERS_VALIDATE_VECTOR_CLOCK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace devrt::race {

using Actor = uint32_t;  // a small number: it indexes arrays
inline constexpr Actor kNoActor = UINT32_MAX;

// The `time`-th action of an actor.  Time 0 is before the first action.
struct Epoch {
  Actor actor = kNoActor;
  uint64_t time = 0;

  friend bool operator==(Epoch a, Epoch b) {
    return a.actor == b.actor && a.time == b.time;
  }
};

class VectorClock {
 public:
  // Knows nothing, and belongs to no actor: the start of a join of clocks.
  VectorClock() = default;
  explicit VectorClock(Actor self) : own_{self, 0} {}
  VectorClock(const VectorClock& other);
  VectorClock(VectorClock&& other) noexcept;
  VectorClock& operator=(VectorClock other) noexcept;
  ~VectorClock();

  Epoch now() const { return own_; }

  // The newest action of `actor` that is known; 0: none.
  uint64_t TimeOf(Actor actor) const {
    if (actor == own_.actor) return own_.time;
    const uint64_t time =
        times_ != nullptr && actor < times_->size ? times_->at[actor] : 0;
    return actor == submitter_.actor && time < submitter_.time ? submitter_.time
                                                               : time;
  }
  bool Knows(Epoch epoch) const { return epoch.time <= TimeOf(epoch.actor); }
  // How many actors the shared array has room for.
  uint32_t capacity() const { return times_ == nullptr ? 0 : times_->size; }

  // A new action of this clock's actor.
  Epoch Tick();
  // Learns what `other` knows.
  void Join(const VectorClock& other);
  // Join with the clock of the thread that submits to this stream.  Repeated
  // joins with one thread are cheap as long as the thread learned nothing.
  void JoinSubmitter(const VectorClock& thread);
  // Learns of one action.
  void Learn(Epoch epoch);

 private:
  // Counted, and immutable while shared.  Clocks that share it may end on other
  // threads, without the lock.
  struct Times {
    std::atomic<uint32_t> uses;
    uint32_t size;
    uint64_t at[1];  // `size` elements

    static Times* Make(uint32_t size);
  };

  static Times* Share(Times* times);
  static void Release(Times* times);
  // Makes the array this clock's own, with room for `actor`.
  void Own(Actor actor);
  void JoinTimes(Times* other);

  Epoch own_;
  Epoch submitter_;
  Times* times_ = nullptr;
  Times* joined_ = nullptr;  // the submitter's array of the last JoinSubmitter
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_VECTOR_CLOCK_H_
