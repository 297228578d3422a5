// SPDX-License-Identifier: Apache-2.0
//
// Devices, and which of them is current.
#include <cstdio>
#include <cstring>

#include "tests/fakes/hip_on_cuda/forward.h"

namespace devrt::hip_on_cuda {
namespace {

// Of later headers than the oldest one.
constexpr auto kWallClockRate = static_cast<hipDeviceAttribute_t>(10017);

// body(props) for a device that there is.
template <typename Body>
hipError_t CallFor(int device, const Body& body) {
  return Call([&](const Api& driver) {
    if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
    CUdevice native = 0;
    devrt_device_props_v0 props = {};
    CUresult error = driver.GetDevice(device, &native);
    if (error == CUDA_SUCCESS) error = driver.Describe(native, &props);
    return error == CUDA_SUCCESS ? body(props) : error;
  });
}

CUresult Attribute(const devrt_device_props_v0& props, int attribute,
                   uint32_t* value) {
  switch (attribute) {
    case hipDeviceAttributePciDomainID:
      *value = props.pci_domain;
      return CUDA_SUCCESS;
    case hipDeviceAttributePciBusId:
      *value = props.pci_bus;
      return CUDA_SUCCESS;
    case hipDeviceAttributePciDeviceId:
      *value = props.pci_device;
      return CUDA_SUCCESS;
    case hipDeviceAttributeComputeCapabilityMajor:
      *value = props.compute_major;
      return CUDA_SUCCESS;
    case hipDeviceAttributeComputeCapabilityMinor:
      *value = props.compute_minor;
      return CUDA_SUCCESS;
    case hipDeviceAttributeMultiprocessorCount:
      *value = props.multiprocessors;
      return CUDA_SUCCESS;
    case kWallClockRate:  // kHz: CUDA's kernels count nanoseconds
      *value = 1000000;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace
}  // namespace devrt::hip_on_cuda

using namespace devrt::hip_on_cuda;  // NOLINT: HIP's own names are global
using devrt::cuda::Api;

hipError_t hipInit(unsigned flags) {
  return Call([&](const Api&) {
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

hipError_t hipRuntimeGetVersion(int* version) {
  *version = HIP_VERSION;
  return hipSuccess;
}

hipError_t hipDriverGetVersion(int* version) {
  return hipRuntimeGetVersion(version);
}

hipError_t hipGetDeviceCount(int* count) { return CountDevices(count); }

hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
  return Call([&](const Api&) {
    if (!IsDevice(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

hipError_t hipDeviceGetName(char* name, int size, hipDevice_t device) {
  return CallFor(device, [&](const devrt_device_props_v0& props) {
    std::snprintf(name, static_cast<size_t>(size), "%s, as HIP", props.name);
    return CUDA_SUCCESS;
  });
}

hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t device) {
  return CallFor(device, [&](const devrt_device_props_v0& props) {
    std::memcpy(uuid->bytes, props.uuid, sizeof uuid->bytes);
    return CUDA_SUCCESS;
  });
}

hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t device) {
  return CallFor(device, [&](const devrt_device_props_v0& props) {
    *bytes = props.total_memory;
    return CUDA_SUCCESS;
  });
}

hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute,
                                 int device) {
  return CallFor(device, [&](const devrt_device_props_v0& props) {
    uint32_t found = 0;
    const CUresult error = Attribute(props, attribute, &found);
    if (error == CUDA_SUCCESS) *value = static_cast<int>(found);
    return error;
  });
}

hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return CallFor(CurrentDevice(), [&](const devrt_device_props_v0& props) {
    *least = props.priority_least;
    *greatest = props.priority_greatest;
    return CUDA_SUCCESS;
  });
}

hipError_t hipDevicePrimaryCtxGetState(hipDevice_t device, unsigned* flags,
                                       int* active) {
  return Call([&](const Api& driver) {
    if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
    CUdevice native = 0;
    const CUresult error = driver.GetDevice(device, &native);
    if (error != CUDA_SUCCESS) return error;
    *flags = 0;
    *active = driver.HasContext(native) ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

// ---- The thread's device ----------------------------------------------------

hipError_t hipGetDevice(int* device) {
  return Call([&](const Api&) {
    *device = CurrentDevice();
    return CUDA_SUCCESS;
  });
}

hipError_t hipSetDevice(int device) {
  return Call([&](const Api&) { return SetCurrentDevice(device); });
}

hipError_t hipDeviceSynchronize() {
  return CallOnDevice(
      [](const Api& driver) { return driver.SynchronizeContext(); });
}

hipError_t hipMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return CallOnDevice([&](const Api& driver) {
    return driver.MemoryInfo(free_bytes, total_bytes);
  });
}

// ---- Peers ------------------------------------------------------------------

hipError_t hipDeviceCanAccessPeer(int* can, int device, int peer) {
  return Call([&](const Api& driver) {
    if (!IsDevice(device) || !IsDevice(peer)) return CUDA_ERROR_INVALID_DEVICE;
    CUdevice from = 0, to = 0;
    CUresult error = driver.GetDevice(device, &from);
    if (error == CUDA_SUCCESS) error = driver.GetDevice(peer, &to);
    return error != CUDA_SUCCESS ? error : driver.CanAccessPeer(from, to, can);
  });
}

hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  return CallOnDevice([&](const Api& driver) {
    if (!IsDevice(peer)) return CUDA_ERROR_INVALID_DEVICE;
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    CUcontext context = nullptr;
    const CUresult error = ContextOf(driver, peer, &context);
    return error != CUDA_SUCCESS ? error : driver.EnablePeer(context);
  });
}

hipError_t hipDeviceDisablePeerAccess(int peer) {
  return CallOnDevice([&](const Api& driver) {
    if (!IsDevice(peer)) return CUDA_ERROR_INVALID_DEVICE;
    CUcontext context = nullptr;
    const CUresult error = ContextOf(driver, peer, &context);
    return error != CUDA_SUCCESS ? error : driver.DisablePeer(context);
  });
}
