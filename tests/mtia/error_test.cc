// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/common/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_host.h"

namespace devrt::mtia {
namespace {

using test::OwnedStatus;
using testing::AllOf;
using testing::HasSubstr;

class ErrorTest : public testing::Test {
 protected:
  ErrorTest() { g_host = host_.table(); }
  ~ErrorTest() override { EXPECT_EQ(host_.live_errors(), 0); }

  test::FakeHost host_;
};

TEST_F(ErrorTest, NativeCodesFollowTheTable) {
  const struct {
    int32_t number;
    devrt_code code;
    bool sticky;
    const char* name;
  } cases[] = {
      {0, DEVRT_OK, false, "cudaSuccess"},
      {1, DEVRT_INVALID_ARGUMENT, false, "cudaErrorInvalidValue"},
      {2, DEVRT_RESOURCE_EXHAUSTED, false, "cudaErrorMemoryAllocation"},
      {46, DEVRT_UNAVAILABLE, false, "cudaErrorDevicesUnavailable"},
      {127, DEVRT_UNAVAILABLE, false, "cudaErrorStartupFailure"},
      {214, DEVRT_DATA_LOSS, true, "cudaErrorECCUncorrectable"},
      {217, DEVRT_UNIMPLEMENTED, false, "cudaErrorPeerAccessUnsupported"},
      {400, DEVRT_INVALID_ARGUMENT, false, "cudaErrorInvalidResourceHandle"},
      {700, DEVRT_INTERNAL, true, "cudaErrorIllegalAddress"},
      {701, DEVRT_RESOURCE_EXHAUSTED, false, "cudaErrorLaunchOutOfResources"},
      {702, DEVRT_DEADLINE_EXCEEDED, true, "cudaErrorLaunchTimeout"},
      {704, DEVRT_ALREADY_EXISTS, false, "cudaErrorPeerAccessAlreadyEnabled"},
      {719, DEVRT_INTERNAL, true, "cudaErrorLaunchFailure"},
      {911, DEVRT_INTERNAL, true, "cudaErrorExternalDevice"},
      {999, DEVRT_UNKNOWN, false, "cudaErrorUnknown"},
      // Not in the table.
      {10, DEVRT_INTERNAL, false, "cudaErrorUnknown"},
      {-1, DEVRT_INTERNAL, false, "cudaErrorUnknown"},
      {1052, DEVRT_INTERNAL, false, "cudaErrorUnknown"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(CodeOfNative(c.number), c.code) << c.number;
    EXPECT_EQ(IsSticky(c.number), c.sticky) << c.number;
    EXPECT_STREQ(NativeName(c.number), c.name);
  }
}

TEST_F(ErrorTest, LocalErrorsCarryTheNativeCode) {
  const OwnedStatus status = MakeError(DEVRT_NOT_FOUND, 713, "no such range");
  EXPECT_EQ(status.code(), DEVRT_NOT_FOUND);
  EXPECT_EQ(status.text(), "no such range");
  EXPECT_EQ(status.native_code(), 713);
  EXPECT_EQ(status.native_name(), "cudaErrorHostMemoryNotRegistered");
  EXPECT_EQ(status.flags(), 0u);
  EXPECT_EQ(status.device(), -1);

  const OwnedStatus own = MakeError(DEVRT_FAILED_PRECONDITION, 0, "no");
  EXPECT_EQ(own.native_code(), 0);
  EXPECT_EQ(own.native_name(), "");
}

TEST_F(ErrorTest, FaultsAreStickyAndAsynchronous) {
  Fault fault;
  EXPECT_FALSE(fault);
  fault.native_code = 700;
  fault.device = 1;
  fault.text = "\"scale\" at train.cc:52 wrote to freed memory";
  EXPECT_TRUE(fault);
  const OwnedStatus status = MakeFaultStatus(fault, "stream_sync");
  EXPECT_EQ(status.code(), DEVRT_INTERNAL);
  EXPECT_EQ(status.native_code(), 700);
  EXPECT_EQ(status.native_name(), "cudaErrorIllegalAddress");
  EXPECT_EQ(status.flags(), DEVRT_ERROR_STICKY | DEVRT_ERROR_ASYNC);
  EXPECT_EQ(status.device(), 1);
  EXPECT_EQ(status.entry_point(), "stream_sync");
  EXPECT_EQ(status.text(), fault.text);  // the host adds the rest

  fault.process = true;
  const OwnedStatus lost = MakeFaultStatus(fault, nullptr);
  EXPECT_EQ(lost.flags(),
            DEVRT_ERROR_STICKY | DEVRT_ERROR_ASYNC | DEVRT_ERROR_PROCESS);
  EXPECT_EQ(lost.entry_point(), "");
}

}  // namespace
}  // namespace devrt::mtia
