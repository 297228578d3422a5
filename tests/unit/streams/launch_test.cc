// SPDX-License-Identifier: Apache-2.0
//
// Launch: the user's own kernels.

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

#include "devrt/devrt.h"
#include "tests/support/mtia_fixture.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

using LaunchTest = MtiaTest;

TEST_F(LaunchTest, TheFunctionIsTheKernel) {
  InEverySchedule([] {
    Cell x(dev(1));
    Stream s = NewStream(dev(1));
    int64_t* p = x.ptr();
    ASSERT_OK(Launch(s, {ReadWrite(p, 8)}, [p](const LaunchContext& k) {
      EXPECT_TRUE(k.on_host());
      EXPECT_EQ(k.device(), MtiaTest::dev(1));
      EXPECT_EQ(k.native_stream(), nullptr);
      *k.Local(p) = 7;
    }));
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(x.Peek(), 7);
  });
}

TEST_F(LaunchTest, FailuresAreAssertions) {
  enum How { kStatus, kFail, kThrow };
  for (How how : {kStatus, kFail, kThrow}) {
    InEverySchedule([how] {
      Stream s = NewStream();
      ASSERT_OK(Launch(s, {}, [how](const LaunchContext& k) -> absl::Status {
        if (how == kStatus) return absl::DataLossError("seven is odd");
        if (how == kFail) k.Fail("seven is odd");
        if (how == kThrow) throw std::runtime_error("seven is odd");
        return absl::OkStatus();
      }));
      absl::Status status = s.Synchronize();
      EXPECT_STATUS(status, kInternal, "seven is odd");
      EXPECT_EQ(GetErrorInfo(status)->native_code, 710);
    });
  }
}

TEST_F(LaunchTest, TheFunctionIsDestroyedOnceInEveryCase) {
  InEverySchedule([] {
    auto owned = std::make_shared<int>(0);
    {
      Stream s = NewStream();
      ASSERT_OK(Launch(s, {}, [owned](const LaunchContext&) {}));
      ASSERT_OK(s.Synchronize());
      ASSERT_OK(CommitFault(s, FaultForm::kTrap));
      // Discarded by the fault, or refused because it is known already.
      (void)Launch(s, {}, [owned](const LaunchContext&) {});
      EXPECT_FALSE(s.Synchronize().ok());
      StreamRef gone = [] { return NewStream(dev(1)).ref(); }();
      EXPECT_STATUS(Launch(gone, {}, [owned](const LaunchContext&) {}),
                    kInvalidArgument, "destroyed");
    }
    Reset("");
    EXPECT_EQ(owned.use_count(), 1);
  });
}

// Overlapping kernels see each other's writes or not: the declared ranges make
// a lost update reachable.
TEST_F(LaunchTest, UnorderedUpdatesMayBeLost) {
  ExpectOutcomes({1, 2}, [] {
    Cell x(dev());
    Stream s = NewStream();
    Stream t = NewStream();
    int64_t* p = x.ptr();
    for (StreamRef stream : {s.ref(), t.ref()}) {
      EXPECT_OK(Launch(stream, {ReadWrite(p, 8)},
                       [p](const LaunchContext& k) { ++*k.Local(p); }));
    }
    EXPECT_OK(dev().Synchronize());
    return x.Peek();
  });
}

}  // namespace
}  // namespace devrt::testing
