// SPDX-License-Identifier: Apache-2.0
//
// When the simulator begins to schedule the threads of a program.  One test, so
// that nothing has used the simulator before.
#include "devrt/runtime/turns.h"

#include <gtest/gtest.h>

#include "devrt/devrt.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

TEST(Turns, AProgramThatListsTheDevicesIsNotScheduled) {
  ASSERT_FALSE(AllDevices().empty());
  const Device device = Must(GetDevice("mtia:0"));
  EXPECT_EQ(internal::g_turns.load(), nullptr);
  const Stream stream = Must(Stream::Create(device));
  EXPECT_NE(internal::g_turns.load(), nullptr);
}

}  // namespace
}  // namespace devrt::testing
