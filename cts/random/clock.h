// SPDX-License-Identifier: Apache-2.0
//
// Vector clocks over the actors of a program: host threads and streams
// (docs/reference/semantics.md 1.14).

#ifndef DEVRT_CTS_RANDOM_CLOCK_H_
#define DEVRT_CTS_RANDOM_CLOCK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace devrt::cts {

// One action of an actor: its number among the actor's actions.
struct Epoch {
  int actor = -1;
  uint32_t tick = 0;
};

class Clock {
 public:
  Clock() = default;
  explicit Clock(int actors) : ticks_(static_cast<size_t>(actors)) {}

  uint32_t of(int actor) const { return ticks_[static_cast<size_t>(actor)]; }
  bool Has(Epoch e) const { return of(e.actor) >= e.tick; }
  Epoch Tick(int actor) {
    return {actor, ++ticks_[static_cast<size_t>(actor)]};
  }
  void Join(const Clock& other) {
    for (size_t i = 0; i < ticks_.size(); ++i) {
      ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
    }
  }
  // Returns true if this clock covers `other` for every actor from number
  // `first` on.
  bool HasAll(const Clock& other, int first) const {
    for (auto i = static_cast<size_t>(first); i < ticks_.size(); ++i) {
      if (ticks_[i] < other.ticks_[i]) return false;
    }
    return true;
  }

 private:
  std::vector<uint32_t> ticks_;
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_CLOCK_H_
