// SPDX-License-Identifier: Apache-2.0
//
// Memory of devrt_memory.h and of PyTorch's object on streams that their owner
// captures: a graph keeps addresses (docs/decisions/0014).  Called as PyTorch
// calls; what the graphs would run is no matter here.

#include "tests/fakes/cuda/graphs.h"

#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "arrays/storage/storage.h"
#include "devrt/devrt.h"
#include "devrt/memory/devrt_memory.h"
#include "devrt/memory/resources.h"
#include "memory/api/adopted_streams.h"
#include "tests/fakes/common/alone.h"
#include "tests/support/status_matchers.h"

namespace devrt {
namespace {

using namespace test;  // NOLINT: what graphs.h has
using testing::Must;

Device Gpu() { return Must(GetDevice("cuda:0")); }

// ---- Blocks of captures -----------------------------------------------------

TEST(CudaGraphs, ABlockFreedInACaptureBelongsToTheGraph) {
  Alone([] {
    const CUstream s = NewStream();
    Cache(s);
    Begin(s);
    void* const temporary = New(s);
    Drop(temporary, s);
    EXPECT_EQ(New(s), temporary) << "the graph runs both in that order";
    Drop(temporary, s);
    const CUgraphExec exec = End(s);
    EXPECT_FALSE(IsGivenAway(temporary, s));
    Destroy(exec);
    EXPECT_TRUE(IsGivenAway(temporary, s));
  });
}

TEST(CudaGraphs, ABlockOfACaptureBelongsToTheGraphAfterIt) {
  Alone([] {
    const CUstream s = NewStream();
    Cache(s);
    Begin(s);
    void* const out = New(s);
    const CUgraphExec exec = End(s);
    Drop(out, s);
    EXPECT_FALSE(IsGivenAway(out, s));
    Destroy(exec);
    EXPECT_TRUE(IsGivenAway(out, s));
  });
}

TEST(CudaGraphs, AnOlderBlockFreedInACaptureBelongsToTheGraph) {
  Alone([] {
    const CUstream s = NewStream();
    void* const in = New(s);
    Begin(s);
    Drop(in, s);
    const CUgraphExec exec = End(s);
    EXPECT_FALSE(IsGivenAway(in, s));
    Destroy(exec);
    EXPECT_TRUE(IsGivenAway(in, s));
  });
}

// A bucket, for example, that another stream of the capture sends.
TEST(CudaGraphs, ABlockUsedInACaptureBelongsToTheGraph) {
  Alone([] {
    const CUstream s = NewStream();
    const CUstream side = NewStream();
    Cache(s, 2);
    Cache(side);
    void* const eager = New(s);
    Begin(s);
    Fork(s, side);
    void* const bucket = New(s);
    devrt_torch_record_stream(bucket, side);
    Drop(bucket, s);
    EXPECT_NE(New(s), bucket) << "stream s need not be behind side";
    devrt_torch_record_stream(eager, side);
    const CUgraphExec exec = End(s);
    Drop(eager, s);
    EXPECT_FALSE(IsGivenAway(bucket, s));
    EXPECT_FALSE(IsGivenAway(eager, s));
    Destroy(exec);
    EXPECT_TRUE(IsGivenAway(bucket, s));
    EXPECT_TRUE(IsGivenAway(eager, s));
  });
}

TEST(CudaGraphs, ABlockGoesBackWithTheLastOfItsGraphs) {
  Alone([] {
    const CUstream s = NewStream();
    const CUstream other = NewStream();
    Cache(other);
    void* const both = New(s);
    std::vector<CUgraphExec> execs;
    for (int i = 0; i < 2; ++i) {
      Begin(other);
      devrt_torch_record_stream(both, other);
      execs.push_back(End(other));
    }
    Drop(both, s);
    for (const CUgraphExec exec : execs) {
      EXPECT_FALSE(IsGivenAway(both, s));
      Destroy(exec);
    }
    EXPECT_TRUE(IsGivenAway(both, s));
  });
}

TEST(CudaGraphs, AKeptBlockIsFreedOnce) {
  Alone([] {
    const CUstream s = NewStream();
    Cache(s);
    Begin(s);
    void* const block = New(s);
    EXPECT_EQ(devrt_memory_free_v0(block), 0);
    EXPECT_EQ(devrt_memory_free_v0(block), DEVRT_INVALID_ARGUMENT);
    EXPECT_THAT(devrt_memory_last_error_v0(),
                ::testing::HasSubstr("was freed before"));
    EXPECT_EQ(devrt_memory_free_v0(static_cast<char*>(block) + 512),
              DEVRT_INVALID_ARGUMENT);
    Destroy(End(s));
    EXPECT_EQ(devrt_memory_free_v0(block), DEVRT_INVALID_ARGUMENT);
  });
}

// By whatever way it is given back.
TEST(CudaGraphs, AMarkedBlockIsKeptByAPlainFree) {
  Alone([] {
    const CUstream s = NewStream();
    const CUstream other = NewStream();
    void* const freed = New(s);
    Begin(other);
    devrt_torch_record_stream(freed, other);
    const CUgraphExec exec = End(other);
    EXPECT_OK(FreeMemory(freed));
    EXPECT_FALSE(IsGivenAway(freed, s));
    EXPECT_STATUS(FreeMemory(freed), kInvalidArgument, "was freed before");
    Destroy(exec);
    EXPECT_TRUE(IsGivenAway(freed, s));
  });
}

TEST(CudaGraphs, AMarkedArrayIsKept) {
  Alone([] {
    const CUstream s = NewStream();
    const StreamGuard on(Must(internal::StreamByHandle(Gpu(), s)));
    std::optional<Array> array =
        Must(Array::Empty({int64_t{kSize}}, kUInt8, Gpu()));
    void* const data = array->data();
    Begin(s);
    devrt_torch_record_stream(data, s);
    const CUgraphExec exec = End(s);
    EXPECT_FALSE(array->storage()->EndPlainly()) << "the graph uses it";
    array.reset();
    EXPECT_FALSE(IsGivenAway(data, s));
    Destroy(exec);
    EXPECT_TRUE(IsGivenAway(data, s));
  });
}

// Its resource may take a block back itself.  What captures have to do with it
// is no matter of the next block there.
TEST(CudaGraphs, ABlockThatItsResourceTookBackIsForgotten) {
  Alone([] {
    const CUstream s = NewStream();
    const StreamRef stream = Must(internal::StreamByHandle(Gpu(), s));
    const auto resource = CachingResource(Gpu());
    Cache(s);
    Begin(s);
    void* const block = New(s);
    const CUgraphExec exec = End(s);
    ASSERT_OK(resource->Deallocate(stream, block, kSize));
    ASSERT_EQ(New(s), block);
    Drop(block, s);
    EXPECT_TRUE(IsGivenAway(block, s));
    // One that the graph keeps.
    Begin(s);
    ASSERT_EQ(New(s), block);
    Drop(block, s);
    const CUgraphExec second = End(s);
    ASSERT_OK(resource->Deallocate(stream, block, kSize));
    ASSERT_EQ(New(s), block);
    Destroy(second);
    EXPECT_FALSE(IsGivenAway(block, s)) << "somebody has it";
    Drop(block, s);
    EXPECT_TRUE(IsGivenAway(block, s));
    Destroy(exec);
  });
}

TEST(CudaGraphs, ARecordedUseIsNoUseOfTheBlockBefore) {
  Alone([] {
    const CUstream s = NewStream();
    const CUstream other = NewStream();
    void* const before = New(s);
    void* const used = New(s);
    ASSERT_EQ(used, static_cast<char*>(before) + kSize);
    Begin(other);
    devrt_torch_record_stream(used, other);
    const CUgraphExec exec = End(other);
    Drop(before, s);
    Drop(used, s);
    EXPECT_TRUE(IsGivenAway(before, s));
    EXPECT_FALSE(IsGivenAway(used, s));
    Destroy(exec);
  });
}

// Hands out the two halves of one block of the caching allocator.
class Halves final : public MemoryResource {
 public:
  explicit Halves(Device device)
      : MemoryResource(device), upstream_(CachingResource(device)) {}
  MemoryProperties properties() const override {
    MemoryProperties p;
    p.name = "halves";
    p.tracks_uses = true;
    return p;
  }
  std::vector<void*> freed;

 private:
  absl::StatusOr<void*> DoAllocate(const MemoryRequest& r) override {
    if (whole_ == nullptr) {
      DEVRT_ASSIGN_OR_RETURN(whole_, upstream_->Allocate(r.stream, 2 * kSize));
      return whole_;
    }
    return static_cast<char*>(whole_) + kSize;
  }
  absl::Status DoDeallocate(const MemoryReturn& r) override {
    freed.push_back(r.pointer);
    return absl::OkStatus();
  }
  absl::Status DoRecordUse(const void*, StreamRef, CallSite) override {
    return absl::OkStatus();
  }

  const std::shared_ptr<MemoryResource> upstream_;
  void* whole_ = nullptr;
};

TEST(CudaGraphs, ARecordedUseIsOfTheProgramsBlock) {
  Alone([] {
    const CUstream s = NewStream();
    const CUstream other = NewStream();
    const auto halves = std::make_shared<Halves>(Gpu());
    ASSERT_OK(SetMemoryResource(Gpu(), halves));
    void* const first = New(s);
    void* const second = New(s);
    Begin(other);
    devrt_torch_record_stream(static_cast<char*>(second) + 512, other);
    const CUgraphExec exec = End(other);
    Drop(first, s);
    Drop(second, s);
    EXPECT_THAT(halves->freed, ::testing::ElementsAre(first));
    Destroy(exec);
    devrt_torch_empty_cache();
    EXPECT_THAT(halves->freed, ::testing::ElementsAre(first, second));
  });
}

// ---- Eager work beside a capture --------------------------------------------

// A graph is ordered behind nothing that another stream was given: a block that
// such work may use is no block for the capture.
TEST(CudaGraphs, ACaptureGetsNoBlockThatEagerWorkUses) {
  Alone([] {
    const CUstream s = NewStream();
    const CUstream side = NewStream();
    void* const in = New(s);
    Cache(s, 2);
    devrt_torch_record_stream(in, side);
    Begin(s);
    Drop(in, s);
    void* const temporary = New(s);
    EXPECT_NE(temporary, in);
    devrt_torch_record_stream(temporary, side);
    Drop(temporary, s);
    EXPECT_NE(New(s), temporary);
    Destroy(End(s));
  });
}

// No graph comes of it, but the stream captures up to the end.
TEST(CudaGraphs, AnInvalidCaptureKeepsNothing) {
  Alone([] {
    const CUstream s = NewStream();
    Cache(s, 2);
    Begin(s);
    void* const before = New(s);
    EXPECT_NE(cuStreamQuery(s), CUDA_SUCCESS);
    void* const behind = New(s);
    Drop(before, s);
    Drop(behind, s);
    CUgraph graph = nullptr;
    EXPECT_NE(cuStreamEndCapture(s, &graph), CUDA_SUCCESS);
    EXPECT_TRUE(IsGivenAway(before, s));
    EXPECT_TRUE(IsGivenAway(behind, s));
  });
}

// A driver of before 12.3 tells neither captures apart nor their end.
TEST(CudaGraphs, WithoutNumbersNothingIsHandedOutAndAllIsKept) {
  Alone([] {
    setenv("DEVRT_FAKE_CUDA", "missing=cuGraphRetainUserObject", 1);
    const CUstream s = NewStream();
    void* const in = New(s);
    Cache(s);
    Begin(s);
    void* block = nullptr;
    EXPECT_EQ(devrt_memory_alloc_v0("cuda:0", kSize, s, &block),
              DEVRT_FAILED_PRECONDITION);
    EXPECT_THAT(
        devrt_memory_last_error_v0(),
        ::testing::AllOf(::testing::HasSubstr("a driver older than CUDA 12.3"),
                         ::testing::HasSubstr("before the capture begins")));
    Drop(in, s);
    Destroy(End(s));
    EXPECT_FALSE(IsGivenAway(in, s));
  });
}

// ---- Streams that devrt meets in a capture ----------------------------------

TEST(CudaGraphs, AStreamMayBeMetInItsCapture) {
  Alone([] {
    const CUstream met = NewStream();
    Cache(met);
    const CUstream s = NewStream();
    Begin(s);
    void* block = nullptr;
    EXPECT_EQ(devrt_memory_alloc_v0("cuda:0", kSize, s, &block),
              DEVRT_FAILED_PRECONDITION);
    EXPECT_THAT(devrt_memory_last_error_v0(),
                ::testing::HasSubstr("nothing cached for it fits"));
    Destroy(End(s));
    Drop(New(s), s);
  });
}

// During the capture devrt cannot ask whether the stream is blocking, and the
// legacy stream does not prove that no blocking stream captures.
TEST(CudaGraphs, UnadoptedBlockingStreamIsRefusedInItsCapture) {
  Alone([] {
    Cache(NewStream());
    const CUstream s = NewStream(CU_STREAM_DEFAULT);
    Begin(s);
    void* block = nullptr;
    EXPECT_EQ(devrt_memory_alloc_v0("cuda:0", kSize, s, &block),
              DEVRT_FAILED_PRECONDITION);
    EXPECT_THAT(devrt_memory_last_error_v0(),
                ::testing::HasSubstr("adopt it before the capture begins"));
    Destroy(End(s));
    Drop(New(s), s);
  });
}

}  // namespace
}  // namespace devrt
