// SPDX-License-Identifier: Apache-2.0

#include "streams/operations/operand.h"

#include "absl/base/optimization.h"
#include "devrt/runtime/status.h"

namespace devrt::internal {

CopyKind DirectionOf(const Operand& dst, const Operand& src) {
  if (!dst.on_device()) {
    return src.on_device() ? CopyKind::kDeviceToHost : CopyKind::kHostToHost;
  }
  return src.on_device() ? CopyKind::kDeviceToDevice : CopyKind::kHostToDevice;
}

namespace {

// The stream is marked after the enqueue: a concurrent Synchronize could remove
// a mark that was set before.
absl::Status Enqueued(const StreamTarget& target, devrt_status error,
                      const char* call) {
  target.MarkDirty();
  return FromPlugin(target.device, error, call);
}

}  // namespace

absl::Status CopyOperands(const StreamTarget& target, const Operand& dst,
                          const Operand& src) {
  const devrt_ops_v0& ops = target.ops();
  const bool peers =
      dst.on_device() && src.on_device() && dst.device != src.device;
  return Enqueued(
      target,
      peers ? ops.copy_peer_async(target.self(), target.handle, dst.data,
                                  dst.device->ordinal, src.data,
                                  src.device->ordinal, dst.bytes)
            : ops.copy_async(target.self(), target.handle, dst.data, src.data,
                             dst.bytes,
                             static_cast<uint32_t>(DirectionOf(dst, src))),
      "copy");
}

absl::Status FillOperand(const StreamTarget& target, const Operand& dst,
                         uint8_t value) {
  return Enqueued(target,
                  target.ops().fill_async(target.self(), target.handle,
                                          dst.data, value, dst.bytes),
                  "fill");
}

}  // namespace devrt::internal
