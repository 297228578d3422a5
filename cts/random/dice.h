// SPDX-License-Identifier: Apache-2.0
//
// Random choices that a seed determines, on every machine alike.

#ifndef DEVRT_CTS_RANDOM_DICE_H_
#define DEVRT_CTS_RANDOM_DICE_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace devrt::cts {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}

  // A number from 0 to n - 1; n > 0.
  int Below(int n) {
    return static_cast<int>(engine_() % static_cast<uint64_t>(n));
  }
  int Between(int low, int high) { return low + Below(high - low + 1); }
  bool Percent(int percent) { return Below(100) < percent; }
  template <typename T>
  const T& Of(const std::vector<T>& from) {
    return from[static_cast<size_t>(Below(static_cast<int>(from.size())))];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_DICE_H_
