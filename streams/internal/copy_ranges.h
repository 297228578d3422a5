// SPDX-License-Identifier: Apache-2.0
//
// What the two sides of a copy are, and which way it goes.

#ifndef DEVRT_STREAMS_INTERNAL_COPY_RANGES_H_
#define DEVRT_STREAMS_INTERNAL_COPY_RANGES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/streams/copy.h"
#include "runtime/internal/records.h"

namespace devrt::internal {

// One side: `device` is nullptr for host memory of any sort.
struct CopySide {
  DeviceRecord* device = nullptr;
};

struct CopyRoute {
  CopySide dst;
  CopySide src;
  CopyKind kind = CopyKind::kInfer;  // never kInfer once routed
  bool peer = false;                 // two devices of one backend
  bool staged = false;               // through the host
};

// Checks bounds, overlap, direction and devices of a copy of `bytes` > 0 on a
// stream of `stream_device`.  INVALID_ARGUMENT, naming the side.
absl::StatusOr<CopyRoute> RouteCopy(DeviceRecord* stream_device,
                                    const void* dst, const void* src,
                                    uint64_t bytes, CopyKind kind);

// The same for the target of a fill: memory of the stream's device.
absl::Status CheckFill(DeviceRecord* stream_device, const void* dst,
                       uint64_t bytes);

// INVALID_ARGUMENT: `ptr` lies in cached memory where no block is alive.
absl::Status CheckAccess(const void* ptr);

// What the backend said of a copy; of memory that was freed it also says where.
absl::Status WithFreed(absl::Status status, const void* dst, const void* src);

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_INTERNAL_COPY_RANGES_H_
