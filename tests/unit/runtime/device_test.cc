// SPDX-License-Identifier: Apache-2.0
//
// Devices: strings, indices, properties, the current device.

#include "devrt/runtime/device.h"

#include <gtest/gtest.h>

#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_set>
#include <utility>

#include "absl/hash/hash_testing.h"
#include "runtime/registry/records.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/runtime/fake_backend.h"

namespace devrt {
namespace {

using ::testing::AllOf;
using testing::FakeBackend;
using testing::FakeFailure;
using ::testing::HasSubstr;
using testing::kInvalid;
using testing::Must;
using ::testing::Not;
using ::testing::StartsWith;
using testing::StatusIs;

FakeBackend& Fake() {
  static FakeBackend& fake = FakeBackend::Register("fake", 2);
  return fake;
}
FakeBackend& Other() {
  static FakeBackend& other = FakeBackend::Register("other", 3);
  return other;
}
FakeBackend& NoDevices() {
  static FakeBackend& none = FakeBackend::Register("none", 0);
  return none;
}

class DeviceTest : public ::testing::Test {
 protected:
  DeviceTest() {
    Fake();
    Other();
  }
};

TEST_F(DeviceTest, NamesGoBothWays) {
  for (const char* name : {"fake:0", "fake:1", "other:2"}) {
    Device device = Must(GetDevice(name));
    EXPECT_EQ(device.name(), name);
    EXPECT_EQ(Must(GetDevice(device.backend().name(), device.index())), device);
    std::ostringstream text;
    text << device;
    EXPECT_EQ(text.str(), name);
  }
}

TEST_F(DeviceTest, BadStrings) {
  const std::string strings[] = {"",
                                 ":",
                                 ":0",
                                 "fake:",
                                 "fake:-1",
                                 "fake:+1",
                                 "fake: 1",
                                 "fake:01",
                                 "fake:0x1",
                                 "fake:1 ",
                                 "fake:1:1",
                                 "Fake",
                                 "fake.0",
                                 " fake",
                                 "0fake",
                                 "_fake",
                                 "fake:0\n",
                                 "\xff\xfe",
                                 "fake:\xd9\xa1",
                                 "averylongbackendnameofthirtytwoch"};
  for (const std::string& text : strings) {
    EXPECT_THAT(GetDevice(text),
                StatusIs(kInvalid, StartsWith("Invalid device string: '")))
        << text;
  }
  EXPECT_THAT(GetDevice("fake:-1"),
              StatusIs(kInvalid, StartsWith("Invalid device string: "
                                            "'fake:-1': expected")));
  EXPECT_THAT(
      GetDevice(std::string_view("fake\0", 5)),
      StatusIs(kInvalid, StartsWith("Invalid device string: 'fake\\000'")));
}

TEST_F(DeviceTest, ForgottenColon) {
  EXPECT_THAT(GetDevice("cuda0"),
              StatusIs(kInvalid, AllOf(StartsWith("Invalid device string: "
                                                  "'cuda0'"),
                                       HasSubstr("did you mean 'cuda:0'?"))));
  EXPECT_THAT(GetDevice("fake1"),
              StatusIs(kInvalid, HasSubstr("did you mean 'fake:1'?")));
}

TEST_F(DeviceTest, MistypedBackend) {
  for (const auto& [text, hint] :
       {std::pair("cudda", "did you mean \"cuda\"?"),
        std::pair("fakee:1", "did you mean \"fake\"?")}) {
    EXPECT_THAT(GetDevice(text),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr(hint)));
  }
  EXPECT_THAT(GetDevice("cudda1"),
              StatusIs(kInvalid, HasSubstr("did you mean 'cuda:1'?")));
  for (const char* const text : {"acme", "cuda", "cuda:0"}) {
    EXPECT_THAT(GetDevice(text), StatusIs(absl::StatusCode::kNotFound,
                                          Not(HasSubstr("did you mean"))));
  }
}

TEST_F(DeviceTest, NameOfADtype) {
  for (const char* const text :
       {"float32", "bfloat16", "int8", "bool", "float8_e4m3fn"}) {
    EXPECT_THAT(GetDevice(text),
                StatusIs(kInvalid, AllOf(HasSubstr("the name of a dtype"),
                                         Not(HasSubstr("did you mean")))))
        << text;
  }
}

TEST_F(DeviceTest, LongStringsAreCut) {
  for (const std::string& text :
       {std::string(1 << 20, 'x'), std::string(1 << 20, '\n'),
        "fake:" + std::string(1 << 20, '9')}) {
    const absl::Status status = GetDevice(text).status();
    EXPECT_EQ(status.code(), kInvalid);
    EXPECT_LT(status.message().size(), 600u);
  }
  EXPECT_THAT(GetDevice(std::string(1 << 20, 'x')),
              StatusIs(kInvalid, HasSubstr("(1048576 bytes)")));
}

TEST_F(DeviceTest, IndexOutOfRange) {
  EXPECT_THAT(GetDevice("fake:99"),
              StatusIs(kInvalid,
                       "Device index value 99 is out of index range [0, 2): "
                       "backend \"fake\" has 2 devices"));
  EXPECT_THAT(GetDevice("fake", 2),
              StatusIs(kInvalid, StartsWith("Device index value 2 is out of "
                                            "index range [0, 2)")));
  EXPECT_THAT(GetDevice("fake", -1),
              StatusIs(kInvalid, StartsWith("Device index value -1 is out of "
                                            "index range [0, 2)")));
  for (int64_t index :
       {std::numeric_limits<int64_t>::min(),
        std::numeric_limits<int64_t>::max(),
        int64_t{std::numeric_limits<int>::max()} + 1, int64_t{1} << 32}) {
    EXPECT_THAT(GetDevice("other", index),
                StatusIs(kInvalid, HasSubstr(" is out of index range [0, 3)")));
  }
  EXPECT_THAT(
      GetDevice("fake:18446744073709551616"),
      StatusIs(kInvalid, StartsWith("Device index value 18446744073709551616 "
                                    "is out of index range [0, 2)")));
}

TEST_F(DeviceTest, UnknownBackends) {
  EXPECT_THAT(GetDevice("acme"), StatusIs(absl::StatusCode::kNotFound,
                                          StartsWith("no backend \"acme\"")));
  EXPECT_THAT(GetDevice("acme:0"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("known backends"), HasSubstr("fake"),
                             HasSubstr("other"))));
  EXPECT_THAT(Devices("acme"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("acme")));
  EXPECT_THAT(CurrentDevice("acme"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("acme")));
}

TEST_F(DeviceTest, BackendWithoutDevices) {
  NoDevices();
  EXPECT_TRUE(Must(Devices("none")).empty());
  EXPECT_THAT(GetDevice("none"), StatusIs(absl::StatusCode::kUnavailable,
                                          HasSubstr("has no devices")));
  EXPECT_THAT(GetDevice("none:0"),
              StatusIs(kInvalid, HasSubstr("out of index range [0, 0)")));
}

TEST_F(DeviceTest, DevicesAreListedByIndex) {
  const std::vector<Device> devices = Must(Devices("other"));
  ASSERT_EQ(devices.size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(devices[i].index(), i);
  EXPECT_EQ(Fake().backend().devices().size(), 2u);
  EXPECT_GE(AllDevices().size(), 5u);
}

TEST_F(DeviceTest, AreValues) {
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(AllDevices()));
  std::unordered_set<Device> set;
  for (Device device : AllDevices()) set.insert(device);
  EXPECT_EQ(set.size(), AllDevices().size());
  EXPECT_TRUE(Fake().device(0) < Fake().device(1));
  EXPECT_NE(Fake().device(0), Other().device(0));
  EXPECT_NE(Fake().device(0) < Other().device(0),
            Other().device(0) < Fake().device(0));
}

TEST_F(DeviceTest, CurrentDeviceIsPerThread) {
  ASSERT_OK(SetCurrentDevice(Fake().device(1)));
  EXPECT_EQ(Must(CurrentDevice("fake")).index(), 1);
  EXPECT_EQ(Must(GetDevice("fake")).index(), 1);
  std::thread([] { EXPECT_EQ(Must(CurrentDevice("fake")).index(), 0); }).join();
  ASSERT_OK(SetCurrentDevice(Fake().device(0)));
}

TEST_F(DeviceTest, WrongCurrentDeviceIsTheBackendsFault) {
  ASSERT_OK(SetCurrentDevice(Other().device(2)));  // the fakes share it
  EXPECT_THAT(CurrentDevice("fake"),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("device 2")));
  ASSERT_OK(SetCurrentDevice(Other().device(0)));
}

TEST_F(DeviceTest, PropertiesAreQueriedOnce) {
  Device device = Other().device(1);
  const DeviceProperties first = Must(device.Properties());
  const int calls = Other().Calls("device_props");
  EXPECT_EQ(Must(device.Properties()), first);
  EXPECT_EQ(Other().Calls("device_props"), calls);
  EXPECT_EQ(first.name, "fake device 1");
  EXPECT_EQ(first.arch, "fake");
  EXPECT_EQ(first.total_memory, FakeBackend::kCapacity);
  EXPECT_EQ(first.capabilities, FakeBackend::kCapabilities);
  EXPECT_EQ(first.uuid_string(), "00010203-0405-0607-0809-0a0b0c0d0e0f");
  EXPECT_NE(Must(Other().device(0).Properties()), first);
}

TEST_F(DeviceTest, FailedPropertiesAreQueriedAgain) {
  FakeBackend& fake = FakeBackend::Register("props", 1);
  Device device = fake.device(0);
  fake.Fail("device_props", FakeFailure());
  EXPECT_FALSE(device.Properties().ok());
  EXPECT_TRUE(device.Properties().ok());
}

TEST_F(DeviceTest, MemoryInfo) {
  const MemoryInfo info = Must(Fake().device(0).GetMemoryInfo());
  EXPECT_EQ(info.total_bytes, FakeBackend::kCapacity);
  EXPECT_LE(info.free_bytes, FakeBackend::kCapacity - FakeBackend::kOverhead);
}

// C42
TEST_F(DeviceTest, RefusedInHostFunctions) {
  Device device = Fake().device(0);
  internal::HostFunctionScope inside;
  const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr("was called inside a host function"));
  EXPECT_THAT(device.Synchronize(), refused);
  EXPECT_THAT(device.GetMemoryInfo(), refused);
  EXPECT_THAT(SetCurrentDevice(device), refused);
  EXPECT_OK(device.Properties());
  EXPECT_OK(device.Health());
  EXPECT_OK(CurrentDevice("fake"));
  EXPECT_OK(GetDevice("fake:1"));
}

}  // namespace
}  // namespace devrt
