// SPDX-License-Identifier: Apache-2.0

#include "arrays/copy/copy_routes.h"

#include <sstream>

#include "arrays/copy/copy_layout.h"
#include "arrays/copy/copy_on_host.h"
#include "arrays/core/geometry.h"
#include "arrays/ops/kernels.h"
#include "arrays/storage/mutants.h"
#include "arrays/storage/storage.h"
#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/status.h"
#include "streams/internal/captures.h"
#include "streams/internal/ordering.h"
#include "streams/internal/stream_record.h"
#include "streams/internal/unnoted.h"

namespace devrt::internal {

namespace {

bool IsBlockCopy(const Array& dst, const Array& src) {
  return dst.dtype() == src.dtype() &&
         LayoutOf(dst, src).IsBlock(dst.item_size());
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
  for (const Array* side : {&job.src, &job.dst}) {
    DEVRT_RETURN_IF_ERROR(CheckMayWait(job.StreamOf(side->place())));
  }
  const Array once = WithoutRepeats(job.src);
  DEVRT_ASSIGN_OR_RETURN(const Array host,
                         NewHost(once, once.dtype(), job.site));
  DEVRT_RETURN_IF_ERROR(
      CopyDeviceToHost({host, once, job.stream, false, job.site}));
  DEVRT_ASSIGN_OR_RETURN(const Array repeated,
                         host.BroadcastTo(job.dst.shape()));
  return CopyHostToDevice({job.dst, repeated, job.stream, false, job.site});
}

namespace {

// One copy or kernel, inside a step.
absl::Status EnqueueOne(StreamRef stream, const Array& dst, const Array& src,
                        CallSite site) {
  if (!IsBlockCopy(dst, src)) return EnqueueKernel(stream, dst, src, site);
  const CopyLayout layout = LayoutOf(dst, src);
  return CopyUnnoted(stream, layout.dst, layout.src, dst.nbytes(), site);
}

}  // namespace

absl::Status CopyWithinDevice(const CopyJob& job) {
  const StreamRef stream = job.StreamOf(job.dst.place());
  const bool kernels = HasElementwise(stream.device());
  if (!MayOverlap(job.dst, job.src)) {
    if (!kernels && !IsBlockCopy(job.dst, job.src)) return CopyThroughHost(job);
    return RunCopy(stream, job.dst, job.src, job.site, [&] {
      return EnqueueOne(stream, job.dst, job.src, job.site);
    });
  }
  const Array once = WithoutRepeats(job.src);
  DEVRT_ASSIGN_OR_RETURN(const Array copy,
                         NewOn(stream, once, once.dtype(), job.site));
  DEVRT_ASSIGN_OR_RETURN(const Array repeated,
                         copy.BroadcastTo(job.dst.shape()));
  if (!kernels &&
      !(IsBlockCopy(copy, once) && IsBlockCopy(job.dst, repeated))) {
    return CopyThroughHost(job);
  }
  return RunCopyVia(
      stream, job.dst, copy, job.src, job.site,
      [&] { return EnqueueOne(stream, copy, once, job.site); },
      [&] { return EnqueueOne(stream, job.dst, repeated, job.site); });
}

// ---- Two devices ------------------------------------------------------------

namespace {

// Whether both streams are being captured, by one capture: then joins are its
// edges.  Refused is what would make the capture of one reach the other.
absl::StatusOr<bool> AreCaptured(StreamRef from, StreamRef to) {
  DEVRT_ASSIGN_OR_RETURN(const CaptureNumber its, HoldCapture(from));
  DEVRT_ASSIGN_OR_RETURN(const CaptureNumber other, HoldCapture(to));
  if (its == other && its != CaptureNumber::kUnknown) {
    return its != CaptureNumber::kNone;
  }
  const bool from_is = its != CaptureNumber::kNone;
  std::ostringstream text;
  text << (from_is ? from : to) << " is capturing, and "
       << (from_is ? to : from)
       << ", which a copy between the two devices is ordered with as well, is "
          "not in that capture: bring it in first, or copy before it begins";
  return CaptureError(text.str());
}

// What this thread is about to do to the other device's memory comes after what
// its current stream was given, by whomever, and before what it is given (C57).
absl::Status JoinCurrent(StreamRef stream, StreamRef current, bool captured,
                         CallSite site) {
  if (captured) return OrderInCapture(stream, current, site);
  const StreamRecord* const record = current.record();
  if (record->kind == StreamKind::kCreated &&
      !record->dirty.load(std::memory_order_relaxed) &&
      !record->exposed.load(std::memory_order_relaxed)) {
    return absl::OkStatus();
  }
  DEVRT_RETURN_IF_ERROR(CheckStream(current, "a copy"));
  const OrderPoint point = PointOf(current);
  DEVRT_ASSIGN_OR_RETURN(const bool ordered,
                         OrderAfter(stream, point, false, site));
  return ordered ? absl::OkStatus() : WaitOnHost(point, site);
}

// The one copy from device to device.
absl::Status CopyPeerBlock(const CopyJob& job, bool captured, const Array& dst,
                           char* to, const Array& src, const char* from) {
  const bool by_target =
      job.stream.has_value() && job.stream->device() == *dst.place().device();
  const StreamRef stream = job.StreamOf((by_target ? dst : src).place());
  const StreamRef other = CurrentStreamOf((by_target ? src : dst).place());
  if (!Mutated(Mutant::kPeerCopyIgnoresTarget)) {
    DEVRT_RETURN_IF_ERROR(JoinCurrent(stream, other, captured, job.site));
  }
  DEVRT_RETURN_IF_ERROR(
      CopyBlock(stream, dst, to, src, from, dst.nbytes(), false, job.site));
  if (Mutated(Mutant::kPeerCopyIsNotAwaited)) return absl::OkStatus();
  return JoinCurrent(other, stream, captured, job.site);
}

}  // namespace

absl::Status CopyBetweenPeers(const CopyJob& job) {
  const Device from = *job.src.place().device();
  const Device to = *job.dst.place().device();
  const bool block = IsBlockCopy(job.dst, job.src);
  if (from.backend() != to.backend() ||
      !from.backend().Has(DEVRT_CAP_PEER_COPY) ||
      (!block && !HasElementwise(from))) {
    return CopyThroughHost(job);
  }
  const StreamRef sender = job.StreamOf(job.src.place());
  const StreamRef receiver = job.StreamOf(job.dst.place());
  DEVRT_ASSIGN_OR_RETURN(const bool captured, AreCaptured(sender, receiver));
  if (captured) {
    // What cannot be joined is found before anything is enqueued.
    DEVRT_RETURN_IF_ERROR(
        job.src.storage()->OrderBefore(sender, false, job.site));
    DEVRT_RETURN_IF_ERROR(
        job.dst.storage()->OrderBefore(receiver, true, job.site));
  }
  if (block) {
    const CopyLayout layout = LayoutOf(job.dst, job.src);
    return CopyPeerBlock(job, captured, job.dst, layout.dst, job.src,
                         layout.src);
  }
  // What crosses: each element once, in the narrower dtype, as one block.
  const Array once = WithoutRepeats(job.src);
  const DType dtype = IsNarrower(job.dst.dtype(), once.dtype())
                          ? job.dst.dtype()
                          : once.dtype();
  Array packed = once;
  char* begin = nullptr;
  if (dtype != once.dtype() || !IsDense(once, &begin)) {
    // In the target's order of axes it may be one block for it, too.
    const bool whole = once.size() == job.dst.size();
    DEVRT_ASSIGN_OR_RETURN(
        packed, NewOn(sender, whole ? job.dst : once, dtype, job.site));
    DEVRT_RETURN_IF_ERROR(CopyByKernel(sender, packed, once, job.site));
    if (whole && IsBlockCopy(job.dst, packed)) {
      const CopyLayout layout = LayoutOf(job.dst, packed);
      return CopyPeerBlock(job, captured, job.dst, layout.dst, packed,
                           layout.src);
    }
    IsDense(packed, &begin);
  }
  DEVRT_ASSIGN_OR_RETURN(const Array arrived,
                         NewBlockOn(receiver, packed.nbytes(), job.site));
  DEVRT_RETURN_IF_ERROR(CopyPeerBlock(job, captured, arrived,
                                      static_cast<char*>(arrived.data()),
                                      packed, begin));
  DEVRT_ASSIGN_OR_RETURN(
      const Array repeated,
      Moved(packed, begin, arrived).BroadcastTo(job.dst.shape()));
  return CopyByKernel(receiver, job.dst, repeated, job.site);
}

}  // namespace devrt::internal
