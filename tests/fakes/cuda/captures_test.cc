// SPDX-License-Identifier: Apache-2.0
//
// Captures on cuda where the driver is old, and what a program asks for itself;
// the rest is in tests/hardware/arrays_capture.cc.

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "devrt/devrt.h"
#include "tests/fakes/common/alone.h"
#include "tests/support/status_matchers.h"

namespace devrt {
namespace {

using test::Alone;
using testing::Must;

Device Gpu() { return Must(GetDevice("cuda:0")); }

CUstream Begin(StreamRef stream) {
  const auto native = static_cast<CUstream>(Must(stream.Native()));
  EXPECT_EQ(cuStreamBeginCapture(native, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
  return native;
}

bool End(CUstream stream) {
  CUgraph graph = nullptr;
  const CUresult error = cuStreamEndCapture(stream, &graph);
  if (error != CUDA_SUCCESS) return false;
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  return true;
}

// A driver of before 12.3.
TEST(CudaCaptures, WithoutNumbersNoArrayIsMade) {
  for (const char* missing :
       {"missing=cuStreamGetCaptureInfo", "missing=cuUserObjectCreate",
        "missing=cuGraphRetainUserObject"}) {
    Alone([missing] {
      setenv("DEVRT_FAKE_CUDA", missing, 1);
      Stream stream = Must(Stream::Create(Gpu()));
      const StreamGuard on(stream);
      const Array x = Must(Array::Full({64}, kInt32, 1, Gpu()));
      ASSERT_OK(AddInto(x, x, 2));
      ASSERT_OK(x.Ready());
      const CUstream native = Begin(stream);
      EXPECT_STATUS(AddInto(x, x, 2), kFailedPrecondition,
                    "before the capture begins");
      EXPECT_OK(x.Fill(3));
      EXPECT_TRUE(End(native));
    });
  }
}

// No edge leads from a capture that became invalid, and nothing is held.
TEST(CudaCaptures, InvalidCapturesAreRefused) {
  Alone([] {
    Stream stream = Must(Stream::Create(Gpu()));
    const StreamGuard on(stream);
    const Array x = Must(Array::Full({64}, kInt32, 1, Gpu()));
    ASSERT_OK(x.Ready());
    const CUstream native = Begin(stream);
    EXPECT_EQ(cuStreamQuery(native), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_STATUS(x.Fill(3), kFailedPrecondition, "");
    EXPECT_FALSE(End(native));
    EXPECT_OK(x.Fill(3));
  });
}

// The driver's capture mode governs a program's own queries (C82). devrt's
// internal queries leave the thread's mode as it was.
TEST(CudaCaptures, OnlyOwnQuestionsAreRelaxed) {
  Alone([] {
    Stream stream = Must(Stream::Create(Gpu()));
    Stream other = Must(Stream::Create(Gpu()));
    const Array x = Must(Array::Full({64}, kInt32, 1, Gpu()));
    {
      const StreamGuard on(other);
      ASSERT_OK(x.Fill(2));
    }
    CUstream native = Begin(stream);
    EXPECT_OK(x.IsReady().status());
    EXPECT_TRUE(End(native));
    native = Begin(stream);
    EXPECT_FALSE(other.Query().ok());
    EXPECT_FALSE(End(native));
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    EXPECT_OK(x.IsReady().status());
    EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  });
}

// C85: of a stream that captures none is asked for; of others it is, by any
// thread, and given back.
TEST(CudaCaptures, DriverAllocationsKeepCapturesValid) {
  Alone([] {
    Stream stream = Must(Stream::Create(Gpu()));
    Stream other = Must(Stream::Create(Gpu()));
    const CUstream native = Begin(stream);
    const auto before = GetMemoryStatistics(Gpu()).reserved_bytes.all.current;
    void* const block = Must(AllocateMemory(other, 32 << 20));
    EXPECT_GT(GetMemoryStatistics(Gpu()).reserved_bytes.all.current, before);
    EXPECT_OK(FreeMemory(block));
    EXPECT_OK(EmptyCache(Gpu()));
    EXPECT_EQ(GetMemoryStatistics(Gpu()).reserved_bytes.all.current, before);
    EXPECT_OK(FreePinned(Must(AllocatePinned(Gpu(), 4 << 20))));
    EXPECT_OK(EmptyPinnedCache(Gpu().backend()));
    EXPECT_TRUE(End(native));
  });
}

// Without room for pinned memory, recovery gives up on a block that a captured
// stream uses: the calling thread may be the one that ends the capture.
TEST(CudaCaptures, PinnedMemoryIsNotWaitedFor) {
  Alone([] {
    setenv("DEVRT_MTIA", "pinned=64MiB", 1);
    Stream stream = Must(Stream::Create(Gpu()));
    void* const used = Must(AllocatePinned(Gpu(), 40 << 20));
    ASSERT_OK(RecordPinnedUse(used, stream));
    const CUstream native = Begin(stream);
    EXPECT_OK(FreePinned(used));
    EXPECT_STATUS(AllocatePinned(Gpu(), 40 << 20), kResourceExhausted,
                  "capturing");
    EXPECT_OK(FreePinned(Must(AllocatePinned(Gpu(), 16 << 20))));
    EXPECT_TRUE(End(native));
    EXPECT_OK(FreePinned(Must(AllocatePinned(Gpu(), 40 << 20))));
  });
}

// A wait for the device would end a capture of any of its streams, in every
// mode: recovery leaves it out, and what only the device could tell stays.
TEST(CudaCaptures, TheDeviceIsNotWaitedFor) {
  for (const CUstreamCaptureMode mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    Alone([mode] {
      setenv("DEVRT_MTIA", "memory=64MiB", 1);
      Stream stream = Must(Stream::Create(Gpu()));
      Stream eager = Must(Stream::Create(Gpu()));
      Stream theirs = Must(Stream::Create(Gpu()));
      void* const block = Must(AllocateMemory(eager, 40 << 20));
      {
        // Without an owner nobody may ask it behind the call.
        const Stream adopted =
            Must(Stream::FromNative(Gpu(), Must(theirs.Native())));
        ASSERT_OK(RecordStream(block, adopted));
        ASSERT_OK(FreeMemory(block));
        const auto native = static_cast<CUstream>(Must(stream.Native()));
        ASSERT_EQ(cuStreamBeginCapture(native, mode), CUDA_SUCCESS);
        EXPECT_STATUS(AllocateMemory(eager, 60 << 20), kResourceExhausted,
                      "capturing");
        EXPECT_TRUE(End(native));
      }
      ASSERT_OK(FreeMemory(Must(AllocateMemory(eager, 60 << 20))));
    });
  }
}

// F40, C85: all kernels are loaded and tried out by the first that is needed.
TEST(CudaCaptures, LoadingKernelsKeepsCapturesValid) {
  Alone([] {
    Stream stream = Must(Stream::Create(Gpu()));
    Stream other = Must(Stream::Create(Gpu()));
    const CUstream native = Begin(stream);
    {
      const StreamGuard on(other);
      const Array x = Must(Array::Full({64}, kInt32, 1, Gpu()));
      EXPECT_TRUE(End(native));
      EXPECT_EQ(*Must(x.To(Place::Host())).data_as<int32_t>(), 1);
    }
  });
}

// It would pack what is there now, and each launch repeat that.
TEST(CudaCaptures, ACopyThatTheHostPacksIsRefused) {
  Alone([] {
    Stream stream = Must(Stream::Create(Gpu()));
    const StreamGuard on(stream);
    const Place pinned = Place::Pinned(Gpu());
    const Array x = Must(Array::Full({64}, kInt32, 1, Gpu()));
    const Array h = Must(Array::Full({128}, kInt32, 2, pinned));
    const Array strided = Must(h.SliceAxis(0, {0, 128, 2}));
    ASSERT_OK(x.Ready());
    ASSERT_OK(h.Ready());
    const CUstream native = Begin(stream);
    EXPECT_EQ(x.CopyFrom(strided, true).code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(End(native));
    ASSERT_OK(stream.Synchronize());
    EXPECT_EQ(*Must(x.To(Place::Host())).data_as<int32_t>(), 1);
  });
}

}  // namespace
}  // namespace devrt
