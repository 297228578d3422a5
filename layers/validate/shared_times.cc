// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/shared_times.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace devrt::race {

namespace {

// Sizes of arrays are multiples of this, so that few new actors mean a new
// array, and that loops need no rest.
constexpr uint32_t kActorsAtOnce = 8;

// Two times, for which each processor has instructions.
using Pair = uint64_t __attribute__((vector_size(2 * sizeof(uint64_t))));
constexpr uint32_t kPair = 2;

Pair Load(const uint64_t* from) {
  Pair pair;
  std::memcpy(&pair, from, sizeof pair);
  return pair;
}

// Which of two arrays lacks news of the other one.
struct Lacks {
  bool first = false;
  bool second = false;
};
Lacks Compare(const uint64_t* first, const uint64_t* second, uint32_t size) {
  // Times are small, so the top bit of a difference is its sign.
  Pair less = {};
  Pair more = {};
  for (uint32_t i = 0; i < size; i += kPair) {
    const Pair a = Load(first + i);
    const Pair b = Load(second + i);
    less |= a - b;
    more |= b - a;
  }
  return {(less[0] | less[1]) >> 63 != 0, (more[0] | more[1]) >> 63 != 0};
}

void TakeLater(uint64_t* times, const uint64_t* others, uint32_t size) {
  for (uint32_t i = 0; i < size; i += kPair) {
    const Pair a = Load(times + i);
    const Pair difference = a - Load(others + i);
    const Pair is_less = Pair{} - (difference >> 63);  // all bits, or none
    const Pair later = a - (difference & is_less);
    std::memcpy(times + i, &later, sizeof later);
  }
}

// Memory of parts that have ended.  A step of a program ends about as many
// parts as it makes, which costs more in malloc than in all the rest.
class EndedParts {
 public:
  // nullptr if there is none with so many elements.
  void* Take(uint32_t elements) {
    Kept& kept = Of(elements);
    Link* const taken = kept.first;
    if (taken == nullptr) return nullptr;
    kept.first = taken->next;
    --kept.count;
    return taken;
  }
  // Returns false if the caller has to free the memory.
  bool Keep(void* memory, uint32_t elements) {
    Kept& kept = Of(elements);
    if (kept.count == kMost) return false;
    kept.first = new (memory) Link{kept.first};
    ++kept.count;
    return true;
  }

 private:
  static constexpr uint32_t kMost = 32;
  static constexpr uint32_t kSizes = 17;  // up to 128 elements
  // In the memory that is kept.
  struct Link {
    Link* next;
  };
  struct Kept {
    uint32_t count = 0;
    Link* first = nullptr;
  };
  Kept& Of(uint32_t elements) { return kept_[elements / kActorsAtOnce]; }

  Kept kept_[kSizes];
};
EndedParts g_ended;

bool IsEmpty(const uint64_t* times, uint32_t size) {
  return std::all_of(times, times + size,
                     [](uint64_t time) { return time == 0; });
}

}  // namespace

// kInPart actors are 7 bits, kBranches parts are 4.
uint32_t SharedTimes::ShiftAbove(uint32_t shift) {
  return shift == 0 ? 7 : shift + 4;
}
uint32_t SharedTimes::ShiftBelow(uint32_t shift) {
  return shift == 7 ? 0 : shift - 4;
}

// The elements are not set.
SharedTimes::Part* SharedTimes::Make(uint32_t room, uint32_t shift) {
  const uint32_t elements = shift == 0 ? room : kBranches;
  void* memory = g_ended.Take(elements);
  if (memory == nullptr) {
    memory = std::malloc(offsetof(Part, times) + sizeof(uint64_t) * elements);
  }
  if (memory == nullptr) throw std::bad_alloc();
  auto* const made = static_cast<Part*>(memory);
  made->uses = 1;
  made->room = room;
  made->shift = shift;
  return made;
}

void SharedTimes::End(Part* part) {
  uint32_t elements = part->room;
  if (part->shift != 0) {
    elements = kBranches;
    for (uint32_t i = 0; i < kBranches; ++i) Release(part->parts[i]);
  }
  if (!g_ended.Keep(part, elements)) std::free(part);
}

size_t SharedTimes::BytesOf(const Part* part) {
  if (part == nullptr) return 0;
  if (part->shift == 0) {
    return offsetof(Part, times) + sizeof(uint64_t) * part->room;
  }
  size_t bytes = offsetof(Part, parts) + sizeof(Part*) * kBranches;
  for (uint32_t i = 0; i < kBranches; ++i) bytes += BytesOf(part->parts[i]);
  return bytes;
}

void SharedTimes::OwnTimes(Part** slot, Actor actor) {
  Part* const before = *slot;
  const uint32_t room = before == nullptr ? 0 : before->room;
  if (actor < room && IsAlone(before)) return;
  // The room follows from the actor alone.  Sizes that follow from other sizes
  // grow without end as clocks learn from each other.
  const uint32_t wanted =
      actor < room ? room
                   : actor / kActorsAtOnce * kActorsAtOnce + kActorsAtOnce;
  Part* const made = MakeTimes(wanted);
  if (room != 0) {
    std::memcpy(made->times, before->times, sizeof(uint64_t) * room);
  }
  std::fill(made->times + room, made->times + wanted, 0);
  *slot = made;
  Release(before);
}

void SharedTimes::OwnParts(Part** slot, uint32_t shift) {
  Part* const before = *slot;
  if (before != nullptr && IsAlone(before)) return;
  Part* const made = MakeParts(shift);
  for (uint32_t i = 0; i < kBranches; ++i) {
    made->parts[i] = before == nullptr ? nullptr : Share(before->parts[i]);
  }
  *slot = made;
  Release(before);
}

void SharedTimes::Raise() {
  Part* const made = MakeParts(ShiftAbove(root_->shift));
  made->parts[0] = root_;
  std::fill(made->parts + 1, made->parts + kBranches, nullptr);
  root_ = made;
}

uint64_t SharedTimes::OfParts(Actor actor) const {
  const Part* part = root_;
  if (part->shift == 0 || actor >= kBranches << part->shift) return 0;
  while (part != nullptr && part->shift != 0) {
    const uint32_t shift = part->shift;
    part = part->parts[actor >> shift];
    actor &= (1U << shift) - 1;
  }
  return part != nullptr && actor < part->room ? part->times[actor] : 0;
}

void SharedTimes::SetInParts(Actor actor, uint64_t time) {
  if (root_ != nullptr && actor < root_->room) {
    // The most frequent case: an array that others share.
    Part* const made = MakeTimes(root_->room);
    for (uint32_t i = 0; i < root_->room; i += kActorsAtOnce) {
      std::memcpy(made->times + i, root_->times + i,
                  sizeof(uint64_t) * kActorsAtOnce);
    }
    made->times[actor] = time;
    Release(std::exchange(root_, made));
    return;
  }
  uint32_t shift = root_ == nullptr ? 0 : root_->shift;
  while (actor >= (shift == 0 ? kInPart : kBranches << shift)) {
    if (root_ != nullptr) Raise();
    shift = ShiftAbove(shift);
  }
  Part** slot = &root_;
  while (shift != 0) {
    OwnParts(slot, shift);
    slot = &(*slot)->parts[actor >> shift];
    actor &= (1U << shift) - 1;
    shift = ShiftBelow(shift);
  }
  OwnTimes(slot, actor);
  (*slot)->times[actor] = time;
}

void SharedTimes::JoinParts(const SharedTimes& other) {
  if (root_ == nullptr) {
    root_ = Share(other.root_);
    return;
  }
  while (root_->shift < other.root_->shift) Raise();
  if (root_->shift == other.root_->shift) {
    JoinInto(&root_, other.root_, true);
    return;
  }
  SharedTimes raised = other;
  while (raised.root_->shift < root_->shift) raised.Raise();
  JoinInto(&root_, raised.root_, true);
}

void SharedTimes::JoinInto(Part** slot, Part* other, bool alone) {
  Part* const mine = *slot;
  Part* const joined = Joined(mine, other, alone);
  if (joined == mine) return;
  *slot = joined == other ? Share(other) : joined;
  Release(mine);
}

SharedTimes::Part* SharedTimes::Joined(Part* mine, Part* other, bool alone) {
  if (mine->shift == 0) return JoinedTimes(mine, other, alone);
  alone = alone && IsAlone(mine);
  Part* joined[kBranches];
  bool is_mine = true;
  bool is_other = true;
  for (uint32_t i = 0; i < kBranches; ++i) {
    Part* const a = mine->parts[i];
    Part* const b = other->parts[i];
    if (a == b || b == nullptr) {
      joined[i] = a;
    } else {
      joined[i] = a == nullptr ? b : Joined(a, b, alone);
    }
    is_mine = is_mine && joined[i] == a;
    is_other = is_other && joined[i] == b;
  }
  // Then no part is new.
  if (is_mine) return mine;
  if (is_other) return other;
  Part* const made = alone ? mine : MakeParts(mine->shift);
  for (uint32_t i = 0; i < kBranches; ++i) {
    Part* const a = mine->parts[i];
    if (joined[i] == a) {
      if (!alone) made->parts[i] = Share(a);
      continue;
    }
    made->parts[i] =
        joined[i] == other->parts[i] ? Share(joined[i]) : joined[i];
    if (alone) Release(a);
  }
  return made;
}

SharedTimes::Part* SharedTimes::JoinedTimes(Part* mine, Part* other,
                                            bool alone) {
  const uint32_t room = mine->room;
  const uint32_t common = std::min(room, other->room);
  Lacks lacks = Compare(mine->times, other->times, common);
  if (other->room > common && !lacks.first) {
    lacks.first = !IsEmpty(other->times + common, other->room - common);
  }
  if (!lacks.first) return mine;
  if (room > common && !lacks.second) {
    lacks.second = !IsEmpty(mine->times + common, room - common);
  }
  if (!lacks.second) return other;
  Part* joined = mine;
  if (!alone || room < other->room || !IsAlone(mine)) {
    const uint32_t wanted = std::max(room, other->room);
    joined = MakeTimes(wanted);
    std::memcpy(joined->times, mine->times, sizeof(uint64_t) * room);
    std::fill(joined->times + room, joined->times + wanted, 0);
  }
  TakeLater(joined->times, other->times, other->room);
  return joined;
}

}  // namespace devrt::race
