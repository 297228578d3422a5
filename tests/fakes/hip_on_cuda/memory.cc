// SPDX-License-Identifier: Apache-2.0
//
// Memory of both sides, copies and fills.
#include "tests/fakes/hip_on_cuda/forward.h"

namespace devrt::hip_on_cuda {
namespace {

uint32_t KindOf(hipMemcpyKind kind) {
  switch (kind) {
    case hipMemcpyHostToDevice:
      return DEVRT_COPY_H2D;
    case hipMemcpyDeviceToHost:
      return DEVRT_COPY_D2H;
    case hipMemcpyDeviceToDevice:
      return DEVRT_COPY_D2D;
    default:
      return DEVRT_COPY_INFER;
  }
}

CUresult Attribute(const devrt_pointer_info_v0& info,
                   hipPointer_attribute attribute, void* data) {
  const bool is_device = info.kind == DEVRT_POINTER_DEVICE;
  switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) =
          is_device ? hipMemoryTypeDevice : hipMemoryTypeHost;
      return CUDA_SUCCESS;
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<bool*>(data) = info.kind == DEVRT_POINTER_MANAGED;
      return CUDA_SUCCESS;
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = info.device;
      return CUDA_SUCCESS;
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<void**>(data) = info.base;
      return CUDA_SUCCESS;
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<uint32_t*>(data) = static_cast<uint32_t>(info.size);
      return CUDA_SUCCESS;
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(data) = info.allocation_id;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Returns the properties of a pointer. HIP returns an error for an unknown
// pointer.
CUresult Inspect(const Api& driver, const void* ptr,
                 devrt_pointer_info_v0* info) {
  const CUresult error = driver.Inspect(ptr, info);
  if (error != CUDA_SUCCESS) return error;
  return info->kind == DEVRT_POINTER_UNREGISTERED ? CUDA_ERROR_INVALID_VALUE
                                                  : CUDA_SUCCESS;
}

// CUDA's driver may read a small source at the submission, before what the
// legacy stream's rules put before the copy (docs/decisions/0010); HIP does not
// say that it does.  A wait for an event of the stream itself prevents it.
CUresult PreventEarlyRead(const Api& driver, CUstream stream) {
  bool is_blocking = false;
  CUcontext context = nullptr;
  CUevent fence = nullptr;
  CUresult error = driver.IsBlocking(stream, &is_blocking);
  if (error != CUDA_SUCCESS || !is_blocking) return error;
  error = driver.ContextOf(stream, &context);
  if (error != CUDA_SUCCESS) return error;
  const Scope scope(driver, DeviceOf(context));  // the event's
  error = scope.error();
  if (error != CUDA_SUCCESS) return error;
  error = driver.CreateEvent(false, false, false, &fence);
  if (error != CUDA_SUCCESS) return error;
  error = driver.Record(fence, stream);
  if (error == CUDA_SUCCESS) error = driver.Wait(stream, fence);
  (void)driver.DestroyEvent(fence);  // the wait holds
  return error;
}

bool IsPageable(const Api& driver, const void* ptr) {
  devrt_pointer_info_v0 info = {};
  return driver.Inspect(ptr, &info) == CUDA_SUCCESS &&
         info.kind == DEVRT_POINTER_UNREGISTERED;
}

}  // namespace
}  // namespace devrt::hip_on_cuda

using namespace devrt::hip_on_cuda;  // NOLINT: HIP's own names are global
using devrt::cuda::Api;

// ---- Allocation -------------------------------------------------------------

hipError_t hipMalloc(void** ptr, size_t size) {
  *ptr = nullptr;
  return CallOnDevice([&](const Api& driver) {
    return size == 0 ? CUDA_SUCCESS : driver.Allocate(ptr, size);
  });
}

hipError_t hipFree(void* ptr) {
  return Call([&](const Api& driver) {
    const CUresult error = driver.Free(ptr);
    return error == CUDA_ERROR_INVALID_VALUE
               ? static_cast<CUresult>(hipErrorInvalidDevicePointer)
               : error;
  });
}

hipError_t hipHostMalloc(void** ptr, size_t size, unsigned) {
  *ptr = nullptr;
  return CallOnDevice([&](const Api& driver) {
    return size == 0 ? CUDA_SUCCESS : driver.AllocateHost(ptr, size);
  });
}

hipError_t hipHostFree(void* ptr) {
  return Call([&](const Api& driver) {
    return ptr == nullptr ? CUDA_SUCCESS : driver.FreeHost(ptr);
  });
}

hipError_t hipHostRegister(void* ptr, size_t size, unsigned) {
  return CallOnDevice(
      [&](const Api& driver) { return driver.RegisterHost(ptr, size); });
}

hipError_t hipHostUnregister(void* ptr) {
  return CallOnDevice(
      [&](const Api& driver) { return driver.UnregisterHost(ptr); });
}

hipError_t hipPointerGetAttribute(void* data, hipPointer_attribute attribute,
                                  hipDeviceptr_t ptr) {
  return Call([&](const Api& driver) {
    devrt_pointer_info_v0 info = {};
    const CUresult error = Inspect(driver, ptr, &info);
    return error != CUDA_SUCCESS ? error : Attribute(info, attribute, data);
  });
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, size_t* size,
                                 hipDeviceptr_t ptr) {
  return Call([&](const Api& driver) {
    devrt_pointer_info_v0 info = {};
    const CUresult error = Inspect(driver, ptr, &info);
    if (error != CUDA_SUCCESS) return error;
    *base = info.base;
    *size = info.size;
    return CUDA_SUCCESS;
  });
}

// ---- Copies and fills -------------------------------------------------------

hipError_t hipMemcpyAsync(void* dst, const void* src, size_t size,
                          hipMemcpyKind kind, hipStream_t stream) {
  return CallOn(stream, [&](const Api& driver, CUstream native) {
    CUresult error = CUDA_SUCCESS;
    if (size < Api::kEarlyReadBelow &&
        (kind == hipMemcpyHostToDevice || kind == hipMemcpyDefault)) {
      error = PreventEarlyRead(driver, native);
    }
    if (error == CUDA_SUCCESS) {
      error = driver.Copy(dst, src, size, KindOf(kind), native);
    }
    // As HIP has it, a copy of pageable memory has ended at its return (C53).
    const bool ends = error == CUDA_SUCCESS &&
                      kind != hipMemcpyDeviceToDevice &&
                      (IsPageable(driver, dst) || IsPageable(driver, src));
    return ends ? driver.SynchronizeStream(native) : error;
  });
}

hipError_t hipMemcpyPeerAsync(void* dst, int dst_device, const void* src,
                              int src_device, size_t size, hipStream_t stream) {
  return CallOn(stream, [&](const Api& driver, CUstream native) {
    if (!IsDevice(dst_device) || !IsDevice(src_device)) {
      return CUDA_ERROR_INVALID_DEVICE;
    }
    CUcontext to = nullptr, from = nullptr;
    CUresult error = ContextOf(driver, dst_device, &to);
    if (error == CUDA_SUCCESS) error = ContextOf(driver, src_device, &from);
    if (error != CUDA_SUCCESS) return error;
    return driver.CopyPeer(dst, to, src, from, size, native);
  });
}

hipError_t hipMemsetAsync(void* dst, int value, size_t size,
                          hipStream_t stream) {
  return CallOn(stream, [&](const Api& driver, CUstream native) {
    return driver.Fill(dst, static_cast<uint8_t>(value), size, native);
  });
}
