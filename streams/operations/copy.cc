// SPDX-License-Identifier: Apache-2.0

#include "devrt/streams/copy.h"

#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "runtime/raw_memory/allocation_table.h"
#include "streams/objects/device_streams.h"
#include "streams/objects/stream_target.h"
#include "streams/objects/stream_wait.h"
#include "streams/objects/use_hooks.h"
#include "streams/operations/copy_route.h"
#include "streams/operations/operand.h"

namespace devrt {

using internal::CopyRoute;
using internal::Operand;
using internal::StreamTarget;

namespace {

// Enqueues the copy on `stream`, which `t` has resolved, and notes the uses.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline absl::Status EnqueueCopy(
    StreamRef stream, const StreamTarget& t, const Operand& dst,
    const Operand& src) {
  absl::Status status = internal::CopyOperands(t, dst, src);
  if (ABSL_PREDICT_FALSE(!status.ok())) {
    return internal::DescribeFreedMemory(std::move(status), dst.data, src.data);
  }
  const internal::UsedRange used[] = {{dst.data, dst.bytes},
                                      {src.data, src.bytes}};
  internal::NoteUses(stream, used, 2);
  return absl::OkStatus();
}

absl::Status CopyAndWait(StreamRef stream, const StreamTarget& t,
                         const Operand& dst, const Operand& src) {
  DEVRT_RETURN_IF_ERROR(EnqueueCopy(stream, t, dst, src));
  return internal::SynchronizeTarget(t);
}

// Copies through the host, for two backends or a backend without peer copies.
// The calling thread waits, because the buffer is freed on return.
absl::Status CopyStaged(StreamRef stream, const StreamTarget& t,
                        const CopyRoute& route, CallSite site) {
  const uint64_t bytes = route.dst.bytes;
  std::unique_ptr<std::byte[]> buffer(new (std::nothrow) std::byte[bytes]);
  if (buffer == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no host memory for the ", bytes, " bytes through which a copy from ",
        Device(route.src.device).name(), " to ",
        Device(route.dst.device).name(), " has to go"));
  }
  Operand between;
  between.data = buffer.get();
  between.bytes = bytes;
  // The other device needs a stream of its own.
  const bool from_source = t.device == route.src.device;
  Device other(from_source ? route.dst.device : route.src.device);
  DEVRT_ASSIGN_OR_RETURN(Stream helper, Stream::Create(other, {}, CallSite{}));
  if (!from_source) DEVRT_RETURN_IF_ERROR(internal::SynchronizeTarget(t));
  StreamTarget h;
  DEVRT_RETURN_IF_ERROR(
      internal::ResolveStream(helper.ref(), "copy", site, &h));
  if (from_source) {
    DEVRT_RETURN_IF_ERROR(CopyAndWait(stream, t, between, route.src));
    return CopyAndWait(helper, h, route.dst, between);
  }
  DEVRT_RETURN_IF_ERROR(CopyAndWait(helper, h, between, route.src));
  // The program may have destroyed the stream while the host waited.
  DEVRT_RETURN_IF_ERROR(internal::CheckStream(stream, "copy"));
  return CopyAndWait(stream, t, route.dst, between);
}

absl::Status CopyBytes(StreamRef stream, void* dst, const void* src,
                       uint64_t bytes, CopyKind kind, bool blocking,
                       CallSite site) {
  StreamTarget t;
  DEVRT_RETURN_IF_ERROR(
      internal::ResolveStreamForWork(stream, "copy", site, &t));
  if (bytes == 0) return absl::OkStatus();
  CopyRoute route;
  DEVRT_RETURN_IF_ERROR(
      internal::RouteCopy(t.device, dst, src, bytes, kind, &route));
  if (route.staged) return CopyStaged(stream, t, route, site);
  DEVRT_RETURN_IF_ERROR(EnqueueCopy(stream, t, route.dst, route.src));
  const bool host_side = !route.dst.on_device() || !route.src.on_device();
  return blocking && host_side ? internal::SynchronizeTarget(t)
                               : absl::OkStatus();
}

}  // namespace

absl::Status CopyAsync(StreamRef stream, void* dst, const void* src,
                       uint64_t bytes, CopyKind kind, CallSite site) {
  return CopyBytes(stream, dst, src, bytes, kind, false, site);
}

absl::Status Copy(StreamRef stream, void* dst, const void* src, uint64_t bytes,
                  CopyKind kind, CallSite site) {
  return CopyBytes(stream, dst, src, bytes, kind, true, site);
}

absl::Status FillAsync(StreamRef stream, void* dst, uint8_t value,
                       uint64_t bytes, CallSite site) {
  StreamTarget t;
  DEVRT_RETURN_IF_ERROR(
      internal::ResolveStreamForWork(stream, "fill", site, &t));
  if (bytes == 0) return absl::OkStatus();
  DEVRT_ASSIGN_OR_RETURN(const internal::Operand target,
                         internal::RouteFill(t.device, dst, bytes));
  DEVRT_RETURN_IF_ERROR(internal::FillOperand(t, target, value));
  const internal::UsedRange used = {dst, bytes};
  internal::NoteUses(stream, &used, 1);
  return absl::OkStatus();
}

}  // namespace devrt
