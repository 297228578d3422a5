// SPDX-License-Identifier: Apache-2.0
//
// Operand: the memory of one side of a copy, or of a fill, and where it lies.
//
// An array and an allocator know where their memory lies, and make the operand
// of it.  A pointer of a program is resolved once, by ResolveOperand
// (copy_route.h).  Functions that take an operand look nothing up: the caller
// vouches for the device, for the bounds and for the memory's life.
//
//   StreamTarget target;
//   DEVRT_RETURN_IF_ERROR(ResolveStreamForWork(stream, "copy", site, &target));
//   DEVRT_RETURN_IF_ERROR(CopyOperands(target, to, from));
//
// Neither function notes the use of the memory (NoteUses): the caller keeps the
// uses, or notes them behind the call.

#ifndef DEVRT_STREAMS_INTERNAL_OPERAND_H_
#define DEVRT_STREAMS_INTERNAL_OPERAND_H_

#include <cstdint>

#include "absl/status/status.h"
#include "devrt/runtime/raw_memory.h"
#include "devrt/streams/copy.h"
#include "streams/internal/stream_target.h"

namespace devrt::internal {

struct Operand {
  DeviceRecord* device = nullptr;  // of kDevice: the memory's
  void* data = nullptr;
  uint64_t bytes = 0;
  // kDevice; every other kind counts as host memory in a copy.
  PointerKind kind = PointerKind::kUnregistered;

  bool on_device() const { return kind == PointerKind::kDevice; }
};

// Which way a copy between the two goes; never kInfer.
CopyKind DirectionOf(const Operand& dst, const Operand& src);

// One copy of `dst.bytes` (> 0, and as many as `src` has) on the target's
// stream, which is of a device that has one side.  Two devices: of one backend,
// which has peer copies.
absl::Status CopyOperands(const StreamTarget& target, const Operand& dst,
                          const Operand& src);
// One fill of `dst.bytes` (> 0) of memory that the stream's device may write.
absl::Status FillOperand(const StreamTarget& target, const Operand& dst,
                         uint8_t value);

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_INTERNAL_OPERAND_H_
