// SPDX-License-Identifier: Apache-2.0
//
// The calling thread's current device: one per backend, one truth with the
// native one (C1, C2, C3, C107, F2).

#include <climits>
#include <memory>
#include <random>
#include <thread>

#include "runtime/plugins/host_table.h"
#include "runtime/registry/records.h"
#include "tests/support/mtia_fixture.h"
#include "tests/support/spy_backend.h"

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;

class CurrentDeviceTest : public MtiaTest {
 protected:
  void SetUp() override {
    MtiaTest::SetUp();
    spy().Reset();
  }
  void TearDown() override {
    SpyBackend::SetNativeCurrent(SpyBackend::kNoContext);
    MtiaTest::TearDown();
  }
  static SpyBackend& spy() { return SpyBackend::Get(); }
};

// C1
TEST_F(CurrentDeviceTest, EachThreadStartsOnDeviceZero) {
  Must(SetCurrentDevice(dev(1)));
  std::thread([&] {
    EXPECT_EQ(Current(), dev(0));
    Must(SetCurrentDevice(dev(2)));
    EXPECT_EQ(Current(), dev(2));
  }).join();
  EXPECT_EQ(Current(), dev(1));
}

// C1
TEST_F(CurrentDeviceTest, BackendsAreIndependent) {
  Must(SetCurrentDevice(spy().device(1)));
  EXPECT_EQ(Current("mtia"), dev(0));
  Must(SetCurrentDevice(dev(3)));
  EXPECT_EQ(Current("spy"), spy().device(1));
  EXPECT_EQ(Must(GetDevice("mtia")), dev(3));
  EXPECT_EQ(Must(GetDevice("spy")), spy().device(1));
}

// C1
TEST_F(CurrentDeviceTest, PooledThreadKeepsTheDeviceOfItsLastTask) {
  std::thread([&] {
    const auto task = [](int expected, int next) {
      EXPECT_EQ(Current(), dev(expected));
      Must(SetCurrentDevice(dev(next)));
    };
    task(0, 2);
    task(2, 1);
    task(1, 0);
  }).join();
}

// C2
TEST_F(CurrentDeviceTest, SettingTheDeviceWaitsForNothing) {
  InEverySchedule([] {
    Flag gate = NewFlag(dev(1));
    Stream s = NewStream(dev(1));
    ASSERT_OK(gate.WaitOn(s));
    ASSERT_OK(SetCurrentDevice(dev(1)));  // returns, though it is busy
    EXPECT_EQ(Current(), dev(1));
    { DeviceGuard guard(dev(1)); }
    ASSERT_OK(SetCurrentDevice(dev(0)));
    EXPECT_THAT(s.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(s.Synchronize());
  });
}

// C2
TEST_F(CurrentDeviceTest, TakesEffectNativelyAtOnce) {
  Must(SetCurrentDevice(spy().device(1)));
  EXPECT_EQ(SpyBackend::NativeCurrent(), 1);
  DeviceGuard guard(spy().device(0));
  EXPECT_EQ(SpyBackend::NativeCurrent(), 0);
}

// C3
TEST_F(CurrentDeviceTest, InvalidOrdinals) {
  Must(SetCurrentDevice(dev(2)));
  for (int64_t index :
       {int64_t{-1}, int64_t{kDevices}, int64_t{99}, int64_t{INT_MAX},
        int64_t{INT_MIN}, INT64_MAX, INT64_MIN}) {
    EXPECT_THAT(
        GetDevice("mtia", index),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr("Device index value " + std::to_string(index) +
                           " is out of index range [0, 4)")));
  }
  EXPECT_EQ(Current(), dev(2));
}

// Of the table too, which other bindings call.
// C3
TEST_F(CurrentDeviceTest, InvalidOrdinalOfTheTableChangesNothing) {
  Must(SetCurrentDevice(dev(2)));
  internal::DeviceRecord* record = dev().record();
  for (uint32_t ordinal : {4u, 0x80000000u, ~0u}) {
    devrt_context previous = {{77, 78}};
    devrt_status error =
        record->ops->context_enter(record->self, ordinal, &previous);
    ASSERT_NE(error, nullptr) << ordinal;
    EXPECT_EQ(error->code, DEVRT_INVALID_ARGUMENT);
    delete error;
    EXPECT_EQ(previous.state[0], 77u);  // out-parameters untouched
    EXPECT_EQ(Current(), dev(2));
  }
}

// C107
TEST_F(CurrentDeviceTest, ForeignSwitchIsSeenByTheNextCall) {
  internal::DeviceRecord* record = dev(3).record();
  ASSERT_EQ(record->ops->context_enter(record->self, 3, nullptr), nullptr);
  EXPECT_EQ(Current(), dev(3));
  SpyBackend::SetNativeCurrent(1);
  EXPECT_EQ(Current("spy"), spy().device(1));
  SpyBackend::SetNativeCurrent(SpyBackend::kForeign + 1);  // its own context
  EXPECT_EQ(Current("spy"), spy().device(1));
  SpyBackend::SetNativeCurrent(SpyBackend::kNoContext);
  EXPECT_EQ(Current("spy"), spy().device(0));
}

// C107
TEST_F(CurrentDeviceTest, GuardRestoresTheNativeContext) {
  for (int found : {SpyBackend::kNoContext, 0, 1, SpyBackend::kForeign,
                    SpyBackend::kForeign + 1}) {
    SpyBackend::SetNativeCurrent(found);
    {
      DeviceGuard guard(spy().device(1));
      EXPECT_EQ(SpyBackend::NativeCurrent(), 1);
    }
    EXPECT_EQ(SpyBackend::NativeCurrent(), found);
    {
      StreamGuard guard(DefaultStream(spy().device(0)));
      EXPECT_EQ(SpyBackend::NativeCurrent(), 0);
    }
    EXPECT_EQ(SpyBackend::NativeCurrent(), found);
  }
}

// C107
TEST_F(CurrentDeviceTest, GuardUndoesASwitchInside) {
  SpyBackend::SetNativeCurrent(SpyBackend::kForeign);
  {
    DeviceGuard guard(spy().device(0));
    SpyBackend::SetNativeCurrent(SpyBackend::kForeign + 1);
    EXPECT_EQ(Current("spy"), spy().device(1));
  }
  EXPECT_EQ(SpyBackend::NativeCurrent(), SpyBackend::kForeign);
}

// C107
TEST_F(CurrentDeviceTest, FreshThreadHasNoContextAfterAGuard) {
  std::thread([&] {
    EXPECT_EQ(SpyBackend::NativeCurrent(), SpyBackend::kNoContext);
    { DeviceGuard guard(spy().device(1)); }
    EXPECT_EQ(SpyBackend::NativeCurrent(), SpyBackend::kNoContext);
  }).join();
}

// Random orders of set, guard, end of guard and foreign switch, against a
// model that is one variable.
// F2
TEST_F(CurrentDeviceTest, RandomSwitchesAgreeWithAModel) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    SpyBackend::SetNativeCurrent(SpyBackend::kNoContext);
    int model = SpyBackend::kNoContext;
    std::vector<std::pair<std::unique_ptr<DeviceGuard>, int>> guards;
    for (int step = 0; step < 30; ++step) {
      const int device = static_cast<int>(random() % SpyBackend::kDevices);
      switch (random() % 4) {
        case 0:
          Must(SetCurrentDevice(spy().device(device)));
          model = device;
          break;
        case 1:
          guards.emplace_back(
              std::make_unique<DeviceGuard>(spy().device(device)), model);
          model = device;
          break;
        case 2:
          if (guards.empty()) break;
          model = guards.back().second;
          guards.pop_back();
          break;
        case 3:
          model = random() % 2 != 0 ? device : SpyBackend::kForeign + device;
          SpyBackend::SetNativeCurrent(model);
          break;
      }
      ASSERT_EQ(SpyBackend::NativeCurrent(), model) << "step " << step;
      const int current = model == SpyBackend::kNoContext ? 0
                          : model >= SpyBackend::kForeign
                              ? model - SpyBackend::kForeign
                              : model;
      ASSERT_EQ(Current("spy"), spy().device(current));
    }
    while (!guards.empty()) {
      model = guards.back().second;
      guards.pop_back();
      ASSERT_EQ(SpyBackend::NativeCurrent(), model);
    }
  }
}

// All orders of four steps on mtia, a foreign switch among them.
// F2
TEST_F(CurrentDeviceTest, AllShortOrdersOnMtia) {
  internal::DeviceRecord* record = dev().record();
  constexpr int kSteps = 4, kChoices = 7;
  for (int code = 0; code < kChoices * kChoices * kChoices * kChoices; ++code) {
    SCOPED_TRACE(code);
    int model = 0, rest = code;
    Must(SetCurrentDevice(dev(0)));
    std::vector<std::pair<std::unique_ptr<DeviceGuard>, int>> guards;
    for (int step = 0; step < kSteps; ++step, rest /= kChoices) {
      const int choice = rest % kChoices;
      const int device = 1 + choice % 2;
      if (choice < 2) {
        Must(SetCurrentDevice(dev(device)));
        model = device;
      } else if (choice < 4) {
        guards.emplace_back(std::make_unique<DeviceGuard>(dev(device)), model);
        model = device;
      } else if (choice < 6) {
        const auto ordinal = static_cast<uint32_t>(device);
        ASSERT_EQ(record->ops->context_enter(record->self, ordinal, nullptr),
                  nullptr);
        model = device;
      } else if (!guards.empty()) {
        model = guards.back().second;
        guards.pop_back();
      }
      ASSERT_EQ(Current(), dev(model));
    }
    while (!guards.empty()) {
      model = guards.back().second;
      guards.pop_back();
      ASSERT_EQ(Current(), dev(model));
    }
    ASSERT_EQ(Current(), dev(model));
  }
}

}  // namespace
}  // namespace devrt::testing
