// SPDX-License-Identifier: Apache-2.0
//
// Calls that the layer or the backend refuses leave nothing behind in the
// validate layer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/layers/validate_streams.h"

namespace devrt::testing {
namespace {

using ::testing::IsEmpty;

// The next call of the slot fails.
void Refuse(const char* slot) {
  SimulatedFault fault;
  fault.kind = SimulatedFault::Kind::kApi;
  fault.where = slot;
  fault.native_code = 2;
  EXPECT_OK(Must(Simulator::Get()).InjectFault(fault));
}

TEST(ValidateRefused, AUseOnTheHostIsNotRemembered) {
  InChild([] {
    setenv("DEVRT_RACE", "throw", 1);
    const TwoStreams s;
    void* const host = Must(AllocateHost(s.device, kBytes));
    EXPECT_OK(CopyAsync(s.a, host, s.block, kBytes));
    EXPECT_FALSE(validate::UseOnHost({Write(host, kBytes)}).ok());
    // After work that nothing orders after a write of the host, if the host had
    // written.
    EXPECT_OK(CopyAsync(s.b, s.block, s.block, 0));
    EXPECT_OK(s.a.Synchronize());
    EXPECT_OK(validate::UseOnHost({Write(host, kBytes)}));
    EXPECT_OK(FreeHost(host));
  });
}

TEST(ValidateRefused, ABlockWhoseFreeFailedMayBeUsed) {
  InChild([] {
    const TwoStreams s;
    const validate::Scope scope;
    Refuse("dealloc");
    EXPECT_FALSE(Free(s.device, s.block).ok());
    Use(s.a, Write(s.block, kBytes), "write");
    EXPECT_OK(s.a.Synchronize());
    EXPECT_THAT(KindsOf(scope), IsEmpty());
    EXPECT_OK(Free(s.device, s.block));
  });
}

TEST(ValidateRefused, AStreamOrderedBlockWhoseFreeFailedMayBeUsed) {
  InChild([] {
    const TwoStreams s;
    const auto driver = Must(DriverResource(s.device));
    void* const block = Must(driver->Allocate(s.a, kBytes));
    const validate::Scope scope;
    Refuse("dealloc_async");
    EXPECT_FALSE(driver->Deallocate(s.a, block, kBytes).ok());
    Use(s.a, Write(block, kBytes), "write");
    EXPECT_THAT(KindsOf(scope), IsEmpty());
  });
}

TEST(ValidateRefused, PinnedMemoryWhoseFreeFailedMayBeUsed) {
  InChild([] {
    const TwoStreams s;
    void* const host = Must(AllocateHost(s.device, kBytes));
    const validate::Scope scope;
    Refuse("host_dealloc");
    EXPECT_FALSE(FreeHost(host).ok());
    EXPECT_OK(CopyAsync(s.a, host, s.block, kBytes));
    EXPECT_OK(s.a.Synchronize());
    EXPECT_THAT(KindsOf(scope), IsEmpty());
    EXPECT_OK(FreeHost(host));
  });
}

}  // namespace
}  // namespace devrt::testing
