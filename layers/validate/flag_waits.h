// SPDX-License-Identifier: Apache-2.0
//
// The waits of kernels for flags, and what a set of the flag puts before them.
//
// A set comes before each wait of the flag that has not ended by then.  A
// program may enqueue the set after the wait, so the order of a wait can be
// known late: until a set comes, the wait is open.
//
//   FlagWaits waits;
//   waits.Wait(flag, epoch_of_wait, &clock_of_b);
//   waits.Set(flag, clock_of_a);
//   VectorClock late = clock_of_c;  // c came after the wait before the set
//   waits.Complete(&late);          // now it has what the set brings
//
// If several sets may end a wait, the wait counts as coming after all of them:
// no order that may exist is missing.  So all waits for a flag have the same
// sets, and a stream that comes after the first of them has these.
//
// Memory is bounded by the flags and the streams that wait for them, and not by
// the waits.  Of one stream's waits for one flag the last kMostSpans are exact.
// Earlier ones, and those for the oldest flags that are gone, may count as
// earlier than they are: the detector may then miss a finding, and makes none
// that is unfounded.
//
// Threads: one at a time; the caller has the lock.

#ifndef DEVRT_LAYERS_VALIDATE_FLAG_WAITS_H_
#define DEVRT_LAYERS_VALIDATE_FLAG_WAITS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>

#include "layers/validate/vector_clock.h"

namespace devrt::race {

class FlagWaits {
 public:
  // `flag` names the flag.  A set comes after what `clock` knows.
  void Set(uint64_t flag, const VectorClock& clock);
  // What `clock` knows comes before each wait, and the set is still to come.
  void Add(uint64_t flag, const VectorClock& clock) {
    flags_[flag].sets.Join(clock);
  }
  // A later wait does not end by the earlier sets alone.
  void Unset(uint64_t flag) { flags_[flag].is_set = false; }
  // The operation `at` waits.  *clock gets what the earlier sets bring.
  void Wait(uint64_t flag, Epoch at, VectorClock* clock);
  // The flag is destroyed.
  void Remove(uint64_t flag);
  void Clear();

  // True if Complete would add nothing.
  bool empty() const { return streams_ == 0; }
  // Pairs of a flag and a stream whose waits are known.
  size_t streams() const { return streams_; }
  // The waits that are kept for them.
  size_t waits() const;

  enum class State : uint8_t {
    kKnown,   // each wait that the clock knows has got a set
    kOpen,    // one of them has not
    kUnseen,  // one of them has ended without a set that was seen
  };
  // Adds what the waits that *clock knows come after.
  State Complete(VectorClock* clock) const;

  // The host, whose clock is given, has waited.  Waits that the clock knows
  // have ended, by a set or otherwise.
  void EndKnown(const VectorClock& host);
  // Forgets waits that the host knows, after Complete of the host's clock.
  void Forget(const VectorClock& host);

 private:
  static constexpr size_t kMostSpans = 64;
  static constexpr size_t kMostRemoved = 64;

  // Waits of one stream from one time to another: one wait, or several of which
  // only the first and the last are known.
  struct Span {
    uint64_t from = 0;
    uint64_t to = 0;
  };
  // The waits of one stream for one flag.
  struct Waits {
    std::deque<Span> spans;  // the oldest first
    // In the order of time there are waits that are known, then waits that are
    // unseen, then open ones.  0: there are none.
    Span unseen;
    uint64_t open = 0;  // the first

    void Add(Epoch at, bool is_open);
    // The last of the waits has ended.
    void EndOpen(uint64_t until);
    // Forgets waits until then.
    void Forget(uint64_t until);
    State StateAt(uint64_t time) const {
      if (unseen.from != 0 && unseen.from <= time) return State::kUnseen;
      return open != 0 && open <= time ? State::kOpen : State::kKnown;
    }
    // The first wait after `time`, which has a wait after it.
    uint64_t FirstAfter(uint64_t time) const;
  };
  struct Flag {
    bool is_set = false;
    VectorClock sets;  // all that were seen
    std::map<Actor, Waits> waits;

    bool IsReachedBy(const VectorClock& clock) const;
    void Forget(const VectorClock& host);
  };

  // Calls visit(flag) for all flags, those too that are gone.
  template <typename Visit>
  void ForEach(Visit visit) {
    for (auto& [number, flag] : flags_) visit(flag);
    for (Flag& flag : removed_) visit(flag);
  }
  void MergeOldestRemoved();

  std::unordered_map<uint64_t, Flag> flags_;
  std::deque<Flag> removed_;  // with waits, the oldest first
  size_t streams_ = 0;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_FLAG_WAITS_H_
