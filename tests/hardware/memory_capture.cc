// SPDX-License-Identifier: Apache-2.0
//
// Streams that another library captures into a graph: the allocator asks the
// driver for nothing then (E20).

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

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

// C82: a wait for the device ends the captures of its streams, so that recovery
// leaves out what only such a wait could tell of.
TEST_F(MemoryCapture, RecoveryDoesNotWaitForTheDevice) {
  const Stream stream = NewStream();
  const Stream eager = NewStream();
  const Stream theirs = NewStream();
  const double total =
      static_cast<double>(Must(dev().Properties()).total_memory);
  ASSERT_OK(SetMemoryFraction(dev(), static_cast<double>(64 * kMiB) / total));
  char* const block = New(eager, 40 * kMiB);
  {
    // Without an owner nobody may ask it behind the call.
    const Stream adopted =
        Must(Stream::FromNative(dev(), Must(theirs.Native())));
    ASSERT_OK(RecordStream(block, adopted));
    ASSERT_OK(FreeMemory(block));
    Capture capture(stream);
    EXPECT_THAT(AllocateMemory(eager, 60 * kMiB),
                testing::StatusIs(absl::StatusCode::kResourceExhausted,
                                  HasSubstr("capturing")));
    EXPECT_TRUE(capture.End());
  }
  ASSERT_OK(FreeMemory(New(eager, 60 * kMiB)));
  ASSERT_OK(SetMemoryFraction(dev(), 1.0));
  Capture capture(stream);
  EXPECT_FALSE(dev().Synchronize().ok()) << "as the driver answers";
  EXPECT_FALSE(capture.End());
}

// A stream of another library in the device's context, which devrt has not met.
class TheirStream {
 public:
  TheirStream(StreamRef of, unsigned flags) {
    const CUcontext before = CurrentContext();
    CUcontext context = nullptr;
    DRIVER_OK(DRIVER_CALL(cuStreamGetCtx)(
        static_cast<CUstream>(Must(of.Native())), &context));
    DRIVER_OK(DRIVER_CALL(cuCtxSetCurrent)(context));
    DRIVER_OK(DRIVER_CALL(cuStreamCreateWithPriority)(&stream_, flags, 0));
    DRIVER_OK(DRIVER_CALL(cuCtxSetCurrent)(before));
  }
  TheirStream(const TheirStream&) = delete;
  TheirStream& operator=(const TheirStream&) = delete;
  ~TheirStream() {
    devrt_memory_stream_ends_v0("cuda:0", stream_);
    DRIVER_CALL(cuStreamDestroy)(stream_);
  }

  CUstream get() const { return stream_; }
  void Begin() const {
    DRIVER_OK(DRIVER_CALL(cuStreamBeginCapture)(stream_,
                                                CU_STREAM_CAPTURE_MODE_GLOBAL));
  }
  CUgraphExec End() const {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    DRIVER_OK(DRIVER_CALL(cuStreamEndCapture)(stream_, &graph));
    DRIVER_OK(DRIVER_CALL(cuGraphInstantiateWithFlags)(&exec, graph, 0));
    DRIVER_OK(DRIVER_CALL(cuGraphDestroy)(graph));
    return exec;
  }

 private:
  CUstream stream_ = nullptr;
};

constexpr uint64_t kSize = 3 * kMiB;

void* NewInC(CUstream stream) {
  void* block = nullptr;
  EXPECT_EQ(devrt_memory_alloc_v0("cuda:0", kSize, stream, &block), 0)
      << devrt_memory_last_error_v0();
  return block;
}

void Fill(void* block, unsigned char value, CUstream stream) {
  DRIVER_OK(DRIVER_CALL(cuMemsetD8Async)(reinterpret_cast<CUdeviceptr>(block),
                                         value, kSize, stream));
}

// Memory that is allocated while the graph lives keeps its contents when the
// graph runs. After the graph's end, which the driver reports on its own
// thread, new allocations get the graph's memory.
class MemoryOfGraphs : public MemoryCapture {
 protected:
  void SetUp() override {
    MemoryCapture::SetUp();
    current_.emplace(dev());
  }
  void TearDown() override {
    current_.reset();
    MemoryCapture::TearDown();
  }

  void ExpectNothingIsWritten(const TheirStream& stream, CUgraphExec exec,
                              const std::vector<void*>& kept) {
    const Stream eager = NewStream();
    std::vector<void*> blocks;
    for (const CUstream each :
         {stream.get(), static_cast<CUstream>(Must(eager.Native()))}) {
      for (int i = 0; i < 8; ++i) {
        blocks.push_back(NewInC(each));
        Fill(blocks.back(), 0, each);
      }
      Synchronize(each);
    }
    DRIVER_OK(DRIVER_CALL(cuGraphLaunch)(exec, stream.get()));
    Synchronize(stream.get());
    for (void* block : blocks) {
      EXPECT_THAT(kept, ::testing::Not(::testing::Contains(block)));
      EXPECT_EQ(Contents(eager, block, kSize), std::string(kSize, '\0'));
      EXPECT_EQ(devrt_memory_free_v0(block), 0);
    }
    EXPECT_EQ(devrt_memory_stream_ends_v0("cuda:0", Must(eager.Native())), 0);
    DRIVER_OK(DRIVER_CALL(cuGraphExecDestroy)(exec));
    devrt_memory_stats_v0 stats{};
    stats.struct_size = sizeof stats;
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::seconds(20);
    do {
      EXPECT_EQ(devrt_memory_stats_read_v0("cuda:0", &stats), 0);
    } while (stats.allocations != 0 && std::chrono::steady_clock::now() < end);
    EXPECT_EQ(stats.allocations, 0);
  }
  static void Synchronize(CUstream stream) {
    DRIVER_OK(DRIVER_CALL(cuStreamSynchronize)(stream));
  }

 private:
  // The driver makes and launches graphs in the current context.
  std::optional<DeviceGuard> current_;
};

TEST_F(MemoryOfGraphs, BlocksOfACaptureAreKept) {
  const Stream ours = NewStream();
  const TheirStream stream(ours, CU_STREAM_NON_BLOCKING);
  void* const warm[] = {NewInC(stream.get()), NewInC(stream.get())};
  for (void* block : warm) EXPECT_EQ(devrt_memory_free_v0(block), 0);
  stream.Begin();
  void* const temporary = NewInC(stream.get());
  Fill(temporary, 7, stream.get());
  void* const out = NewInC(stream.get());
  Fill(out, 8, stream.get());
  EXPECT_EQ(devrt_memory_free_v0(temporary), 0);
  const CUgraphExec exec = stream.End();
  EXPECT_EQ(devrt_memory_free_v0(out), 0);
  ExpectNothingIsWritten(stream, exec, {temporary, out});
}

TEST_F(MemoryOfGraphs, APoolGrowsInACaptureAndIsKept) {
  const Stream ours = NewStream();
  const TheirStream stream(ours, CU_STREAM_NON_BLOCKING);
  devrt_memory_pool_v0* pool = nullptr;
  ASSERT_EQ(devrt_memory_pool_create_v0("cuda:0", &pool), 0);
  stream.Begin();
  void* block = nullptr;
  ASSERT_EQ(devrt_memory_pool_alloc_v0(pool, kSize, stream.get(), &block), 0)
      << devrt_memory_last_error_v0();
  Fill(block, 7, stream.get());
  EXPECT_EQ(devrt_memory_free_v0(block), 0);
  void* again = nullptr;
  EXPECT_EQ(devrt_memory_pool_alloc_v0(pool, kSize, stream.get(), &again), 0);
  EXPECT_EQ(again, block);
  EXPECT_EQ(devrt_memory_free_v0(again), 0);
  const CUgraphExec exec = stream.End();
  EXPECT_EQ(devrt_memory_pool_release_v0(pool), 0);
  EXPECT_EQ(devrt_memory_empty_cache_v0("cuda:0"), 0);
  ExpectNothingIsWritten(stream, exec, {block});
}

// A blocking stream cannot be adopted in its capture, which stays valid.
TEST_F(MemoryOfGraphs, ABlockingStreamIsMetBefore) {
  const Stream ours = NewStream();
  const TheirStream stream(ours, CU_STREAM_DEFAULT);
  stream.Begin();
  void* block = nullptr;
  EXPECT_EQ(devrt_memory_alloc_v0("cuda:0", kSize, stream.get(), &block),
            DEVRT_FAILED_PRECONDITION);
  EXPECT_THAT(devrt_memory_last_error_v0(), HasSubstr("adopt it before"));
  DRIVER_OK(DRIVER_CALL(cuGraphExecDestroy)(stream.End()));
}

// To find out that another stream has finished with a block, devrt would have
// to call the driver, which is forbidden during the capture.
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
