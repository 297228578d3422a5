// SPDX-License-Identifier: Apache-2.0
//
// A program with tests for validate_api_test.cc: one whose work is ordered,
// and one whose work is not.

#include <gtest/gtest.h>

#include "devrt/devrt.h"
#include "devrt/streams/validate_gtest.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

constexpr uint64_t kBytes = 64;

void WriteOnTwoStreams(bool ordered) {
  const Device device = Must(GetDevice("mtia:0"));
  const Stream a = Must(Stream::Create(device));
  const Stream b = Must(Stream::Create(device));
  void* const block = Must(Allocate(device, kBytes));
  EXPECT_OK(FillAsync(a, block, 1, kBytes));
  const Event event = Must(Event::Create(device));
  EXPECT_OK(event.Record(a));
  if (ordered) {
    EXPECT_OK(b.Wait(event));
  }
  EXPECT_OK(FillAsync(b, block, 2, kBytes));
  EXPECT_OK(device.Synchronize());
  EXPECT_OK(Free(device, block));
}

TEST(Listener, OrderedWorkPasses) { WriteOnTwoStreams(true); }
TEST(Listener, UnorderedWorkFails) { WriteOnTwoStreams(false); }

}  // namespace
}  // namespace devrt::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  devrt::validate::FailOnFindings::Install();
  return RUN_ALL_TESTS();
}
