// SPDX-License-Identifier: Apache-2.0

#include "devrt/arrays/internal/copy_routes.h"

#include <utility>

#include "devrt/arrays/internal/copy_layout.h"
#include "devrt/arrays/internal/geometry.h"
#include "devrt/arrays/internal/host_copy.h"
#include "devrt/arrays/internal/kernels.h"
#include "devrt/arrays/internal/mutants.h"
#include "devrt/arrays/internal/storage.h"
#include "devrt/runtime/status.h"
#include "devrt/streams/internal/ordering.h"
#include "devrt/streams/internal/stream_record.h"
#include "devrt/streams/internal/unnoted.h"

namespace devrt::internal {

namespace {

bool IsBlockCopy(const Array& dst, const Array& src) {
  return dst.dtype() == src.dtype() &&
         LayoutOf(dst, src).IsBlock(dst.item_size());
}

// What IsBlockCopy says is one.
absl::Status CopyAsBlock(StreamRef stream, const Array& dst, const Array& src,
                         bool wait, CallSite site) {
  const CopyLayout layout = LayoutOf(dst, src);
  return CopyBlock(stream, dst, layout.dst, src, layout.src, dst.nbytes(), wait,
                   site);
}

bool IsNarrower(DType a, DType b) { return a.size() < b.size(); }

}  // namespace

absl::Status CopyHostToHost(const CopyJob& job) {
  if (!MayOverlap(job.dst, job.src)) {
    return ConvertOnHost(job.dst, job.src, job.site);
  }
  const Array once = WithoutRepeats(job.src);
  DEVRT_ASSIGN_OR_RETURN(const Array copy,
                         NewHost(once, once.dtype(), job.site));
  const Touched touched[] = {{job.dst.storage().get(), true},
                             {job.src.storage().get(), false}};
  DEVRT_ASSIGN_OR_RETURN(const Array repeated,
                         copy.BroadcastTo(job.dst.shape()));
  return RunOnHost(touched, job.site, [&] {
    CopyOnHost(copy, once);
    CopyOnHost(job.dst, repeated);
    return absl::OkStatus();
  });
}

absl::Status CopyThroughHost(const CopyJob& job) {
  const Array once = WithoutRepeats(job.src);
  DEVRT_ASSIGN_OR_RETURN(const Array host,
                         NewHost(once, once.dtype(), job.site));
  DEVRT_RETURN_IF_ERROR(
      CopyDeviceToHost({host, once, job.stream, false, job.site}));
  DEVRT_ASSIGN_OR_RETURN(const Array repeated,
                         host.BroadcastTo(job.dst.shape()));
  return CopyHostToDevice({job.dst, repeated, job.stream, false, job.site});
}

absl::Status CopyWithinDevice(const CopyJob& job) {
  const StreamRef stream = job.StreamOf(job.dst.place());
  if (MayOverlap(job.dst, job.src)) {
    const Array once = WithoutRepeats(job.src);
    DEVRT_ASSIGN_OR_RETURN(const Array copy,
                           NewOn(stream, once, once.dtype(), job.site));
    DEVRT_RETURN_IF_ERROR(
        CopyWithinDevice({copy, once, stream, job.non_blocking, job.site}));
    DEVRT_ASSIGN_OR_RETURN(const Array repeated,
                           copy.BroadcastTo(job.dst.shape()));
    return CopyWithinDevice(
        {job.dst, repeated, stream, job.non_blocking, job.site});
  }
  if (IsBlockCopy(job.dst, job.src)) {
    return CopyAsBlock(stream, job.dst, job.src, false, job.site);
  }
  if (!HasElementwise(stream.device())) return CopyThroughHost(job);
  return CopyByKernel(stream, job.dst, job.src, job.site);
}

// ---- Two devices ------------------------------------------------------------

namespace {

// What this thread is about to do to the other device's memory comes after what
// its current stream was given, by whomever, and before what it is given (C57).
absl::Status JoinCurrent(StreamRef stream, StreamRef current, CallSite site) {
  const StreamRecord* const record = current.record();
  if (record->kind == StreamKind::kCreated &&
      !record->dirty.load(std::memory_order_relaxed) &&
      !record->exposed.load(std::memory_order_relaxed)) {
    return absl::OkStatus();
  }
  DEVRT_RETURN_IF_ERROR(CheckStream(current, "a copy"));
  DEVRT_ASSIGN_OR_RETURN(const bool capturing, IsCapturing(stream));
  const OrderPoint point = PointOf(current);
  DEVRT_ASSIGN_OR_RETURN(const bool ordered,
                         OrderAfter(stream, point, capturing, site));
  return ordered ? absl::OkStatus() : WaitOnHost(point, site);
}

// The one copy from device to device.
absl::Status CopyPeerBlock(const CopyJob& job, const Array& dst, char* to,
                           const Array& src, const char* from) {
  const bool by_target =
      job.stream.has_value() && job.stream->device() == *dst.place().device();
  const StreamRef stream = job.StreamOf((by_target ? dst : src).place());
  const StreamRef other = CurrentStreamOf((by_target ? src : dst).place());
  if (!Mutated(Mutant::kPeerCopyIgnoresTarget)) {
    DEVRT_RETURN_IF_ERROR(JoinCurrent(stream, other, job.site));
  }
  DEVRT_RETURN_IF_ERROR(
      CopyBlock(stream, dst, to, src, from, dst.nbytes(), false, job.site));
  if (Mutated(Mutant::kPeerCopyIsNotAwaited)) return absl::OkStatus();
  return JoinCurrent(other, stream, job.site);
}

}  // namespace

absl::Status CopyBetweenPeers(const CopyJob& job) {
  const Device from = *job.src.place().device();
  const Device to = *job.dst.place().device();
  if (from.backend() != to.backend() ||
      !from.backend().Has(DEVRT_CAP_PEER_COPY)) {
    return CopyThroughHost(job);
  }
  if (IsBlockCopy(job.dst, job.src)) {
    const CopyLayout layout = LayoutOf(job.dst, job.src);
    return CopyPeerBlock(job, job.dst, layout.dst, job.src, layout.src);
  }
  if (!HasElementwise(from)) return CopyThroughHost(job);
  // What crosses: each element once, in the narrower dtype, as one block.
  const Array once = WithoutRepeats(job.src);
  const DType dtype = IsNarrower(job.dst.dtype(), once.dtype())
                          ? job.dst.dtype()
                          : once.dtype();
  Array packed = once;
  char* begin = nullptr;
  if (dtype != once.dtype() || !IsDense(once, &begin)) {
    const StreamRef stream = job.StreamOf(job.src.place());
    // In the target's order of axes it may be one block for it, too.
    const bool whole = once.size() == job.dst.size();
    DEVRT_ASSIGN_OR_RETURN(
        packed, NewOn(stream, whole ? job.dst : once, dtype, job.site));
    DEVRT_RETURN_IF_ERROR(CopyByKernel(stream, packed, once, job.site));
    if (whole && IsBlockCopy(job.dst, packed)) {
      const CopyLayout layout = LayoutOf(job.dst, packed);
      return CopyPeerBlock(job, job.dst, layout.dst, packed, layout.src);
    }
    IsDense(packed, &begin);
  }
  const StreamRef stream = job.StreamOf(job.dst.place());
  DEVRT_ASSIGN_OR_RETURN(const Array block,
                         NewBlockOn(stream, packed.nbytes(), job.site));
  char* const arrived = static_cast<char*>(block.data());
  DEVRT_RETURN_IF_ERROR(CopyPeerBlock(job, block, arrived, packed, begin));
  DEVRT_ASSIGN_OR_RETURN(
      const Array repeated,
      Moved(packed, begin, block).BroadcastTo(job.dst.shape()));
  return CopyByKernel(stream, job.dst, repeated, job.site);
}

}  // namespace devrt::internal
