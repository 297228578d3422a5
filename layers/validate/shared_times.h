// SPDX-License-Identifier: Apache-2.0
//
// SharedTimes: for each actor, the number of its newest action that is known.
//
//   SharedTimes times;
//   times.Set(7, 12);
//   SharedTimes copy = times;  // one pointer
//   copy.Set(8, 3);            // copies the part that has actor 8
//   times.Join(copy);          // each time becomes the later one of both
//
// The times lie in parts that copies share until one of them changes.  Up to
// kInPart actors are one array.  More are a tree of such arrays: a change
// copies the way to one array, and a join passes over what both trees share.
// So many clocks of many actors need little memory if they learn from each
// other.
//
// Threads: one thread at a time uses or ends any of them: the counts of uses
// and the memory that is kept for new parts have no lock.  The caller has the
// lock of the Validator.

#ifndef DEVRT_LAYERS_VALIDATE_SHARED_TIMES_H_
#define DEVRT_LAYERS_VALIDATE_SHARED_TIMES_H_

#include <cstddef>
#include <cstdint>
#include <utility>

namespace devrt::race {

using Actor = uint32_t;  // a small number: it indexes arrays
inline constexpr Actor kNoActor = UINT32_MAX;

class SharedTimes {
 public:
  SharedTimes() = default;
  SharedTimes(const SharedTimes& other) : root_(Share(other.root_)) {}
  SharedTimes(SharedTimes&& other) noexcept
      : root_(std::exchange(other.root_, nullptr)) {}
  SharedTimes& operator=(const SharedTimes& other) {
    if (root_ == other.root_) return *this;
    Part* const before = root_;
    root_ = Share(other.root_);
    Release(before);
    return *this;
  }
  SharedTimes& operator=(SharedTimes&& other) noexcept {
    std::swap(root_, other.root_);
    return *this;
  }
  ~SharedTimes() { Release(root_); }

  // True if no time was ever set.
  bool empty() const { return root_ == nullptr; }
  // True if both share all parts.  Otherwise they may still be equal.
  bool IsSharedWith(const SharedTimes& other) const {
    return root_ == other.root_;
  }

  // 0: none was set.
  uint64_t Of(Actor actor) const {
    if (root_ == nullptr) return 0;
    return actor < root_->room ? root_->times[actor] : OfParts(actor);
  }
  // `time` is not before Of(actor).
  void Set(Actor actor, uint64_t time) {
    if (root_ != nullptr && actor < root_->room && IsAlone(root_)) {
      root_->times[actor] = time;
    } else {
      SetInParts(actor, time);
    }
  }
  // Takes the later time of each actor.
  void Join(const SharedTimes& other) {
    if (other.root_ == root_ || other.root_ == nullptr) return;
    JoinParts(other);
  }

  // The bytes of all parts, those that are shared too.
  size_t bytes() const { return BytesOf(root_); }

 private:
  static constexpr uint32_t kInPart = 128;   // actors of one array
  static constexpr uint32_t kBranches = 16;  // parts of a part

  // Counted, and immutable while shared.
  struct Part {
    uint32_t uses;
    uint32_t room;   // it has times of the actors [0, room); 0: parts
    uint32_t shift;  // parts[i] has the actors from i << shift on; 0: times
    union {
      uint64_t times[1];  // `room` elements
      Part* parts[1];     // kBranches elements; nullptr: all times are 0
    };
  };

  static Part* Share(Part* part) {
    if (part != nullptr) ++part->uses;
    return part;
  }
  static void Release(Part* part) {
    if (part != nullptr && --part->uses == 0) End(part);
  }
  static bool IsAlone(const Part* part) { return part->uses == 1; }
  static uint32_t ShiftAbove(uint32_t shift);
  static uint32_t ShiftBelow(uint32_t shift);
  static Part* Make(uint32_t room, uint32_t shift);
  static Part* MakeTimes(uint32_t room) { return Make(room, 0); }
  static Part* MakeParts(uint32_t shift) { return Make(0, shift); }
  static void End(Part* part);
  static size_t BytesOf(const Part* part);
  // Puts a part above the root, which then has more room.
  void Raise();
  // Makes the part at *slot one that nobody shares, with room for `actor`.
  static void OwnTimes(Part** slot, Actor actor);
  static void OwnParts(Part** slot, uint32_t shift);
  uint64_t OfParts(Actor actor) const;
  void SetInParts(Actor actor, uint64_t time);
  void JoinParts(const SharedTimes& other);
  // Returns `mine`, `other`, or a new part with one use.  Changes `mine` if
  // `alone`, unless somebody shares it.
  static Part* Joined(Part* mine, Part* other, bool alone);
  static Part* JoinedTimes(Part* mine, Part* other, bool alone);
  static void JoinInto(Part** slot, Part* other, bool alone);

  Part* root_ = nullptr;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_SHARED_TIMES_H_
