// SPDX-License-Identifier: Apache-2.0
//
// Operand: the memory of one side of a copy, or of a fill, and where it lies.
//
// Arrays and allocators know where their memory lies and make operands from it.
// RouteCopy and RouteFill (copy_route.h) make operands from the pointers of a
// program.  Functions that take an operand look nothing up: the caller vouches
// for the device, the bounds and the life of the memory.
//
//   StreamTarget target;
//   DEVRT_RETURN_IF_ERROR(ResolveStreamForWork(stream, "copy", site, &target));
//   DEVRT_RETURN_IF_ERROR(CopyOperands(target, to, from));
//
// Neither function notes the use of the memory (NoteUses): the caller does so
// after the call, or keeps the uses itself.

#ifndef DEVRT_STREAMS_OPERATIONS_OPERAND_H_
#define DEVRT_STREAMS_OPERATIONS_OPERAND_H_

#include <cstdint>

#include "absl/status/status.h"
#include "devrt/runtime/raw_memory.h"
#include "devrt/streams/copy.h"
#include "streams/objects/stream_target.h"

namespace devrt::internal {

struct Operand {
  DeviceRecord* device = nullptr;  // of the memory, if `kind` is kDevice
  void* data = nullptr;
  uint64_t bytes = 0;
  // Every kind but kDevice counts as host memory in a copy.
  PointerKind kind = PointerKind::kUnregistered;

  bool on_device() const { return kind == PointerKind::kDevice; }
};

// The direction of a copy from `src` to `dst`; never kInfer.
CopyKind DirectionOf(const Operand& dst, const Operand& src);

// Enqueues a copy of `dst.bytes` bytes: more than 0, and as many as `src` has.
// The target's stream is of a device that has one side.  If the sides are on
// two devices, both are of one backend, which has peer copies.
absl::Status CopyOperands(const StreamTarget& target, const Operand& dst,
                          const Operand& src);
// Enqueues a fill of `dst.bytes` > 0 bytes, which the stream's device may
// write.
absl::Status FillOperand(const StreamTarget& target, const Operand& dst,
                         uint8_t value);

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_OPERATIONS_OPERAND_H_
