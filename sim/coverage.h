// SPDX-License-Identifier: Apache-2.0
//
// Counts which schedules a set of runs has covered.
//
// Two runs are equal if they have the same operations, and the same order of
// every two that conflict: that use one memory, one of them to write.  Such a
// class of runs is a Mazurkiewicz trace.  Its hash is a sum over the pairs that
// conflict, in their order, so what else ran in between does not matter.

#ifndef DEVRT_SIM_COVERAGE_H_
#define DEVRT_SIM_COVERAGE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "devrt/sim/explore.h"

namespace devrt::sim {

// "\"copy H2D\" (a.cc:17)"
std::string NameOf(const SimulatedOp& op);

// Equal for the runs of one Mazurkiewicz trace.
uint64_t HashOfTrace(const Run& run);

// Two operations of one run, by their index.
struct TurnedPair {
  size_t first;  // ran first here, and second in the other run
  size_t second;
};
// The conflicting operations of `run` whose order differs in `other`.
std::vector<TurnedPair> TurnedPairs(const Run& run, const Run& other);

// Counts the traces and the orders of a set of runs.
class Coverage {
 public:
  void Add(const Run& run);
  // Fills the counts of `result`.
  void Report(Result* result) const;

 private:
  struct Pair {
    std::string names;  // of the first two operations that are such a pair
    bool orders[2] = {false, false};
  };
  void AddPairs(const std::vector<SimulatedOp>& operations);

  uint64_t schedules_ = 0;
  absl::flat_hash_set<uint64_t> traces_;
  std::map<uint64_t, Pair> pairs_;
};

}  // namespace devrt::sim

#endif  // DEVRT_SIM_COVERAGE_H_
