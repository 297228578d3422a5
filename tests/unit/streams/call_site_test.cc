// SPDX-License-Identifier: Apache-2.0
//
// The call site that a plugin sees is that of the call, or none: no other
// operation may be blamed (docs/reference/semantics.md 2.4).

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/support/mtia_fixture.h"
#include "tests/support/spy_backend.h"

namespace devrt::testing {
namespace {

class CallSiteTest : public ::testing::Test {
 protected:
  void SetUp() override {
    spy_.Reset();
    SpyBackend::SetNativeCurrent(SpyBackend::kNoContext);
  }
  // The last call of `slot` was made for `line` of this file; 0: for none.
  void ExpectLine(const char* slot, int line, const std::string& label = "") {
    SCOPED_TRACE(slot);
    const SpyBackend::Call call = spy_.Last(slot);
    EXPECT_EQ(call.file, line != 0 ? __FILE__ : "");
    EXPECT_EQ(call.line, line);
    EXPECT_EQ(call.label, label);
  }
  // A call whose site must not be seen again.
  void Decoy() {
    LaunchOptions options;
    const std::string name = "goes away";
    options.name = name.c_str();
    Must(Launch(
        stream_, {}, [](const LaunchContext&) {}, options));
  }

  SpyBackend& spy_ = SpyBackend::Get();
  Stream stream_ = Must(Stream::Create(spy_.device(0)));
};

TEST_F(CallSiteTest, LaunchCallsCarryTheirName) {
  LaunchOptions options;
  options.name = "scale";
  const int line = __LINE__ + 1;
  Must(Launch(
      stream_, {}, [](const LaunchContext&) {}, options));
  ExpectLine("stream_native", line, "scale");
  ExpectLine("context_enter", line, "scale");
  ExpectLine("context_exit", line, "scale");
}

TEST_F(CallSiteTest, CallsWithASiteShowTheirOwn) {
  const Device device = spy_.device(0);
  Event event = Must(Event::Create(device));
  Decoy();
  Must(event.Record(stream_));
  ExpectLine("event_record", __LINE__ - 1);
  Decoy();
  Must(stream_.Wait(event));
  ExpectLine("stream_wait_event", __LINE__ - 1);
  Must(event.Query());
  ExpectLine("event_query", __LINE__ - 1);
  Must(event.Synchronize());
  ExpectLine("event_sync", __LINE__ - 1);
  Must(stream_.Query());
  ExpectLine("stream_query", __LINE__ - 1);
  Must(stream_.Synchronize());
  ExpectLine("stream_sync", __LINE__ - 1);
  Must(device.Synchronize());
  ExpectLine("device_sync", __LINE__ - 1);
  void* const block = Must(Allocate(device, 64));
  ExpectLine("alloc", __LINE__ - 1);
  Must(FillAsync(stream_, block, 0, 64));
  ExpectLine("fill_async", __LINE__ - 1);
  Must(Free(device, block));
  ExpectLine("dealloc", __LINE__ - 1);
}

// The first look at a default stream belongs to the call that looks.
TEST_F(CallSiteTest, FirstLookAtADefaultStream) {
  Must(DefaultStream(spy_.device(1)).Synchronize());
  ExpectLine("stream_legacy", __LINE__ - 1);
}

TEST_F(CallSiteTest, CallsWithoutASiteShowNone) {
  const Device device = spy_.device(1);
  Decoy();
  {
    DeviceGuard guard(device);
    ExpectLine("context_enter", 0);
    Decoy();
  }
  ExpectLine("context_exit", 0);
  {
    Decoy();
    StreamGuard guard(stream_);
    ExpectLine("context_enter", 0);
    Must(stream_.Synchronize());
  }
  ExpectLine("context_exit", 0);
  Must(stream_.Synchronize());
  Must(SetCurrentDevice(device));
  ExpectLine("context_enter", 0);
  Decoy();
  Must(CurrentDevice("spy"));
  ExpectLine("context_current", 0);
  Decoy();
  std::optional<Stream> fresh = Must(Stream::Create(device, {-1, true}));
  ExpectLine("stream_create", 0);
  Must(fresh->Native());
  Decoy();
  fresh.reset();  // destroyed, as its handle was given away
  ExpectLine("stream_destroy", 0);
  Decoy();
  Must(device.GetMemoryInfo());
  ExpectLine("mem_info", 0);
}

// An error leaves no site behind either.
TEST_F(CallSiteTest, AfterAFailure) {
  spy_.Fail("stream_sync", absl::StatusCode::kInternal);
  EXPECT_FALSE(stream_.Synchronize().ok());
  spy_.Fail("device_sync", absl::StatusCode::kInternal);
  EXPECT_FALSE(spy_.device(0).Synchronize().ok());
  DeviceGuard guard(spy_.device(1));
  ExpectLine("context_enter", 0);
}

}  // namespace
}  // namespace devrt::testing
