// SPDX-License-Identifier: Apache-2.0
//
// Helpers of the tests of memory and graphs: calls as PyTorch makes them, and
// captures over the fake driver.

#ifndef DEVRT_TESTS_FAKES_CUDA_GRAPHS_H_
#define DEVRT_TESTS_FAKES_CUDA_GRAPHS_H_

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

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

namespace devrt::test {

inline constexpr size_t kSize = 4 << 20;

// A stream that devrt has not met.
inline CUstream NewStream(unsigned flags = CU_STREAM_NON_BLOCKING) {
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

inline void* New(CUstream stream, size_t size = kSize) {
  return devrt_torch_alloc(size, 0, stream);
}
inline void Drop(void* block, CUstream stream) {
  devrt_torch_free(block, kSize, 0, stream);
}

// Returns true if one of the next tensors of the stream lies at `address`.
inline bool IsGivenAway(const void* address, CUstream stream,
                        size_t size = kSize) {
  std::vector<void*> next;
  bool given = false;
  for (int i = 0; i < 8; ++i) {
    next.push_back(New(stream, size));
    given = given || next.back() == address;
  }
  for (void* block : next) devrt_torch_free(block, size, 0, stream);
  return given;
}

inline void Begin(CUstream stream) {
  ASSERT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
}
// `stream` joins the capture of `origin`.
inline void Fork(CUstream origin, CUstream stream) {
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, origin), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_DEFAULT),
            CUDA_SUCCESS);
}
inline CUgraphExec End(CUstream stream) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
  return exec;
}
inline void Destroy(CUgraphExec exec) {
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

// As warm-up does.
inline void Cache(CUstream stream, int blocks = 1) {
  std::vector<void*> warm;
  for (int i = 0; i < blocks; ++i) warm.push_back(New(stream));
  for (void* block : warm) Drop(block, stream);
}

}  // namespace devrt::test

#endif  // DEVRT_TESTS_FAKES_CUDA_GRAPHS_H_
