// SPDX-License-Identifier: Apache-2.0
//
// Memory of devrt_memory.h and of PyTorch's object on streams that their owner
// captures: a graph keeps addresses (docs/decisions/0014).  Called as PyTorch
// calls; what the graphs would run is no matter here.

#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "devrt/devrt.h"
#include "devrt/memory/devrt_memory.h"
#include "tests/fakes/common/alone.h"
#include "tests/support/status_matchers.h"

using PoolId = std::pair<unsigned long long, unsigned long long>;
using TakesStream = std::function<bool(CUstream_st*)>;

extern "C" {
void* devrt_torch_alloc(size_t size, int device, void* stream);
void devrt_torch_free(void* ptr, size_t size, int device, void* stream);
void* devrt_torch_pool_alloc(size_t size, int device, void* stream);
void devrt_torch_record_stream(void* ptr, CUstream_st* stream);
void devrt_torch_empty_cache();
void devrt_torch_begin_allocate_to_pool(int device, PoolId id,
                                        TakesStream takes);
void devrt_torch_end_allocate_to_pool(int device, PoolId id);
void devrt_torch_release_pool(int device, PoolId id);
}

namespace devrt {
namespace {

using test::Alone;
using testing::Must;

constexpr size_t kSize = 4 << 20;

Device Gpu() { return Must(GetDevice("cuda:0")); }

// A stream that devrt has not met.
CUstream NewStream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  static CUcontext const context = [] {
    CUdevice device = 0;
    CUcontext primary = nullptr;
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(cuDeviceGet(&device, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&primary, device), CUDA_SUCCESS);
    return primary;
  }();
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreateWithPriority(&stream, flags, 0), CUDA_SUCCESS);
  return stream;
}

void* New(CUstream stream, size_t size = kSize) {
  return devrt_torch_alloc(size, 0, stream);
}
void Drop(void* block, CUstream stream) {
  devrt_torch_free(block, kSize, 0, stream);
}

// Whether one of the next tensors of the stream is at `address`.
bool IsGivenAway(const void* address, CUstream stream, size_t size = kSize) {
  std::vector<void*> next;
  bool given = false;
  for (int i = 0; i < 8; ++i) {
    next.push_back(New(stream, size));
    given = given || next.back() == address;
  }
  for (void* block : next) devrt_torch_free(block, size, 0, stream);
  return given;
}

void Begin(CUstream stream) {
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
}
// `stream` joins the capture of `origin`.
void Fork(CUstream origin, CUstream stream) {
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, origin), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_DEFAULT),
            CUDA_SUCCESS);
}
CUgraphExec End(CUstream stream) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  return exec;
}
void Destroy(CUgraphExec exec) {
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

// As warm-up does.
void Cache(CUstream stream, int blocks = 1) {
  std::vector<void*> warm;
  for (int i = 0; i < blocks; ++i) warm.push_back(New(stream));
  for (void* block : warm) Drop(block, stream);
}

// ---- Blocks of captures -----------------------------------------------------

TEST(CudaGraphs, WhatIsFreedInACaptureIsTheGraphs) {
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

TEST(CudaGraphs, WhatIsHandedOutInACaptureIsTheGraphsBehindIt) {
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

TEST(CudaGraphs, WhatWasThereBeforeIsTheGraphsIfItIsFreedInTheCapture) {
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

// As of a bucket that another stream of the capture sends.
TEST(CudaGraphs, RecordedUsesInACaptureAreTheGraphs) {
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
    EXPECT_THAT(devrt_memory_last_error_v0(),
                ::testing::HasSubstr("before the capture begins"));
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

// Whether it is blocking cannot be asked, and the legacy stream does not say
// that no blocking stream captures.
TEST(CudaGraphs, ABlockingOneMayNot) {
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

// ---- PyTorch's pools --------------------------------------------------------

// What torch.cuda.graph does with an allocator: CUDAGraph::capture_begin,
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

TEST(CudaGraphs, APoolWithoutRoomSaysSo) {
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
