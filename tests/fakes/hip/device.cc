// SPDX-License-Identifier: Apache-2.0
//
// Devices, which of them is current, and peers.
#include <array>
#include <cstdio>
#include <cstring>

#include "tests/fakes/hip/driver.h"
#include "tests/fakes/hip/stale.h"

namespace devrt::fake {
namespace {

constexpr int kMostDevices = 64;
// Of later headers than the oldest one.
constexpr auto kWallClockRate = static_cast<hipDeviceAttribute_t>(10017);

thread_local int t_device = 0;

std::atomic<bool>* InUse(int device) {
  static auto* const in_use = new std::array<std::atomic<bool>, kMostDevices>();
  return &in_use->at(static_cast<size_t>(device));
}

// An entry point about a device.
template <typename Body>
hipError_t CallFor(const char* name, int device, const Body& body) {
  return Call(name, kQuiet | kInCallback, [&] {
    const hipError_t error = CheckDevice(device);
    return error == hipSuccess ? body(SimOf(device)) : error;
  });
}

hipError_t Attribute(const devrt_device_props_v0& props,
                     hipDeviceAttribute_t attribute, int* value) {
  switch (static_cast<int>(attribute)) {
    case hipDeviceAttributePciDomainID:
      *value = static_cast<int>(props.pci_domain);
      return hipSuccess;
    case hipDeviceAttributePciBusId:
      *value = static_cast<int>(props.pci_bus);
      return hipSuccess;
    case hipDeviceAttributePciDeviceId:
      *value = static_cast<int>(props.pci_device);
      return hipSuccess;
    case hipDeviceAttributeComputeCapabilityMajor:
      *value = 9;
      return hipSuccess;
    case hipDeviceAttributeComputeCapabilityMinor:
      *value = 0;
      return hipSuccess;
    case hipDeviceAttributeMultiprocessorCount:
      *value = static_cast<int>(props.multiprocessors);
      return hipSuccess;
    case hipDeviceAttributeAsyncEngineCount:
      *value = static_cast<int>(props.copy_engines);
      return hipSuccess;
    case hipDeviceAttributeWarpSize:
      *value = 64;
      return hipSuccess;
    case kWallClockRate:  // kHz: devrt_spin takes nanoseconds here
      *value = 1000000;
      return hipSuccess;
    default:
      Die("hipDeviceGetAttribute: attribute %d is not known here", attribute);
  }
}

}  // namespace

hipError_t CheckDevice(int device) {
  return device >= 0 && device < static_cast<int>(DeviceCount())
             ? hipSuccess
             : hipErrorInvalidDevice;
}

int CurrentDevice() { return t_device; }

int UseCurrentDevice() {
  *InUse(t_device) = true;
  return t_device;
}

}  // namespace devrt::fake

using namespace devrt::fake;  // NOLINT: the driver's own names are global

hipError_t hipGetDeviceCount(int* count) {
  return Call("hipGetDeviceCount", kQuiet, [&] {
    *count = static_cast<int>(DeviceCount());
    return hipSuccess;
  });
}

hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
  return CallFor("hipDeviceGet", ordinal, [&](uint32_t) {
    *device = ordinal;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetName(char* name, int size, hipDevice_t device) {
  return CallFor("hipDeviceGetName", device, [&](uint32_t) {
    std::snprintf(name, static_cast<size_t>(size), "fake HIP device");
    return hipSuccess;
  });
}

hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t device) {
  return CallFor("hipDeviceGetUuid", device, [&](uint32_t sim) {
    std::memcpy(uuid->bytes, engine::PropsOf(sim).uuid, sizeof uuid->bytes);
    return hipSuccess;
  });
}

hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t device) {
  return CallFor("hipDeviceTotalMem", device, [&](uint32_t sim) {
    *bytes = engine::PropsOf(sim).total_memory;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute,
                                 int device) {
  return CallFor("hipDeviceGetAttribute", device, [&](uint32_t sim) {
    return Attribute(engine::PropsOf(sim), attribute, value);
  });
}

hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return Call("hipDeviceGetStreamPriorityRange", kQuiet, [&] {
    const auto props = engine::PropsOf(SimOf(CurrentDevice()));
    *least = props.priority_least;
    *greatest = props.priority_greatest;
    return hipSuccess;
  });
}

hipError_t hipDevicePrimaryCtxGetState(hipDevice_t device, unsigned* flags,
                                       int* active) {
  return CallFor("hipDevicePrimaryCtxGetState", device, [&](uint32_t) {
    *flags = 0;
    *active = *InUse(device) ? 1 : 0;
    return hipSuccess;
  });
}

// ---- The thread's device ----------------------------------------------------

hipError_t hipGetDevice(int* device) {
  return Call("hipGetDevice", kQuiet | kInCallback, [&] {
    *device = CurrentDevice();
    return hipSuccess;
  });
}

hipError_t hipSetDevice(int device) {
  return CallFor("hipSetDevice", device, [&](uint32_t) {
    t_device = device;
    return hipSuccess;
  });
}

hipError_t hipDeviceSynchronize() {
  return Call("hipDeviceSynchronize", kDeviceCall, [] {
    const hipError_t error =
        Sim<&devrt_ops_v0::device_sync>(SimOf(UseCurrentDevice()));
    if (error == hipSuccess) ShowWrites();
    return error;
  });
}

hipError_t hipMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return Call("hipMemGetInfo", kDeviceCall, [&] {
    return Sim<&devrt_ops_v0::mem_info>(SimOf(UseCurrentDevice()), free_bytes,
                                        total_bytes);
  });
}

// ---- Peers ------------------------------------------------------------------

hipError_t hipDeviceCanAccessPeer(int* can, int device, int peer) {
  return CallFor("hipDeviceCanAccessPeer", device, [&](uint32_t sim) {
    if (CheckDevice(peer) != hipSuccess) return hipErrorInvalidDevice;
    *can = 0;
    if (device == peer) return hipSuccess;
    uint32_t answer = 0;
    const hipError_t error =
        Sim<&devrt_ops_v0::peer_can_access>(sim, SimOf(peer), &answer);
    *can = static_cast<int>(answer);
    return error;
  });
}

hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  return Call("hipDeviceEnablePeerAccess", kDeviceCall, [&] {
    if (flags != 0) return hipErrorInvalidValue;
    const hipError_t error = CheckDevice(peer);
    if (error != hipSuccess) return error;
    return Sim<&devrt_ops_v0::peer_enable>(SimOf(UseCurrentDevice()),
                                           SimOf(peer));
  });
}

hipError_t hipDeviceDisablePeerAccess(int peer) {
  return Call("hipDeviceDisablePeerAccess", kDeviceCall, [&] {
    const hipError_t error = CheckDevice(peer);
    if (error != hipSuccess) return error;
    return Sim<&devrt_ops_v0::peer_disable>(SimOf(UseCurrentDevice()),
                                            SimOf(peer));
  });
}
