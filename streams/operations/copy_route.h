// SPDX-License-Identifier: Apache-2.0
//
// CopyRoute: the operands of a copy, made from the pointers of a program, and
// whether the copy goes through the host.

#ifndef DEVRT_STREAMS_OPERATIONS_COPY_ROUTE_H_
#define DEVRT_STREAMS_OPERATIONS_COPY_ROUTE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/streams/copy.h"
#include "runtime/registry/records.h"
#include "streams/operations/operand.h"

namespace devrt::internal {

struct CopyRoute {
  Operand dst;
  Operand src;
  bool staged = false;  // the copy goes through a buffer of the host
};

// Resolves both pointers of a program's copy of `bytes` > 0 on a stream of
// `stream_device`, and checks bounds, overlap, direction and devices.
// INVALID_ARGUMENT, naming the side.
absl::Status RouteCopy(DeviceRecord* stream_device, void* dst, const void* src,
                       uint64_t bytes, CopyKind kind, CopyRoute* route);

// Resolves the target of a program's fill of `bytes` > 0: memory of the
// stream's device, or of a peer that it may access.
absl::StatusOr<Operand> RouteFill(DeviceRecord* stream_device, void* dst,
                                  uint64_t bytes);

// INVALID_ARGUMENT if `ptr` lies in memory of a caching allocator but in no
// live block.
absl::Status CheckAccess(const void* ptr);

// Returns `status`, the result of a copy. Adds the call site of the free if the
// memory of a side was freed.
absl::Status DescribeFreedMemory(absl::Status status, const void* dst,
                                 const void* src);

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_OPERATIONS_COPY_ROUTE_H_
