// SPDX-License-Identifier: Apache-2.0
//
// Exports that outlive devrt (E30): each in a process of its own.

#include <cstdlib>
#include <string>

#include "devrt/devrt.h"
#include "streams/common/deferred_deletion.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"

namespace devrt::testing {
namespace {

// Host memory outlives Shutdown.
// E30
TEST(Shutdown, TheDeleterFreesTheBlock) {
  InChild([] {
    auto gpu = GetDevice("mtia:0");
    ASSERT_OK(gpu);
    DLManagedTensorVersioned* t = nullptr;
    DLManagedTensorVersioned* dropped = nullptr;
    {
      const Array x = Must(Array::Empty({4}, kInt32, Place::Host()));
      t = Must(ToDLPack(x));
      const Array y = Must(Array::Empty({4}, kInt32, Place(*gpu)));
      dropped = Must(ToDLPack(y));
    }
    // An export that is alive is memory that is alive; one that was dropped is
    // not.
    EXPECT_EQ(Shutdown().code(), absl::StatusCode::kFailedPrecondition);
    dropped->deleter(dropped);
    EXPECT_OK(Shutdown());
    t->deleter(t);
    EXPECT_FALSE(internal::HasDeferredArrayReleases());
    EXPECT_EQ(
        ToDLPack(Must(Array::Empty({1}, kInt8, Place::Host()))).status().code(),
        absl::StatusCode::kOk);
  });
}

// Nothing is called after main that was not there before: the list takes it.
// E30
TEST(Exit, TheDeleterRunsAfterMain) {
  const ProcessResult result = RunProgram({DEVRT_TEST_EXCHANGE_EXIT_PROGRAM});
  EXPECT_EQ(result.exit_code, 3) << result;
  EXPECT_EQ(result.output, "released after main\n") << result;
}

// The parent's memory is the parent's (C105).
// E30
TEST(Fork, TheDeleterLeavesTheParentsMemory) {
  InChild([] {
    const Device gpu = Must(GetDevice("mtia:0"));
    DLManagedTensorVersioned* const t =
        Must(ToDLPack(Must(Array::Empty({4}, kInt32, Place(gpu)))));
    const ProcessResult child = RunInChild([t] { t->deleter(t); });
    EXPECT_EQ(child.exit_code, 0) << child;
    EXPECT_FALSE(internal::HasDeferredArrayReleases());
    t->deleter(t);
    EXPECT_OK(Shutdown());
  });
}

TEST(Environment, IsReadOnceAndMistakesAreNamedWithTheChoices) {
  InChild([] {
    setenv("DEVRT_DLPACK_STRICT", "1", 1);
    setenv("DEVRT_DLPACK_MANAGED", "device", 1);
    setenv("DEVRT_DLPACK_RELEASE", "sync", 1);
    setenv("DEVRT_CAI_EXPORT_VERSION", "2", 1);
    setenv("DEVRT_CAI_SYNC", "0", 1);
    setenv("DEVRT_HIP_CAI", "1", 1);
    const ExchangeSettings read = GetExchangeSettings();
    EXPECT_TRUE(read.strict && read.managed_as_device && read.hip_cai);
    EXPECT_FALSE(read.cai_sync);
    EXPECT_EQ(read.release, ExchangeSettings::Release::kSync);
    EXPECT_EQ(read.cai_version, 2);
    EXPECT_OK(CheckExchangeEnvironment());
    setenv("DEVRT_DLPACK_STRICT", "0", 1);
    EXPECT_TRUE(GetExchangeSettings().strict);
  });
  InChild([] {
    setenv("DEVRT_CAI_EXPORT_VERSION", "4", 1);
    setenv("DEVRT_DLPACK_RELEASE", "never", 1);
    EXPECT_EQ(GetExchangeSettings().cai_version, 3);
    EXPECT_STATUS(CheckExchangeEnvironment(), kInvalidArgument,
                  "DEVRT_DLPACK_RELEASE=never is not known, the choices are "
                  "record, trust, sync; DEVRT_CAI_EXPORT_VERSION=4 is not "
                  "known, the choices are 2, 3");
  });
}

}  // namespace
}  // namespace devrt::testing
