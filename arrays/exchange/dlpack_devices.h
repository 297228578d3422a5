// SPDX-License-Identifier: Apache-2.0
//
// Conversion between places and DLPack's pairs of device type and index.
// Backends say their device types (devrt_dlpack.h).

#ifndef DEVRT_ARRAYS_EXCHANGE_DLPACK_DEVICES_H_
#define DEVRT_ARRAYS_EXCHANGE_DLPACK_DEVICES_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "arrays/core/geometry.h"
#include "devrt/arrays/array.h"
#include "devrt/arrays/dlpack_abi.h"
#include "devrt/arrays/place.h"
#include "devrt/backends/abi/devrt_dlpack.h"
#include "devrt/runtime/device.h"

namespace devrt::internal {

inline bool SameDevice(DLDevice a, DLDevice b) {
  return a.device_type == b.device_type && a.device_id == b.device_id;
}

// "(2, 0)".
std::string PairText(DLDevice device);

// The DLPack device types of the device's backend.
const devrt_dlpack_v0& DLPackTypesOf(Device device);

// The place that `device` means for memory at `first`; nullptr is no memory.
// Opens backends to find one with the type, and asks them about the address.
// kBuffer: the memory is elsewhere, or [span.lo, span.hi) around `first` leaves
// its block.
absl::StatusOr<Place> PlaceOf(DLDevice device, const void* first,
                              ByteSpan span);

// The place where the driver says that the memory at `first` is.  kBuffer: no
// driver knows the address.
absl::StatusOr<Place> PlaceOfPointer(const void* first, ByteSpan span);

// Returns true if the backend says that the host may read the array's memory.
bool IsHostReadable(const Array& array);

// Returns true if the stream records a graph, and false if the backend cannot
// tell.
bool RecordsGraph(StreamRef stream);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_EXCHANGE_DLPACK_DEVICES_H_
