// SPDX-License-Identifier: Apache-2.0
//
// Exports that outlive devrt (D3): each in a process of its own.

#include <string>

#include "devrt/devrt.h"
#include "devrt/streams/internal/finished.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"

namespace devrt::testing {
namespace {

// What stays after Shutdown: memory of the host.
TEST(Shutdown, D3TheDeleterFreesTheBlock) {
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
    EXPECT_FALSE(internal::HasReleased());
    EXPECT_EQ(
        ToDLPack(Must(Array::Empty({1}, kInt8, Place::Host()))).status().code(),
        absl::StatusCode::kOk);
  });
}

// Nothing is called after main that was not there before: the list takes it.
TEST(Exit, D3TheDeleterRunsAfterMain) {
  const ProcessResult result = RunProgram({DEVRT_TEST_EXCHANGE_EXIT_PROGRAM});
  EXPECT_EQ(result.exit_code, 3) << result;
  EXPECT_EQ(result.output, "released after main\n") << result;
}

// The parent's memory is the parent's (C105).
TEST(Fork, D3TheDeleterLeavesTheParentsMemory) {
  InChild([] {
    const Device gpu = Must(GetDevice("mtia:0"));
    DLManagedTensorVersioned* const t =
        Must(ToDLPack(Must(Array::Empty({4}, kInt32, Place(gpu)))));
    const ProcessResult child = RunInChild([t] { t->deleter(t); });
    EXPECT_EQ(child.exit_code, 0) << child;
    EXPECT_FALSE(internal::HasReleased());
    t->deleter(t);
    EXPECT_OK(Shutdown());
  });
}

}  // namespace
}  // namespace devrt::testing
