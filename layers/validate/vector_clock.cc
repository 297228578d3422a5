// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/vector_clock.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

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

bool IsEmpty(const uint64_t* times, uint32_t size) {
  return std::all_of(times, times + size,
                     [](uint64_t time) { return time == 0; });
}

}  // namespace

VectorClock::Times* VectorClock::Times::Make(uint32_t size) {
  void* const memory =
      std::malloc(offsetof(Times, at) + sizeof(uint64_t) * size);
  if (memory == nullptr) throw std::bad_alloc();
  auto* const made = static_cast<Times*>(memory);
  new (&made->uses) std::atomic<uint32_t>(1);
  made->size = size;
  return made;
}

VectorClock::Times* VectorClock::Share(Times* times) {
  if (times != nullptr) {
    times->uses.fetch_add(1, std::memory_order_relaxed);
  }
  return times;
}

void VectorClock::Release(Times* times) {
  if (times != nullptr &&
      times->uses.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    std::free(times);
  }
}

VectorClock::VectorClock(const VectorClock& other)
    : own_(other.own_),
      submitter_(other.submitter_),
      times_(Share(other.times_)) {}

VectorClock::VectorClock(VectorClock&& other) noexcept
    : own_(other.own_),
      submitter_(other.submitter_),
      times_(std::exchange(other.times_, nullptr)),
      joined_(std::exchange(other.joined_, nullptr)) {}

VectorClock& VectorClock::operator=(VectorClock other) noexcept {
  std::swap(own_, other.own_);
  std::swap(submitter_, other.submitter_);
  std::swap(times_, other.times_);
  std::swap(joined_, other.joined_);
  return *this;
}

VectorClock::~VectorClock() {
  Release(times_);
  Release(joined_);
}

Epoch VectorClock::Tick() {
  ++own_.time;
  return own_;
}

void VectorClock::Own(Actor actor) {
  const uint32_t size = times_ == nullptr ? 0 : times_->size;
  if (actor < size && times_->uses.load(std::memory_order_acquire) == 1) return;
  // The size follows from the actor alone.  Sizes that follow from other sizes
  // grow without end as clocks learn from each other.
  const uint32_t wanted =
      actor < size ? size
                   : actor / kActorsAtOnce * kActorsAtOnce + kActorsAtOnce;
  Times* const made = Times::Make(wanted);
  if (size != 0) std::memcpy(made->at, times_->at, sizeof(uint64_t) * size);
  std::fill(made->at + size, made->at + wanted, 0);
  Release(times_);
  times_ = made;
}

void VectorClock::Learn(Epoch epoch) {
  if (epoch.time <= TimeOf(epoch.actor)) return;
  if (epoch.actor == own_.actor) {
    own_.time = epoch.time;
  } else if (epoch.actor == submitter_.actor) {
    submitter_.time = epoch.time;
  } else {
    Own(epoch.actor);
    times_->at[epoch.actor] = epoch.time;
  }
}

void VectorClock::JoinTimes(Times* other) {
  if (other == times_ || other == nullptr) return;
  const uint32_t size = times_ == nullptr ? 0 : times_->size;
  const uint32_t common = std::min(size, other->size);
  Lacks lacks;
  if (common != 0) lacks = Compare(times_->at, other->at, common);
  if (other->size > common && !lacks.first) {
    lacks.first = !IsEmpty(other->at + common, other->size - common);
  }
  if (size > common && !lacks.second) {
    lacks.second = !IsEmpty(times_->at + common, size - common);
  }
  if (!lacks.first) return;
  if (!lacks.second) {
    Release(times_);
    times_ = Share(other);
    return;
  }
  Own(other->size - 1);
  TakeLater(times_->at, other->at, other->size);
}

void VectorClock::Join(const VectorClock& other) {
  JoinTimes(other.times_);
  Learn(other.own_);
  Learn(other.submitter_);
}

void VectorClock::JoinSubmitter(const VectorClock& thread) {
  if (submitter_.actor != thread.own_.actor) {
    // The next line must not lose the time of the thread before.
    const Epoch before = std::exchange(submitter_, {thread.own_.actor, 0});
    if (before.actor != kNoActor) Learn(before);
  }
  submitter_.time = std::max(submitter_.time, thread.own_.time);
  if (thread.times_ == joined_) return;
  JoinTimes(thread.times_);
  Times* const now = Share(thread.times_);
  Release(joined_);
  joined_ = now;
}

}  // namespace devrt::race
