// SPDX-License-Identifier: Apache-2.0
//
// Pinned memory while the native call fails at every point in turn, once, twice
// and three times running, in both ways of obtaining pages: an answer every
// time, no wrong figure, nothing left behind.

#include <cstdint>
#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_layer_helper.h"
#include "devrt/devrt.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

// Counts of the layer in front of the simulator, and the calls that it refuses.
struct Native {
  int obtained = 0;
  int asked = 0;
  int released = 0;
  int first = 0;  // of those that fail; 0: none does
  int running = 0;

  bool Fails() {
    ++asked;
    return first != 0 && asked >= first && asked < first + running;
  }
} native;

class Refuser {
 public:
  Refuser(const devrt_next_v0*, const devrt_host_v0* host) : host_(host) {}

  template <typename Call, typename... Args>
  devrt_status On(Call call, Args... args) noexcept {
    using layer::CallId;
    constexpr bool kObtains =
        Call::kId == CallId::host_alloc || Call::kId == CallId::host_register;
    if constexpr (kObtains) {
      if (native.Fails()) {
        return host_->error_create(host_->host, DEVRT_RESOURCE_EXHAUSTED, 0,
                                   "no pages", 8);
      }
    }
    const devrt_status status = call(args...);
    if (status != nullptr) return status;
    if constexpr (kObtains) ++native.obtained;
    if constexpr (Call::kId == CallId::host_dealloc ||
                  Call::kId == CallId::host_unregister) {
      ++native.released;
    }
    return nullptr;
  }

 private:
  const devrt_host_v0* host_;
};
DEVRT_STATIC_LAYER(Refuser, refuser, "refuser", "devrt tests", "1.0");

struct PinnedOutcome {
  int refused = 0;
  int served = 0;
};

// Some classes twice, some pages; half of it goes and leaves what is cached.
void UsePinnedMemory(Device device, PinnedOutcome* outcome) {
  constexpr uint64_t kSizes[] = {1, 700, 65536, 1 << 20, 3 << 20, 5 << 20, 512};
  std::vector<char*> held;
  for (int round = 0; round < 3; ++round) {
    for (const uint64_t size : kSizes) {
      const PinnedStatistics before = GetPinnedStatistics(device.backend());
      const absl::StatusOr<void*> got =
          AllocatePinned(device, size + 4096 * round);
      const PinnedStatistics after = GetPinnedStatistics(device.backend());
      if (got.ok()) {
        ++outcome->served;
        held.push_back(static_cast<char*>(*got));
        held.back()[0] = held.back()[size - 1] = 1;
        ASSERT_EQ(after.active_requests.current,
                  before.active_requests.current + 1);
      } else {
        ++outcome->refused;
        ASSERT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted)
            << got.status();
        ASSERT_EQ(after.active_requests.current,
                  before.active_requests.current);
        ASSERT_EQ(after.active_bytes.current, before.active_bytes.current);
      }
      ASSERT_EQ(after.num_host_alloc - after.num_host_free,
                after.allocations.current);
    }
    for (size_t i = 0; i < held.size(); ++i) {  // every second one
      ASSERT_OK(FreePinned(held[i]));
      held.erase(held.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  for (char* const pointer : held) ASSERT_OK(FreePinned(pointer));
}

int Sweep(Device device, int running) {
  int refused = 0;
  for (int nth = 1; nth < 100; ++nth) {
    SCOPED_TRACE(::testing::Message() << running << " from " << nth);
    native = {};
    native.first = nth;
    native.running = running;
    ResetAccumulatedPinnedStatistics(device.backend());
    PinnedOutcome outcome;
    UsePinnedMemory(device, &outcome);
    EXPECT_EQ(outcome.served + outcome.refused, 21);
    refused += outcome.refused;
    EXPECT_OK(EmptyPinnedCache(device.backend()));
    const PinnedStatistics left = GetPinnedStatistics(device.backend());
    EXPECT_EQ(left.active_requests.current, 0);
    EXPECT_EQ(left.allocated_bytes.current, 0);
    EXPECT_EQ(native.obtained, native.released);
    if (::testing::Test::HasFailure()) return refused;
    if (native.asked < nth) {
      EXPECT_GE(nth, 7) << "the program asks more often";
      return refused;
    }
  }
  ADD_FAILURE() << "no end";
  return refused;
}

class PinnedSweepTest : public ::testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    Must(RegisterLayer(&refuser_manifest, refuser_open));
    Must(SetLayers({"refuser"}));
  }
};

TEST_P(PinnedSweepTest, EveryNativeCallFailsInTurn) {
  ASSERT_OK(SetAllocatorSettings(std::string("pinned_use_cuda_host_register:") +
                                 GetParam()));
  const Device device = Must(GetDevice("mtia:0"));
  EXPECT_EQ(Sweep(device, 1), 0) << "one failure is recovered from";
  (void)Sweep(device, 2);
  EXPECT_GT(Sweep(device, 3), 0) << "three running cannot be";
}

INSTANTIATE_TEST_SUITE_P(ByAllocAndByRegister, PinnedSweepTest,
                         ::testing::Values("False", "True"));

}  // namespace
}  // namespace devrt::testing
