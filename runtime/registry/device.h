// SPDX-License-Identifier: Apache-2.0
//
// Devices, and the calling thread's current device.
//
//   DEVRT_ASSIGN_OR_RETURN(devrt::Device gpu, devrt::GetDevice("mtia:1"));
//   DEVRT_ASSIGN_OR_RETURN(devrt::DeviceProperties p, gpu.Properties());
//   std::cout << gpu.name() << ": " << p.name << "\n";
//
// A Device can only name a device that exists: it comes from GetDevice,
// Devices or CurrentDevice.  There is no "device -1", no default constructor
// and no list of device types.
//
// Each thread has one current device for each backend, at first device 0.  On
// cuda and hip that is the native current device: a change by devrt is visible
// to other libraries, and a change by them is visible to devrt (C1, C107).
// devrt's calls on streams, events and pointers do not depend on it; it only
// says which device "mtia" without an index means.
//
// What it is not: an owner.  A Device value starts nothing on the device, and
// queries of devices create no context.
//
// Threads: everything may be called from any thread.
// Errors: INVALID_ARGUMENT for bad strings and indices, NOT_FOUND for unknown
// backends, FAILED_PRECONDITION after Shutdown() and in a forked child.

#ifndef DEVRT_RUNTIME_REGISTRY_DEVICE_H_
#define DEVRT_RUNTIME_REGISTRY_DEVICE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"

namespace devrt {

namespace internal {
struct DeviceGate;    // runtime/registry/gate.h
struct DeviceRecord;  // derived from DeviceGate
}  // namespace internal

// The properties of a device.  A value: properties of equal devices are equal.
struct DEVRT_EXPORT DeviceProperties {
  std::string name;                // "NVIDIA H200"
  std::string arch;                // "sm_90", "gfx942", "mtia-sim"
  std::array<uint8_t, 16> uuid{};  // never all zero
  uint32_t pci_domain = 0;  // with bus and device: the place in the machine
  uint32_t pci_bus = 0;
  uint32_t pci_device = 0;
  uint32_t compute_major = 0;  // 0.0 if the backend has no such version
  uint32_t compute_minor = 0;
  uint32_t multiprocessors = 0;
  uint64_t total_memory = 0;      // bytes
  uint64_t overhead_bytes = 0;    // bytes of total_memory that are reserved
  uint32_t alloc_alignment = 0;   // bytes
  uint32_t copy_engines = 0;      // 1 or more (C60)
  int32_t priority_least = 0;     // numerically greatest
  int32_t priority_greatest = 0;  // numerically least
  uint32_t queue_depth = 0;       // operations a stream holds; 0: no limit
  uint32_t elapsed_resolution_ns = 0;  // of ElapsedMilliseconds (C35)
  uint32_t pageable_async = 0;         // DEVRT_PAGEABLE_*
  bool raw_free_syncs = false;         // Free may wait for the device (C64)
  uint32_t fault_delivery = 0;         // DEVRT_FAULT_DELIVERY_*
  uint32_t fault_scope = 0;            // DEVRT_FAULT_SCOPE_*
  bool device_reset = false;           // simulators only
  uint64_t capabilities = 0;           // DEVRT_CAP_* of the backend

  // 36 characters, "a1b2c3d4-....".
  std::string uuid_string() const;

  friend DEVRT_EXPORT bool operator==(const DeviceProperties& a,
                                      const DeviceProperties& b);
  friend bool operator!=(const DeviceProperties& a, const DeviceProperties& b) {
    return !(a == b);
  }
};

// The memory of a device, in bytes, of all processes.
struct MemoryInfo {
  uint64_t free_bytes = 0;
  uint64_t total_bytes = 0;
};

// One device.  A pointer-sized value; copy it freely.
class DEVRT_EXPORT Device {
 public:
  // The backend that the device belongs to.
  Backend backend() const;
  int index() const;         // ordinal within the backend
  std::string name() const;  // "mtia:1"; GetDevice(name()) is this device

  // The properties, which stay as they are until the process ends.
  absl::StatusOr<DeviceProperties> Properties() const;
  // Asks the backend on each call; other processes may change the result.
  absl::StatusOr<MemoryInfo> GetMemoryInfo() const;
  // Waits for all work on all streams of this device, of all threads (C5).
  // Returns the error of earlier work, if any.
  absl::Status Synchronize(CallSite site = CallSite::Here()) const;
  // OK, or the sticky error that ended this device (docs/reference/semantics.md
  // 2.5).  Does not call the driver.
  absl::Status Health() const;

  friend bool operator==(Device a, Device b) { return a.gate_ == b.gate_; }
  friend bool operator!=(Device a, Device b) { return !(a == b); }
  // Orders by backend, then index.  The order only serves maps.
  friend DEVRT_EXPORT bool operator<(Device a, Device b);
  template <typename H>
  friend H AbslHashValue(H h, Device d) {
    return H::combine(std::move(h), d.gate_);
  }

  // For devrt's own code; runtime/registry/records.h defines record():
  explicit Device(internal::DeviceGate* gate) : gate_(gate) {}
  Device(std::nullptr_t) = delete;
  internal::DeviceGate* gate() const { return gate_; }
  inline internal::DeviceRecord* record() const;

 private:
  internal::DeviceGate* gate_;
};

// Writes the name, "mtia:1".
DEVRT_EXPORT std::ostream& operator<<(std::ostream& os, Device device);

// "mtia:1" is device 1 of backend mtia.  "mtia" is the calling thread's current
// device of mtia.  An index is decimal digits without sign or leading zeros.
DEVRT_EXPORT absl::StatusOr<Device> GetDevice(std::string_view name);
// Error for a bad index: INVALID_ARGUMENT, "Device index value 9 is out of
// index range [0, 2)".
DEVRT_EXPORT absl::StatusOr<Device> GetDevice(std::string_view backend,
                                              int64_t index);
// All devices of one backend, by index.
DEVRT_EXPORT absl::StatusOr<std::vector<Device>> Devices(
    std::string_view backend);
// All devices of all backends that can be opened.  Never fails.
DEVRT_EXPORT std::vector<Device> AllDevices();

// The calling thread's current device of one backend.  No context is created.
DEVRT_EXPORT absl::StatusOr<Device> CurrentDevice(std::string_view backend);
DEVRT_EXPORT absl::StatusOr<Device> CurrentDevice(Backend backend);

// Makes `device` the calling thread's current device of its backend.  The
// current devices of other backends stay.  Does not wait for work, but may
// create the device's context (C2).  FAILED_PRECONDITION inside a host function
// (C42).  DeviceGuard also restores the former device.
DEVRT_EXPORT absl::Status SetCurrentDevice(Device device);

}  // namespace devrt

template <>
struct std::hash<devrt::Device> {
  std::size_t operator()(devrt::Device d) const noexcept {
    return std::hash<const void*>()(d.gate());
  }
};

#endif  // DEVRT_RUNTIME_REGISTRY_DEVICE_H_
