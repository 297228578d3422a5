// SPDX-License-Identifier: Apache-2.0
//
// The caching allocator under a simulator that watches its blocks
// (devrt.suballocation/0): what the core cannot see, since a kernel does it.

#include <cstdlib>
#include <vector>

#include "tests/support/mtia_fixture.h"

namespace devrt {
namespace {

using testing::InThreads;
using testing::LogCapture;
using testing::MtiaTest;
using testing::Must;

class WatchedTest : public MtiaTest {
 protected:
  static void SetUpTestSuite() {
    // Read when the backend is opened.
    ASSERT_EQ(setenv("DEVRT_TEST_MTIA", "suballocation=check", 1), 0);
  }
  void TearDown() override {
    for (int i = 0; i < kDevices; ++i) EXPECT_OK(EmptyCache(dev(i)));
    MtiaTest::TearDown();
  }
  // A kernel that writes `bytes` at `block`.
  static absl::Status Touch(StreamRef s, void* block, uint64_t bytes) {
    auto* const at = static_cast<char*>(block);
    return Launch(s, {Write(at, bytes)}, [=](const LaunchContext& context) {
      char* const local = context.Local(at, bytes);
      if (local != nullptr) local[bytes - 1] = 1;
    });
  }
};

TEST_F(WatchedTest, AKernelAfterTheFreeIsFound) {
  const StreamRef s = DefaultStream(dev());
  void* block = Must(AllocateMemory(s, 100));
  EXPECT_OK(Touch(s, block, 100));
  EXPECT_OK(FreeMemory(block));
  ASSERT_OK(s.Synchronize()) << "a use from before the free is right";
  EXPECT_STATUS(Touch(s, block, 100), kInvalidArgument, "freed at " __FILE__);
  EXPECT_OK(s.Synchronize());
}

TEST_F(WatchedTest, AKernelThatReachesIntoTheNextBlockIsFound) {
  const StreamRef s = DefaultStream(dev());
  void* block = Must(AllocateMemory(s, 100));
  void* next = Must(AllocateMemory(s, 100));
  EXPECT_OK(Touch(s, block, 100));
  ASSERT_OK(s.Synchronize());
  EXPECT_OK(Touch(s, block, 600));
  EXPECT_STATUS(s.Synchronize(), kInternal, "lie behind a part of 100 bytes");
  EXPECT_OK(FreeMemory(block));
  EXPECT_OK(FreeMemory(next));
  Reset("");
}

// Traffic without mistakes: no mistake is found, and nothing is logged.
TEST_F(WatchedTest, TrafficWithoutMistakes) {
  LogCapture log;
  InEverySchedule([] {
    InThreads(3, [](int thread) {
      Stream s = NewStream(dev(thread % 2));
      Stream other = NewStream(dev(thread % 2));
      std::vector<void*> blocks;
      std::vector<uint64_t> sizes;
      for (uint64_t i = 0; i < 60; ++i) {
        const uint64_t bytes = 1 + (i * 7919) % (i % 5 == 0 ? 3 << 20 : 3000);
        void* block = Must(AllocateMemory(s, bytes));
        Must(Touch(s, block, bytes));
        Must(other.Wait(s));
        Must(Touch(other, block, bytes));
        Must(RecordStream(block, other));
        blocks.push_back(block);
        sizes.push_back(bytes);
        if (blocks.size() < 8) continue;
        const size_t at = i % blocks.size();
        Must(s.Wait(other));
        Must(Touch(s, blocks[at], sizes[at]));
        Must(FreeMemory(blocks[at]));
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(at));
        sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(at));
      }
      for (void* block : blocks) Must(FreeMemory(block));
      Must(s.Synchronize());
      Must(other.Synchronize());
    });
    for (int i = 0; i < 2; ++i) Must(EmptyCache(dev(i)));
  });
  EXPECT_EQ(log.Count(), 0);
}

}  // namespace
}  // namespace devrt
