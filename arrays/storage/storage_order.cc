// SPDX-License-Identifier: Apache-2.0

#include "arrays/storage/storage_order.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "arrays/storage/ordered_step.h"
#include "arrays/storage/storage_kept.h"
#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/status.h"
#include "streams/captures/relaxed_wait.h"
#include "streams/common/host_order.h"
#include "streams/objects/may_capture.h"
#include "streams/objects/ordering.h"
#include "streams/objects/stream_target.h"
#include "streams/objects/use_hooks.h"

namespace devrt::internal {

OrderedStep::OrderedStep(absl::Span<const Touched> touched)
    : touched_(touched) {
  assert(touched.size() <= kMost);
  for (const Touched& t : touched) {
    // Plain host memory has no uses.
    if (t.storage->place().kind() == MemoryKind::kHost) continue;
    size_t at = count_;
    while (at > 0 && !std::less<>()(storages_[at - 1].storage, t.storage)) --at;
    if (at < count_ && storages_[at].storage == t.storage) {
      storages_[at].writes = storages_[at].writes || t.writes;
      continue;
    }
    for (size_t k = count_++; k > at; --k) storages_[k] = storages_[k - 1];
    storages_[at] = t;
  }
}

namespace {

// Fails if `after` captures: the backend cannot tell whether both streams are
// in one capture, and an edge between two captures makes both invalid.
absl::Status CheckNoEdge(StreamRef stream, const HeldStream& after) {
  DEVRT_ASSIGN_OR_RETURN(const bool capturing, IsCapturing(after));
  if (!capturing) return absl::OkStatus();
  std::ostringstream text;
  text << stream << " and " << after.stream();
  return CaptureError(absl::StrCat(
      text.str(),
      " both capture work on one array, and the backend cannot tell whether "
      "that is one capture: keep to one stream inside of it"));
}

// Orders the stream behind captured uses, by edges of the capture's graph.
absl::Status AddEdges(StreamRef stream, CaptureNumber capture,
                      absl::Span<const StorageUse* const> edges,
                      CallSite site) {
  for (const StorageUse* const edge : edges) {
    const HeldStream after(edge->stream, edge->timeline);
    if (after.handle() == nullptr) continue;
    DEVRT_RETURN_IF_ERROR(
        capture == CaptureNumber::kUnknown
            ? CheckNoEdge(stream, after)
            : OrderInCapture(HeldStream(stream), after, site));
  }
  return absl::OkStatus();
}

}  // namespace

// Goes through the operands and not through `storages_`: the order of addresses
// would give the waits another order in each run of the simulator.
template <typename F>
void OrderedStep::ForEachUse(F f)
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  for (const Touched& t : touched_) {
    if (t.storage->place().kind() == MemoryKind::kHost) continue;
    for (const StorageUse& use : t.storage->uses_.writes()) f(use);
    if (!t.writes) continue;
    for (const StorageUse& use : t.storage->uses_.reads()) f(use);
  }
}

absl::Status OrderedStep::Join(const Step& step, const StreamTarget& target,
                               CaptureNumber capture,
                               std::optional<OrderPoint>* for_host) {
  const Timeline* const timeline = target.timeline();
  if (IsInOrder(step, timeline)) return absl::OkStatus();
  // One wait for each stream, for its newest point.
  absl::InlinedVector<OrderPoint, 4> points;
  absl::InlinedVector<const StorageUse*, 1> edges;
  const auto add = [&](const OrderPoint& point) {
    if (point.timeline == timeline || timeline->IsAfter(point)) return;
    for (OrderPoint& known : points) {
      if (known.timeline != point.timeline) continue;
      known.epoch = std::max(known.epoch, point.epoch);
      return;
    }
    points.push_back(point);
  };
  if (step.after.timeline != nullptr) add(step.after);
  ForEachUse([&](const StorageUse& use) {
    if (use.captured()) {
      const auto same = [&use](const StorageUse* edge) {
        return edge->stream == use.stream;
      };
      if (use.capture == capture && use.stream != step.stream &&
          std::none_of(edges.begin(), edges.end(), same)) {
        edges.push_back(&use);
      }
      return;
    }
    add(use);
  });
  for (const OrderPoint& point : points) {
    DEVRT_ASSIGN_OR_RETURN(
        const bool ordered,
        OrderAfter(target, point, capture != CaptureNumber::kNone));
    if (ordered) continue;
    *for_host = point;
    return absl::OkStatus();
  }
  return edges.empty() ? absl::OkStatus()
                       : AddEdges(step.stream, capture, edges, step.site);
}

std::optional<StorageUse> OrderedStep::FindPending(OrderPoint done) {
  std::optional<StorageUse> pending;
  ForEachUse([&](const StorageUse& use) {
    if (use.captured()) return;
    if (use.timeline == done.timeline && use.epoch <= done.epoch) return;
    if (!use.timeline->IsComplete(use.epoch)) pending = use;
  });
  return pending;
}

void OrderedStep::Note(StreamRef stream, CaptureNumber capture, bool ordered)
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  if (count_ == 0) return;
  StorageUse use(PointOf(stream), stream);
  use.capture = capture;
  if (use.timeline->NeedsEagerCheckpoints() && !use.captured()) {
    // After a failure only a synchronisation of the device shows that the use
    // is complete.
    use.timeline->CheckpointEagerly(use.epoch).IgnoreError();
  }
  for (const Touched& t : storages()) {
    if (ordered) {
      t.storage->uses_.AddOrdered(use, t.writes);
    } else {
      t.storage->uses_.Add(use, t.writes);
    }
    if (t.storage->source_ != Storage::Source::kBorrowed) continue;
    // The lender may have the memory from an allocator of devrt.
    const UsedRange range = {t.storage->base(), t.storage->bytes()};
    NoteUses(stream, &range, 1);
  }
}

namespace {

constexpr char kOperation[] = "an operation on arrays";

// Releases what is due.  Asks for the step's capture, unless the step has it,
// and notes in the step if there is none.
absl::Status ReleaseBefore(Step* step) {
  DEVRT_RETURN_IF_ERROR(CheckStream(step->stream, kOperation));
  if (!step->capture.has_value() && !IsCapturing(step->stream).value_or(true)) {
    step->capture = CaptureNumber::kNone;
  }
  PollPendingReleases(step->capture != CaptureNumber::kNone);
  return absl::OkStatus();
}

// One turn of a step, with the locks of the memory.  Without `enqueue` it waits
// and submits nothing.
absl::Status RunLocked(const Step& step, const Enqueue* enqueue,
                       OrderedStep* ordered,
                       std::optional<OrderPoint>* for_host) {
  StreamTarget target;
  DEVRT_RETURN_IF_ERROR(
      ResolveStream(step.stream, kOperation, step.site, &target));
  CaptureNumber capture = CaptureNumber::kNone;
  if (step.capture.has_value()) {
    capture = *step.capture;
  } else if (MayBeCaptured(*target.record, *target.timeline())) {
    DEVRT_ASSIGN_OR_RETURN(capture, HoldCapture(step.stream));
  }
  if (ABSL_PREDICT_FALSE(!ordered->IsInOrder(step, target.timeline()))) {
    DEVRT_RETURN_IF_ERROR(ordered->Join(step, target, capture, for_host));
  }
  TellKnownOrder(step.stream);
  if (enqueue == nullptr || for_host->has_value()) return absl::OkStatus();
  absl::Status status = (*enqueue)(target);
  ordered->Note(step.stream, capture, status.ok());
  return status;
}

// Without `enqueue` the caller has called ReleaseBefore, if there was need.
absl::Status RunStep(const Step* step, absl::Span<const Touched> touched,
                     const Enqueue* enqueue)
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  if (HasDeferredDeletions()) RunDeferredDeletions();
  std::optional<Step> asked;
  if (enqueue != nullptr && ABSL_PREDICT_FALSE(HasPendingReleases())) {
    asked = *step;
    DEVRT_RETURN_IF_ERROR(ReleaseBefore(&*asked));
    step = &*asked;
  }
  OrderedStep ordered(touched);
  for (;;) {
    std::optional<OrderPoint> for_host;
    ordered.Lock();
    absl::Status status = RunLocked(*step, enqueue, &ordered, &for_host);
    ordered.Unlock();
    if (!status.ok() || !for_host.has_value()) return status;
    // The stream may end meanwhile, so the next turn resolves it anew.
    DEVRT_RETURN_IF_ERROR(WaitOnHost(*for_host, step->site));
  }
}

}  // namespace

absl::Status RunOrdered(const Step& step, absl::Span<const Touched> touched,
                        Enqueue enqueue) {
  return RunStep(&step, touched, &enqueue);
}

absl::Status JoinUses(const Step& step, absl::Span<const Touched> touched) {
  return RunStep(&step, touched, nullptr);
}

absl::Status Storage::OrderBefore(StreamRef stream, bool for_write,
                                  CallSite site) {
  if (InHostFunction()) return HostFunctionError(kOperation);
  Step step = {stream, site};
  if (ABSL_PREDICT_FALSE(HasPendingReleases())) {
    DEVRT_RETURN_IF_ERROR(ReleaseBefore(&step));  // may note uses
  }
  // The usual case of an exchange: one stream.
  if (IsUsedOnlyBy(TimelineOf(stream))) {
    DEVRT_RETURN_IF_ERROR(CheckStream(stream, kOperation));
    TellKnownOrder(stream);
    return absl::OkStatus();
  }
  const Touched touched[] = {{this, for_write}};
  return RunStep(&step, touched, nullptr);
}

namespace {

// Waits for the work of the stream, and for other work that its next work would
// have to wait for.
absl::Status Drain(const Step& step, const StreamTarget& target) {
  // Only new work of a blocking stream waits for the default stream (C8), so
  // this waits for a new event and not for the stream.
  if (target.record->blocking) {
    return WaitOnHost(PointOf(step.stream), step.site);
  }
  return IsIdle(step.stream) ? absl::OkStatus() : SynchronizeRelaxed(target);
}

// One copy of ResolveStream for steps that wait anyway.
ABSL_ATTRIBUTE_NOINLINE absl::Status Resolve(const Step& step,
                                             StreamTarget* target) {
  return ResolveStream(step.stream, kOperation, step.site, target);
}

// Looks at the stream again, which may have ended while the host waited.
absl::Status SubmitDrained(const Step& step, Enqueue enqueue,
                           OrderedStep* ordered) {
  StreamTarget target;
  DEVRT_RETURN_IF_ERROR(Resolve(step, &target));
  TellKnownOrder(step.stream);
  absl::Status status = enqueue(target);
  ordered->Note(step.stream, CaptureNumber::kNone, status.ok());
  return status;
}

}  // namespace

absl::Status RunDrained(const Step& step, absl::Span<const Touched> touched,
                        Enqueue enqueue)
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  PollPendingReleases(/*capturing=*/false);
  OrderPoint drained;
  {
    StreamTarget target;
    DEVRT_RETURN_IF_ERROR(Resolve(step, &target));
    drained = PointOf(step.stream);
    DEVRT_RETURN_IF_ERROR(Drain(step, target));
  }
  OrderedStep ordered(touched);
  for (;;) {
    ordered.Lock();
    const std::optional<StorageUse> pending = ordered.FindPending(drained);
    if (!pending.has_value()) {
      absl::Status status = SubmitDrained(step, enqueue, &ordered);
      ordered.Unlock();
      return status;
    }
    ordered.Unlock();
    DEVRT_RETURN_IF_ERROR(WaitForUse(*pending, step.site));
  }
}

absl::Status CheckMayAsk(const StorageUse& use) {
  // Does not touch a stream that may be destroyed.
  if (use.timeline->NeedsEagerCheckpoints() || !MayBeCaptured(use.stream)) {
    return absl::OkStatus();
  }
  const HeldStream stream(use.stream, use.timeline);
  if (stream.handle() == nullptr) return absl::OkStatus();
  DEVRT_ASSIGN_OR_RETURN(const bool capturing, IsCapturing(stream));
  if (!capturing) return absl::OkStatus();
  if (use.captured()) {
    const absl::StatusOr<CaptureNumber> now = HoldCapture(stream);
    if (now.ok() && *now != use.capture) return absl::OkStatus();
  } else if (use.timeline->QueryEpoch(use.epoch)) {
    return absl::OkStatus();  // an event shows that the use is complete
  }
  std::ostringstream text;
  text << use.stream;
  return CaptureError(absl::StrCat(
      text.str(),
      " is capturing, and the host cannot wait for what it was given before, "
      "nor ask: synchronise before the capture begins, or after it"));
}

absl::Status WaitForUse(const StorageUse& use, CallSite site) {
  DEVRT_RETURN_IF_ERROR(CheckMayAsk(use));
  return WaitOnHost(use, site);
}

void TellHostOrder(const Place& place) {
  const std::optional<Device> device = place.device();
  if (device.has_value()) return TellKnownOrderToHost(device->record());
  if (HasExactHostOrder()) TellKnownOrderToHost();
}

absl::Status RunOnHost(absl::Span<const Touched> touched, CallSite site,
                       absl::FunctionRef<absl::Status()> access)
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  PollPendingReleases(/*capturing=*/false);
  OrderedStep step(touched);
  for (;;) {
    step.Lock();
    const std::optional<StorageUse> pending = step.FindPending();
    if (!pending.has_value()) {
      for (const Touched& t : touched) TellHostOrder(t.storage->place());
      absl::Status status = access();
      step.Unlock();
      return status;
    }
    step.Unlock();
    DEVRT_RETURN_IF_ERROR(WaitForUse(*pending, site));
  }
}

}  // namespace devrt::internal
