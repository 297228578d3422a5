// SPDX-License-Identifier: Apache-2.0
//
// Pools for graphs (devrt_memory.h), as PyTorch's torch.cuda.graph uses them.

#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <new>
#include <vector>

#include "devrt/devrt.h"
#include "devrt/memory/devrt_memory.h"
#include "tests/fakes/common/alone.h"
#include "tests/fakes/cuda/graphs.h"
#include "tests/support/status_matchers.h"

namespace devrt {
namespace {

using namespace test;  // NOLINT: what graphs.h has
using testing::Must;

Device Gpu() { return Must(GetDevice("cuda:0")); }

// ---- PyTorch's pools --------------------------------------------------------

// Does with an allocator what torch.cuda.graph does: CUDAGraph::capture_begin,
// capture_end and reset.
class TorchGraph {
 public:
  TorchGraph(CUstream stream, PoolId pool) : stream_(stream), pool_(pool) {
    devrt_torch_empty_cache();
    devrt_torch_begin_allocate_to_pool(0, pool, [](CUstream_st* s) {
      CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
      EXPECT_EQ(cuStreamIsCapturing(s, &status), CUDA_SUCCESS);
      return status != CU_STREAM_CAPTURE_STATUS_NONE;
    });
    Begin(stream);
  }
  void CaptureEnd() {
    exec_ = End(stream_);
    devrt_torch_end_allocate_to_pool(0, pool_);
  }
  void Reset() {
    devrt_torch_release_pool(0, pool_);
    Destroy(exec_);
  }

 private:
  const CUstream stream_;
  const PoolId pool_;
  CUgraphExec exec_ = nullptr;
};

int64_t Reserved() {
  devrt_torch_empty_cache();
  int64_t reserved = 0;
  size_t free = 0;
  size_t total = 0;
  EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  reserved = static_cast<int64_t>(total - free);
  return reserved;
}

TEST(CudaGraphs, APoolGrowsInACaptureAndKeepsItsMemory) {
  Alone([] {
    const CUstream eager = NewStream();
    Cache(eager);
    const int64_t before = Reserved();
    const CUstream s = NewStream();
    TorchGraph graph(s, {1, 0});
    void* const temporary = New(s);
    Drop(temporary, s);
    void* const out = New(s);
    EXPECT_EQ(out, temporary) << "in the stream's order";
    void* const dropped = New(s);
    Drop(dropped, s);
    graph.CaptureEnd();
    EXPECT_FALSE(IsGivenAway(dropped, s));
    EXPECT_FALSE(IsGivenAway(dropped, eager));
    EXPECT_GT(Reserved(), before) << "its free memory is the graph's";
    Drop(out, s);
    EXPECT_FALSE(IsGivenAway(out, s));
    graph.Reset();
    EXPECT_EQ(Reserved(), before);
  });
}

// Released while a graph of it lives: the next pool takes other memory.
TEST(CudaGraphs, APoolServesAnotherWhenItsGraphsAreGone) {
  Alone([] {
    const CUstream s = NewStream();
    std::vector<void*> blocks;
    for (const bool destroyed : {false, true}) {
      devrt_torch_begin_allocate_to_pool(0, {1, 0},
                                         [](CUstream_st*) { return true; });
      Begin(s);
      blocks.push_back(New(s));
      Drop(blocks.back(), s);
      const CUgraphExec exec = End(s);
      devrt_torch_end_allocate_to_pool(0, {1, 0});
      devrt_torch_release_pool(0, {1, 0});
      if (destroyed) Destroy(exec);
    }
    EXPECT_NE(blocks[1], blocks[0]);
    TorchGraph third(s, {2, 0});
    EXPECT_NE(New(s), blocks[0]);
    third.CaptureEnd();
  });
}

TEST(CudaGraphs, CapturesThatShareAPoolShareItsMemory) {
  Alone([] {
    const CUstream s = NewStream();
    const PoolId shared(0, 7);
    TorchGraph first(s, shared);
    void* const temporary = New(s);
    void* const out = New(s);
    Drop(temporary, s);
    first.CaptureEnd();
    TorchGraph second(s, shared);
    EXPECT_EQ(New(s), temporary);
    Drop(temporary, s);
    second.CaptureEnd();
    first.Reset();
    EXPECT_FALSE(IsGivenAway(temporary, s)) << "the second graph has it";
    Drop(out, s);
    EXPECT_FALSE(IsGivenAway(out, s));
    second.Reset();
  });
}

// A result outlives the graph and its pool.
TEST(CudaGraphs, ABlockOfAPoolLivesUpToItsFree) {
  Alone([] {
    const CUstream s = NewStream();
    TorchGraph graph(s, {1, 0});
    void* const out = New(s);
    graph.CaptureEnd();
    graph.Reset();
    EXPECT_FALSE(IsGivenAway(out, s));
    EXPECT_EQ(Must(GetPointerInfo(out)).device, Gpu());
    Drop(out, s);
    EXPECT_EQ(devrt_memory_free_v0(out), DEVRT_INVALID_ARGUMENT);
  });
}

// Other streams of the process are served as ever meanwhile.
TEST(CudaGraphs, APoolServesTheStreamsThatItsFilterTakes) {
  Alone([] {
    const CUstream s = NewStream();
    const CUstream eager = NewStream();
    Cache(eager);
    TorchGraph graph(s, {1, 0});
    void* const within = New(s);
    void* const outside = New(eager);
    graph.CaptureEnd();
    Drop(outside, eager);
    EXPECT_TRUE(IsGivenAway(outside, eager));
    Drop(within, s);
    EXPECT_FALSE(IsGivenAway(within, s));
    graph.Reset();
  });
}

// A bucket that a side stream of the capture uses is not handed out again
// before the capture is over.
TEST(CudaGraphs, RecordedUsesHoldBackBlocksOfAPool) {
  Alone([] {
    const CUstream s = NewStream();
    const CUstream side = NewStream();
    TorchGraph graph(s, {1, 0});
    Fork(s, side);
    void* const bucket = New(s);
    devrt_torch_record_stream(bucket, side);
    Drop(bucket, s);
    EXPECT_NE(New(s), bucket);
    EXPECT_NE(New(side), bucket);
    graph.CaptureEnd();
    graph.Reset();
  });
}

// Behind it the next capture that shares the pool has the bucket, while the
// first graph lives.
TEST(CudaGraphs, RecordedUseEndsWithThePoolsCapture) {
  Alone([] {
    const CUstream s = NewStream();
    const CUstream side = NewStream();
    const PoolId shared(0, 7);
    Cache(s);  // PyTorch empties caches where it has asked for memory
    TorchGraph first(s, shared);
    Fork(s, side);
    void* const bucket = New(s);
    devrt_torch_record_stream(bucket, side);
    Drop(bucket, s);
    first.CaptureEnd();
    EXPECT_EQ(cuStreamSynchronize(side), CUDA_SUCCESS);
    TorchGraph second(s, shared);
    EXPECT_EQ(New(s), bucket);
    Drop(bucket, s);
    second.CaptureEnd();
    first.Reset();
    second.Reset();
  });
}

// Another capture, which has no memory of the pool, uses a block of it, or
// frees one in its order.
TEST(CudaGraphs, ABlockOfAPoolIsKeptForAnotherCapture) {
  for (const bool recorded : {true, false}) {
    Alone([recorded] {
      const CUstream s = NewStream();
      const CUstream other = recorded ? NewStream() : s;
      Cache(s);
      TorchGraph first(s, {1, 0});
      void* const out = New(s);
      first.CaptureEnd();
      Begin(other);
      recorded ? devrt_torch_record_stream(out, other) : Drop(out, s);
      const CUgraphExec exec = End(other);
      if (recorded) Drop(out, s);
      EXPECT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
      TorchGraph second(s, {1, 0});
      EXPECT_NE(New(s), out);
      second.CaptureEnd();
      first.Reset();
      second.Reset();
      void* base = nullptr;
      uint64_t size = 0;
      devrt_torch_empty_cache();
      EXPECT_EQ(devrt_memory_base_v0(out, &base, &size), DEVRT_OK);
      Destroy(exec);
      devrt_torch_empty_cache();
      EXPECT_EQ(devrt_memory_base_v0(out, &base, &size),
                DEVRT_INVALID_ARGUMENT);
    });
  }
}

TEST(CudaGraphs, APoolOfAGraphStandsInTheWayOfShutdown) {
  Alone([] {
    const CUstream s = NewStream();
    TorchGraph graph(s, {1, 0});
    Drop(New(s), s);
    graph.CaptureEnd();
    const int64_t reserved = Reserved();
    EXPECT_STATUS(Shutdown(), kFailedPrecondition, "cuda:0 has 1 allocation");
    EXPECT_EQ(Reserved(), reserved) << "the graph may be launched";
    graph.Reset();
    EXPECT_OK(Shutdown());
  });
}

TEST(CudaGraphs, AMemPoolGetsMemoryInACapture) {
  Alone([] {
    const CUstream s = NewStream();
    Begin(s);
    void* const segment = devrt_torch_pool_alloc(kSize, 0, s);
    EXPECT_NE(segment, nullptr);
    EXPECT_EQ(devrt_torch_pool_alloc(size_t{1} << 50, 0, s), nullptr);
    const CUgraphExec exec = End(s);
    Drop(segment, s);
    EXPECT_FALSE(IsGivenAway(segment, s));
    Destroy(exec);
  });
}

TEST(CudaGraphs, FullPoolThrowsOutOfMemory) {
  Alone([] {
    const CUstream s = NewStream();
    TorchGraph graph(s, {1, 0});
    try {
      New(s, size_t{1} << 50);
      ADD_FAILURE() << "a pebibyte was allocated";
    } catch (const std::bad_alloc& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("out of memory"));
    }
    graph.CaptureEnd();
    graph.Reset();
    EXPECT_EQ(devrt_memory_pool_alloc_v0(nullptr, 1, s, nullptr),
              DEVRT_INVALID_ARGUMENT);
    EXPECT_EQ(devrt_memory_pool_create_v0("cuda:0", nullptr),
              DEVRT_INVALID_ARGUMENT);
    EXPECT_EQ(devrt_memory_pool_release_v0(nullptr), 0);
  });
}

}  // namespace
}  // namespace devrt
