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
#include <vector>

#include "devrt/devrt.h"
#include "devrt/memory/devrt_memory.h"
#include "tests/fakes/common/alone.h"
#include "tests/support/status_matchers.h"

namespace devrt {
namespace {

using namespace test;  // NOLINT: what graphs.h has

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

}  // namespace
}  // namespace devrt
