// SPDX-License-Identifier: Apache-2.0

#include "arrays/copy/copy_routes.h"

#include <sstream>

#include "arrays/copy/copy_on_host.h"
#include "arrays/copy/copy_steps.h"
#include "arrays/core/geometry.h"
#include "arrays/core/kernels.h"
#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/status.h"
#include "streams/captures/captures.h"
#include "streams/objects/ordering.h"
#include "streams/objects/stream_target.h"

namespace devrt::internal {

namespace {

bool IsNarrower(DType a, DType b) { return a.size() < b.size(); }

}  // namespace

absl::Status CopyHostToHost(const Array& dst, const Array& src, CallSite site) {
  if (!MayOverlap(dst, src)) return ConvertOnHost(dst, src, site);
  const Array once = WithoutRepeats(src);
  DEVRT_ASSIGN_OR_RETURN(const Array copy, NewHost(once, once.dtype(), site));
  const Touched touched[] = {{dst.storage().get(), true},
                             {src.storage().get(), false}};
  DEVRT_ASSIGN_OR_RETURN(const Array repeated, copy.BroadcastTo(dst.shape()));
  return RunOnHost(touched, site, [&] {
    CopyOnHost(copy, once);
    CopyOnHost(dst, repeated);
    return absl::OkStatus();
  });
}

absl::Status CopyThroughHost(const CopyJob& job) {
  for (const Array* side : {&job.src, &job.dst}) {
    DEVRT_RETURN_IF_ERROR(CheckMayWait(job.StreamOf(*side->place().device())));
  }
  const Array once = WithoutRepeats(job.src);
  DEVRT_ASSIGN_OR_RETURN(const Array host,
                         NewHost(once, once.dtype(), job.site));
  DEVRT_RETURN_IF_ERROR(
      CopyDeviceToHost(CopyJob(host, once, job.stream, false, job.site)));
  DEVRT_ASSIGN_OR_RETURN(const Array repeated,
                         host.BroadcastTo(job.dst.shape()));
  return CopyHostToDevice(
      CopyJob(job.dst, repeated, job.stream, false, job.site));
}

namespace {

// One copy or kernel, inside a step.
absl::Status EnqueueOne(const StreamTarget& target, const CopyJob& job) {
  return job.is_block ? EnqueueBlock(target, job)
                      : EnqueueKernel(target, job.dst, job.src);
}

// Copies within one device through memory in between, because the sides may
// overlap.
absl::Status CopyOverlapping(const CopyJob& job, const CopyStep& step,
                             bool kernels) {
  const Array once = WithoutRepeats(job.src);
  DEVRT_ASSIGN_OR_RETURN(const Array copy, NewOn(step, once, once.dtype()));
  DEVRT_ASSIGN_OR_RETURN(const Array repeated,
                         copy.BroadcastTo(job.dst.shape()));
  const CopyJob in(copy, once, job.stream, true, job.site);
  const CopyJob out(job.dst, repeated, job.stream, true, job.site);
  if (!kernels && !(in.is_block && out.is_block)) return CopyThroughHost(job);
  return RunCopyVia(
      step, job.dst, copy, job.src,
      [&](const StreamTarget& target) { return EnqueueOne(target, in); },
      [&](const StreamTarget& target) { return EnqueueOne(target, out); });
}

}  // namespace

absl::Status CopyWithinDevice(const CopyJob& job) {
  const CopyStep step = {{job.StreamOf(*job.dst.place().device()), job.site}};
  const bool kernels = HasElementwise(step.stream.device());
  if (MayOverlap(job.dst, job.src)) return CopyOverlapping(job, step, kernels);
  if (!kernels && !job.is_block) return CopyThroughHost(job);
  return RunCopy(step, job.dst, job.src, [&](const StreamTarget& target) {
    return EnqueueOne(target, job);
  });
}

// ---- Two devices ------------------------------------------------------------

namespace {

// Asks both streams for their capture.  Both may be in one capture, whose edges
// the waits between them become, or in none.  If only one stream captures the
// copy is refused: a wait between the two would drag the other stream into the
// capture.
absl::Status AskForCapture(Step* from, Step* to) {
  DEVRT_ASSIGN_OR_RETURN(from->capture, HoldCapture(from->stream));
  DEVRT_ASSIGN_OR_RETURN(to->capture, HoldCapture(to->stream));
  if (from->capture == to->capture &&
      from->capture != CaptureNumber::kUnknown) {
    return absl::OkStatus();
  }
  const bool from_is = from->capture != CaptureNumber::kNone;
  std::ostringstream text;
  text << (from_is ? from : to)->stream << " is capturing, and "
       << (from_is ? to : from)->stream
       << ", which a copy between the two devices is ordered with as well, is "
          "not in that capture: bring it in first, or copy before it begins";
  return CaptureError(text.str());
}

// Everything that the other device's current stream was given, by devrt or by
// others (C57).
OrderPoint WorkBefore(StreamRef current) {
  return IsIdle(current) ? OrderPoint() : PointOf(current);
}

// Where the steps of the two devices run.
struct PeerSteps {
  CopyStep sender;
  CopyStep receiver;
};

// Copies one block from device to device, after the earlier work of the other
// device's stream and before its later work.
absl::Status CopyPeerBlock(const CopyJob& job, const PeerSteps& steps) {
  const bool by_receiver = job.stream == steps.receiver.stream;
  CopyStep step = by_receiver ? steps.receiver : steps.sender;
  const StreamRef other = (by_receiver ? steps.sender : steps.receiver).stream;
  const bool captured = step.capture != CaptureNumber::kNone;
  if (!captured) step.after = WorkBefore(other);
  StreamTarget current;
  const auto enqueue = [&](const StreamTarget& target) -> absl::Status {
    DEVRT_RETURN_IF_ERROR(ResolveStream(other, "a copy", job.site, &current));
    if (captured) DEVRT_RETURN_IF_ERROR(OrderInCapture(target, current));
    DEVRT_RETURN_IF_ERROR(EnqueueBlock(target, job));
    return captured ? OrderInCapture(current, target) : absl::OkStatus();
  };
  DEVRT_RETURN_IF_ERROR(RunCopy(step, job.dst, job.src, enqueue));
  if (captured) return absl::OkStatus();
  SetCallSite(job.site);  // the target of the step cleared it
  const OrderPoint copy = PointOf(step.stream);
  DEVRT_ASSIGN_OR_RETURN(const bool ordered, OrderAfter(current, copy, false));
  return ordered ? absl::OkStatus() : WaitOnHost(copy, job.site);
}

// Packs the elements into one block, each once and in the narrower dtype,
// copies the block, and unpacks it.
absl::Status CopyPeerElements(const CopyJob& job, const PeerSteps& steps) {
  if (steps.receiver.capture != CaptureNumber::kNone) {
    // The last step writes the target.  This finds waits that the capture
    // forbids before the first step is enqueued.
    const Touched written[] = {{job.dst.storage().get(), true}};
    DEVRT_RETURN_IF_ERROR(JoinUses(steps.receiver, written));
  }
  const Array once = WithoutRepeats(job.src);
  const DType dtype = IsNarrower(job.dst.dtype(), once.dtype())
                          ? job.dst.dtype()
                          : once.dtype();
  Array packed = once;
  char* begin = nullptr;
  if (dtype != once.dtype() || !IsDense(once, &begin)) {
    // Packed in the order of the target's axes, the elements may be one block
    // of the target.
    const bool whole = once.size() == job.dst.size();
    DEVRT_ASSIGN_OR_RETURN(packed,
                           NewOn(steps.sender, whole ? job.dst : once, dtype));
    DEVRT_RETURN_IF_ERROR(CopyByKernel(steps.sender, packed, once));
    if (whole) {
      const CopyJob crossing(job.dst, packed, job.stream, true, job.site);
      if (crossing.is_block) return CopyPeerBlock(crossing, steps);
    }
    IsDense(packed, &begin);
  }
  DEVRT_ASSIGN_OR_RETURN(const Array block,
                         NewBlockOn(steps.receiver, packed.nbytes()));
  const Array bytes = BytesOf(packed, begin, packed.nbytes());
  DEVRT_RETURN_IF_ERROR(
      CopyPeerBlock(CopyJob(block, bytes, job.stream, true, job.site), steps));
  DEVRT_ASSIGN_OR_RETURN(
      const Array repeated,
      WithMemoryOf(block, packed, begin).BroadcastTo(job.dst.shape()));
  return CopyByKernel(steps.receiver, job.dst, repeated);
}

}  // namespace

absl::Status CopyBetweenPeers(const CopyJob& job) {
  const Device from = *job.src.place().device();
  const Device to = *job.dst.place().device();
  if (from.backend() != to.backend() ||
      !from.backend().Has(DEVRT_CAP_PEER_COPY) ||
      (!job.is_block && !HasElementwise(from))) {
    return CopyThroughHost(job);
  }
  PeerSteps steps = {{{job.StreamOf(from), job.site}},
                     {{job.StreamOf(to), job.site}}};
  DEVRT_RETURN_IF_ERROR(AskForCapture(&steps.sender, &steps.receiver));
  return job.is_block ? CopyPeerBlock(job, steps)
                      : CopyPeerElements(job, steps);
}

}  // namespace devrt::internal
