// SPDX-License-Identifier: Apache-2.0
//
// For each join of arrays/ a copy of it without that join, and the
// programs that show it.  Both are in
// tests/mutation/planted/table/arrays_order.py.

#include <string>

#include "order_mutants.h"
#include "tests/arrays/arrays_fixture.h"
#include "tests/arrays/order/litmus.h"

namespace devrt::testing {

Mutant g_mutant = Mutant::kNone;

namespace {

class ArrayMutants : public ArraysTest {};

// Returns true if some schedule shows that the program is wrong.
bool IsCaught(const Kill& kill) {
  const Litmus* program = nullptr;
  for (const Litmus& litmus : AllLitmus()) {
    if (std::string(litmus.name) == kill.program) program = &litmus;
  }
  if (program == nullptr) return false;
  bool caught = false;
  g_mutant = kill.mutant;
  for (const char* schedule : {"hw", "alap", "lifo", "asap", "random,seed=1",
                               "random,seed=2", "random,seed=3"}) {
    MtiaTest::Reset(std::string("strategy=") + schedule);
    caught = !program->run();
    for (int i = 0; i < MtiaTest::kDevices; ++i) {
      Must(MtiaTest::dev(i).Synchronize());
    }
    if (caught) break;
  }
  g_mutant = Mutant::kNone;
  return caught;
}

TEST_F(ArrayMutants, EachIsCaught) {
  for (const Kill& kill : kKills) {
    EXPECT_TRUE(IsCaught(kill)) << kill.name << " by " << kill.program;
  }
}

TEST_F(ArrayMutants, ProgramsAreRightWithoutAMutant) {
  for (const Litmus& litmus : AllLitmus()) {
    EXPECT_TRUE(litmus.run()) << litmus.name;
  }
}

}  // namespace
}  // namespace devrt::testing
