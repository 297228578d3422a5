// SPDX-License-Identifier: Apache-2.0
//
// The validate layer on host functions that declare what they use.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/layers/validate_streams.h"

namespace devrt::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ValidateHostFunction, AFunctionConflictsWithWorkThatItDoesNotComeAfter) {
  InChild([] {
    const TwoStreams s;
    void* const host = Must(AllocateHost(s.device, kBytes));
    const validate::Scope scope;
    const auto nothing = [](const absl::Status&) {};
    EXPECT_OK(CopyAsync(s.a, host, s.block, kBytes));
    const CallSite line = CallSite::Here();
    EXPECT_OK(LaunchHostFunc(s.b, {Read(host, kBytes)}, nothing));
    EXPECT_THAT(KindsOf(scope), ElementsAre("read-after-write"));
    const std::string text = scope.Findings()[0].text;
    EXPECT_THAT(text, HasSubstr("read \"host function\""));
    EXPECT_THAT(text, HasSubstr("validate_host_function_test.cc:" +
                                std::to_string(line.line + 1)));
    EXPECT_OK(s.device.Synchronize());
    EXPECT_OK(FreeHost(host));
  });
}

TEST(ValidateHostFunction, LaterWorkConflictsWithTheFunction) {
  InChild([] {
    const TwoStreams s;
    void* const host = Must(AllocateHost(s.device, kBytes));
    const validate::Scope scope;
    EXPECT_OK(LaunchHostFunc(s.a, {ReadWrite(host, kBytes)},
                             [](const absl::Status&) {}));
    EXPECT_OK(CopyAsync(s.b, s.block, host, kBytes));
    EXPECT_THAT(KindsOf(scope), ElementsAre("read-after-write"));
    EXPECT_OK(s.device.Synchronize());
    EXPECT_OK(FreeHost(host));
  });
}

TEST(ValidateHostFunction, AFunctionUsesPinnedMemoryThatItDeclares) {
  InChild([] {
    const TwoStreams s;
    auto* const host =
        static_cast<volatile char*>(Must(AllocateHost(s.device, kBytes)));
    char* const block = const_cast<char*>(host);
    const validate::Scope scope;
    EXPECT_OK(CopyAsync(s.a, block, s.block, kBytes));
    EXPECT_OK(LaunchHostFunc(s.a, {ReadWrite(block, kBytes)},
                             [host](const absl::Status&) { host[0] = 4; }));
    EXPECT_OK(s.b.Wait(s.a));
    EXPECT_OK(CopyAsync(s.b, s.block, block, kBytes));
    EXPECT_OK(s.device.Synchronize());
    EXPECT_EQ(host[0], 4);
    EXPECT_THAT(KindsOf(scope), IsEmpty());
    EXPECT_OK(FreeHost(block));
  });
}

TEST(ValidateHostFunction, ThrowRefusesTheFunctionItself) {
  InChild([] {
    setenv("DEVRT_RACE", "throw", 1);
    const TwoStreams s;
    void* const host = Must(AllocateHost(s.device, kBytes));
    EXPECT_OK(CopyAsync(s.a, host, s.block, kBytes));
    bool ran = false;
    const absl::Status refused = LaunchHostFunc(
        s.b, {Write(host, kBytes)}, [&](const absl::Status&) { ran = true; });
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("write-after-write"));
    EXPECT_OK(s.device.Synchronize());
    EXPECT_FALSE(ran);
    EXPECT_OK(CopyAsync(s.a, host, s.block, kBytes));
    // The declaration was for the refused function alone.
    EXPECT_OK(LaunchHostFunc(s.b, [](const absl::Status&) {}));
    EXPECT_OK(s.device.Synchronize());
    EXPECT_OK(FreeHost(host));
  });
}

TEST(ValidateHostFunction, WithoutTheLayerADeclarationDoesNothing) {
  InChild([] {
    const Device device = Must(GetDevice("mtia:0"));
    const Stream stream = Must(Stream::Create(device));
    int word = 0;
    EXPECT_OK(LaunchHostFunc(stream, {Write(&word, sizeof word)},
                             [&](const absl::Status&) { word = 1; }));
    EXPECT_OK(stream.Synchronize());
    EXPECT_EQ(word, 1);
  });
}

}  // namespace
}  // namespace devrt::testing
