// SPDX-License-Identifier: Apache-2.0
//
// Between places and DLPack's pairs of device type and index, by what backends
// say of themselves (devrt_dlpack.h).

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

const devrt_dlpack_v0& DLPackTypesOf(Device device);

// The place that `device` means for memory at `first`, nullptr: no memory.
// Opens backends to find who says that type.  What the backends know of the
// address is asked: kBuffer if they deny it, or if [span.lo, span.hi) around it
// leaves its block.
absl::StatusOr<Place> PlaceOf(DLDevice device, const void* first,
                              ByteSpan span);

// Where the driver says that the memory at `first` is, whatever a caller
// thinks. kBuffer: no driver knows it.
absl::StatusOr<Place> PlaceOfPointer(const void* first, ByteSpan span);

// Whether the host may read the memory there, as its backend says.
bool IsHostReadable(const Array& array);

// The stream records a graph.  False where the backend cannot tell.
bool RecordsGraph(StreamRef stream);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_EXCHANGE_DLPACK_DEVICES_H_
