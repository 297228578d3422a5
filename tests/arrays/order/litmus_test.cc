// SPDX-License-Identifier: Apache-2.0
//
// The programs of litmus.h are right in every schedule.

#include "tests/arrays/order/litmus.h"

#include "tests/arrays/arrays_fixture.h"

namespace devrt::testing {
namespace {

class LitmusTest : public ArraysTest {};

TEST_F(LitmusTest, RightInEverySchedule) {
  for (const Litmus& litmus : AllLitmus()) {
    SCOPED_TRACE(litmus.name);
    InEverySchedule([&] {
      EXPECT_TRUE(litmus.run());
      ExpectNothingLeft();
    });
  }
}

}  // namespace
}  // namespace devrt::testing
