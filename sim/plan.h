// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_SIM_PLAN_H_
#define DEVRT_SIM_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace devrt::sim {

// Chooses the strategy and the seed of each run: strategies that never vary
// once, then the others in turn.
class Plan {
 public:
  // No strategies: the portfolio.
  Plan(uint64_t runs, uint64_t seed, std::vector<std::string> strategies);

  struct Schedule {
    std::string strategy;
    uint64_t seed;
  };
  // The next schedule, or nullopt at the end.
  std::optional<Schedule> Next();

 private:
  const uint64_t runs_;
  const uint64_t seed_;
  std::vector<std::string> once_;
  std::vector<std::string> in_turn_;
  uint64_t made_ = 0;
};

// The number of DEVRT_SIM_SEED, or a new one.  nullopt and `*error`: the
// variable has another value.
std::optional<uint64_t> SeedFromEnvironment(std::string* error);

}  // namespace devrt::sim

#endif  // DEVRT_SIM_PLAN_H_
