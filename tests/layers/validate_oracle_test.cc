// SPDX-License-Identifier: Apache-2.0
//
// The proof of the detector: on correct programs it finds nothing, and on the
// programs that have one wait, record or synchronisation less, it finds the
// races of an oracle that knows all operations.
#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>

#include "tests/layers/validate_oracle_compare.h"
#include "tests/layers/validate_oracle_generator.h"

namespace devrt::race::oracle {
namespace {

constexpr uint64_t kOrders = 10'000;  // programs whose order is compared
constexpr uint64_t kCorrectPrograms = 1'300;  // of this generator
constexpr uint64_t kCtsPrograms = 800;        // of the conformance suite
constexpr int kFewestMutants = 10'000;        // of each generator
// A program that differs is printed, and so are the next few.
constexpr int kMostDifferences = 3;

struct Count {
  int programs = 0;
  int mutants = 0;
  int racing = 0;  // mutants that have a race
  int differences = 0;
};

// Compares the program and its mutants.
void Prove(const Program& program, Count* count) {
  const auto differs = [&](const Comparison& c) {
    if (c.difference.empty()) return false;
    ADD_FAILURE() << c.difference;
    ++count->differences;
    return true;
  };
  ++count->programs;
  const Comparison whole = Compare(program);
  if (differs(whole)) return;
  EXPECT_FALSE(whole.has_race) << ToText(program);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    if (!IsEdge(program.steps[i])) continue;
    const Comparison mutant = Compare(Without(program, i));
    ++count->mutants;
    if (mutant.has_race) ++count->racing;
    EXPECT_EQ(mutant.has_race, mutant.has_finding);
    if (differs(mutant)) return;
  }
}

Count ProveAll(Program (*make)(uint64_t), uint64_t programs) {
  Count count;
  for (uint64_t seed = 1; seed <= programs; ++seed) {
    SCOPED_TRACE(seed);
    Prove(make(seed), &count);
    if (count.differences >= kMostDifferences) break;
  }
  std::cout << count.programs << " programs, " << count.mutants
            << " mutants, of them " << count.racing << " with a race\n";
  EXPECT_GE(count.mutants, kFewestMutants);
  EXPECT_GT(count.racing, count.mutants / 10);
  EXPECT_LT(count.racing, count.mutants);
  return count;
}

TEST(ValidateOracle, TheOrderOfEveryTwoOperationsIsThatOfTheGraph) {
  int differences = 0;
  for (uint64_t seed = 1; seed <= kOrders; ++seed) {
    const std::string difference = CompareOrder(WildProgram(seed));
    if (difference.empty()) continue;
    ADD_FAILURE() << "seed " << seed << "\n" << difference;
    if (++differences == kMostDifferences) return;
  }
}

TEST(ValidateOracle, AWildProgramHasTheRacesOfTheGraph) {
  int differences = 0;
  for (uint64_t seed = 1; seed <= kCorrectPrograms; ++seed) {
    const Comparison wild = Compare(WildProgram(seed));
    if (wild.difference.empty()) continue;
    ADD_FAILURE() << "seed " << seed << "\n" << wild.difference;
    if (++differences == kMostDifferences) return;
  }
}

TEST(ValidateOracle, MutantsOfCorrectProgramsHaveTheRacesOfTheGraph) {
  ProveAll(&CorrectProgram, kCorrectPrograms);
}

TEST(ValidateOracle, MutantsOfProgramsOfTheSuiteHaveTheRacesOfTheGraph) {
  ProveAll(&ProgramOfCts, kCtsPrograms);
}

}  // namespace
}  // namespace devrt::race::oracle
