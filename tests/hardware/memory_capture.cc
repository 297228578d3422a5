// SPDX-License-Identifier: Apache-2.0
//
// Streams that another library captures into a graph: the allocator asks the
// driver for nothing then (interop.md, rule 20).

#include <cstdint>
#include <thread>

#include "devrt/memory/devrt_memory.h"
#include "tests/hardware/capture.h"
#include "tests/hardware/memory_test.h"

namespace devrt::hardware {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class MemoryCapture : public MemoryTest {
 protected:
  void SetUp() override {
    MemoryTest::SetUp();
    if (BackendName() != "cuda") GTEST_SKIP() << "captures are CUDA's";
  }
};

TEST_F(MemoryCapture, IsServedFromTheCache) {
  const Stream stream = NewStream();
  char* const before = New(stream, 3 * kMiB);
  ASSERT_OK(FreeMemory(before));
  Capture capture(stream);
  char* const within = New(stream, 3 * kMiB);
  EXPECT_EQ(within, before);
  EXPECT_OK(FreeMemory(within));
  EXPECT_TRUE(capture.End());
}

TEST_F(MemoryCapture, GetsNothingFromTheDriver) {
  const Stream stream = NewStream();
  Capture capture(stream);
  for (const uint64_t bytes : {uint64_t{512}, 3 * kMiB, 64 * kMiB}) {
    EXPECT_THAT(AllocateMemory(stream, bytes),
                testing::StatusIs(absl::StatusCode::kFailedPrecondition,
                                  AllOf(HasSubstr("capturing"),
                                        HasSubstr(std::to_string(bytes)))));
  }
  void* block = nullptr;
  EXPECT_EQ(devrt_memory_alloc_v0("cuda:0", 3 * kMiB, capture.native(), &block),
            DEVRT_FAILED_PRECONDITION);
  EXPECT_EQ(block, nullptr);
  EXPECT_THAT(devrt_memory_last_error_v0(), HasSubstr("capturing"));
  EXPECT_EQ(Read().reserved_bytes.all.current, 0);
  EXPECT_EQ(Read().num_ooms, 0);
  EXPECT_TRUE(capture.End());
  char* const behind = New(stream, 3 * kMiB);
  EXPECT_OK(FreeMemory(behind));
  ASSERT_EQ(devrt_memory_stream_ends_v0("cuda:0", capture.native()), 0);
}

// Whether another stream is through with a block is a question to the driver.
TEST_F(MemoryCapture, AsksTheDriverNothing) {
  constexpr uint64_t kWhole = 32 * kMiB;  // a segment of its own
  const Stream stream = NewStream();
  const Stream stuck = NewStream();
  Gate gate(dev());
  gate.Hold(stuck);
  char* const held = New(stream, kWhole);
  ASSERT_OK(RecordStream(held, stuck));
  ASSERT_OK(FreeMemory(held));
  Capture capture(stream);
  EXPECT_THAT(AllocateMemory(stream, kWhole),
              testing::StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr("capturing")));
  EXPECT_TRUE(capture.End());
  EXPECT_TRUE(gate.Holds());
  gate.Release();
}

// The thread that needs memory may be the one that ends the capture: recovery
// gives up on what the captured stream uses, and looks for other memory.
class MemoryCaptureRecovery : public MemoryCapture {
 protected:
  void SetUp() override {
    MemoryCapture::SetUp();
    if (IsSkipped()) return;
    const auto total =
        static_cast<double>(Must(dev().Properties()).total_memory);
    ASSERT_OK(SetMemoryFraction(dev(), 64.0 * kMiB / total));
  }
  // 30 of the 64 MiB are not to be had while `capture` lasts.
  void ExpectOtherMemory(StreamRef stream, Capture* capture) {
    EXPECT_THAT(AllocateMemory(stream, 50 * kMiB),
                testing::StatusIs(absl::StatusCode::kResourceExhausted,
                                  AllOf(HasSubstr("was not waited for"),
                                        HasSubstr("capturing"))));
    EXPECT_EQ(Read().reserved_bytes.all.current, 30 * kMiB);
    EXPECT_OK(FreeMemory(New(stream, 20 * kMiB)));
    EXPECT_TRUE(capture->End());
    EXPECT_OK(FreeMemory(New(stream, 50 * kMiB)));
  }
};

TEST_F(MemoryCaptureRecovery, GivesUpOnABlockThatACapturedStreamUses) {
  const Stream stream = NewStream();
  const Stream captured = NewStream();
  char* const used = New(stream, 30 * kMiB);
  ASSERT_OK(RecordStream(used, captured));
  Capture capture(captured);
  EXPECT_OK(FreeMemory(used));
  ExpectOtherMemory(stream, &capture);
}

TEST_F(MemoryCaptureRecovery, GivesUpOnTheMemoryOfACapturedStream) {
  const Stream stream = NewStream();
  const Stream captured = NewStream();
  char* const own = New(captured, 30 * kMiB);
  ASSERT_OK(FillAsync(captured, own, 1, 30 * kMiB));
  ASSERT_OK(FreeMemory(own));
  Capture capture(captured);
  ExpectOtherMemory(stream, &capture);
}

// By a thread that has nothing to do with the capture, too.
TEST_F(MemoryCaptureRecovery, GivesUpOnAnotherThreadsCapture) {
  const Stream stream = NewStream();
  const Stream captured = NewStream();
  char* const used = New(stream, 30 * kMiB);
  ASSERT_OK(RecordStream(used, captured));
  Capture capture(captured);
  EXPECT_OK(FreeMemory(used));
  std::thread([&] {
    EXPECT_THAT(AllocateMemory(stream, 50 * kMiB),
                testing::StatusIs(absl::StatusCode::kResourceExhausted,
                                  HasSubstr("capturing")));
  }).join();
  EXPECT_TRUE(capture.End());
}

}  // namespace
}  // namespace devrt::hardware
