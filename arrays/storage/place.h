// SPDX-License-Identifier: Apache-2.0
//
// Place: where the memory of an array is.
//
//   auto device = devrt::Place(gpu);            // memory of a device
//   auto pinned = devrt::Place::Pinned(gpu);    // page-locked host memory
//   auto managed = devrt::Place::Managed(gpu);  // of imported arrays only
//   auto host = devrt::Place::Host();           // plain ("pageable") memory
//
// The host and copies use pinned memory directly, and so do kernels of its
// device where the backend allows it.
//
// Threads: a Place is a value.

#ifndef DEVRT_ARRAYS_STORAGE_PLACE_H_
#define DEVRT_ARRAYS_STORAGE_PLACE_H_

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"

namespace devrt {

// Plain or page-locked host memory, managed memory, or a device's own.
enum class MemoryKind : uint8_t { kHost, kPinned, kManaged, kDevice };

// A kind of memory, and the device that it belongs to.
class DEVRT_EXPORT Place {
 public:
  // Memory of a device.
  // NOLINTNEXTLINE(google-explicit-constructor): a device is a place
  Place(Device device) : kind_(MemoryKind::kDevice), device_(device) {}
  // The places of the example at the top:
  static Place Host() { return Place(MemoryKind::kHost, std::nullopt); }
  static Place Pinned(Device device) {
    return Place(MemoryKind::kPinned, device);
  }
  static Place Managed(Device device) {
    return Place(MemoryKind::kManaged, device);
  }
  // The calling thread's current device of the default backend: the usable
  // backend with devices that has the highest priority.  The first call that
  // finds one chooses it for the rest of the process.  NOT_FOUND: there is
  // none.
  static absl::StatusOr<Place> Current();

  // The kind of memory.
  MemoryKind kind() const { return kind_; }
  // For pinned memory the device whose backend allocated it; nullopt for kHost.
  std::optional<Device> device() const { return device_; }
  // Returns true if the host can use the memory.
  bool host_accessible() const { return kind_ != MemoryKind::kDevice; }
  // "mtia:1", "pinned memory of mtia:1", "managed memory of cuda:0", "cpu".
  std::string name() const;

  friend bool operator==(const Place& a, const Place& b) {
    return a.kind_ == b.kind_ && a.device_ == b.device_;
  }
  friend bool operator!=(const Place& a, const Place& b) { return !(a == b); }

 private:
  Place(MemoryKind kind, std::optional<Device> device)
      : kind_(kind), device_(device) {}
  MemoryKind kind_;
  std::optional<Device> device_;
};

// Writes the name.
DEVRT_EXPORT std::ostream& operator<<(std::ostream& os, const Place& place);

}  // namespace devrt

#endif  // DEVRT_ARRAYS_STORAGE_PLACE_H_
