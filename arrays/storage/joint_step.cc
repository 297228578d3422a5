// SPDX-License-Identifier: Apache-2.0

#include "arrays/storage/joint_step.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "arrays/storage/ordered_step.h"
#include "arrays/storage/storage_kept.h"
#include "devrt/runtime/status.h"
#include "streams/objects/ordering.h"
#include "streams/objects/stream_target.h"

namespace devrt::internal {
namespace {

constexpr char kOperation[] = "an operation on arrays";
// A part for each device that a process mostly has: their lists allocate
// nothing.
constexpr size_t kFewParts = 8;

// The parts of one joint step, and the locks of all their storages.
class JointStep {
 public:
  JointStep(absl::Span<JointPart> parts, CallSite site);

  // One turn.  If it meets a point that only the host can wait for, it sets
  // `for_host` and submits nothing.
  absl::Status Run(const char* call, EnqueueJointly enqueue,
                   std::optional<OrderPoint>* for_host);

 private:
  absl::Status RunLocked(const char* call, EnqueueJointly enqueue,
                         std::optional<OrderPoint>* for_host);
  absl::Status Join(JointPart* part, std::optional<OrderPoint>* for_host);
  void Note(JointPart* part, bool ordered);

  const absl::Span<JointPart> parts_;
  const CallSite site_;
  // Pieces of the parts that an OrderedStep can hold.
  absl::InlinedVector<OrderedStep, kFewParts> steps_;
  absl::InlinedVector<Storage*, 2 * kFewParts> locks_;
};

JointStep::JointStep(absl::Span<JointPart> parts, CallSite site)
    : parts_(parts), site_(site) {
  bool is_sorted = true;
  for (JointPart& part : parts) {
    part.steps_begin = steps_.size();
    for (size_t at = 0; at < part.touched.size(); at += OrderedStep::kMost) {
      steps_.emplace_back(part.touched.subspan(at, OrderedStep::kMost));
    }
    part.steps_end = steps_.size();
    for (const Touched& t : part.touched) {
      if (t.storage->place().kind() == MemoryKind::kHost) continue;
      is_sorted = is_sorted &&
                  (locks_.empty() || std::less<>()(locks_.back(), t.storage));
      locks_.push_back(t.storage);
    }
  }
  if (is_sorted) return;
  std::sort(locks_.begin(), locks_.end(), std::less<>());
  locks_.erase(std::unique(locks_.begin(), locks_.end()), locks_.end());
}

absl::Status JointStep::Join(JointPart* part,
                             std::optional<OrderPoint>* for_host) {
  StreamTarget target;
  DEVRT_RETURN_IF_ERROR(
      ResolveStream(part->stream, kOperation, site_, &target));
  part->handle = target.handle;
  if (part->capture.has_value()) {
    part->held = *part->capture;
  } else {
    DEVRT_ASSIGN_OR_RETURN(part->held, HoldCapture(part->stream));
  }
  const Timeline* const timeline = target.timeline();
  for (const OrderPoint& point : part->after) {
    if (part->held != CaptureNumber::kNone) break;
    if (point.timeline == timeline || timeline->IsAfter(point)) continue;
    DEVRT_ASSIGN_OR_RETURN(const bool ordered, OrderAfterOnce(target, point));
    if (ordered) continue;
    *for_host = point;
    return absl::OkStatus();
  }
  for (size_t i = part->steps_begin; i < part->steps_end; ++i) {
    DEVRT_RETURN_IF_ERROR(steps_[i].Join(Step{part->stream, site_}, target,
                                         part->held, for_host));
    if (for_host->has_value()) return absl::OkStatus();
  }
  TellKnownOrder(part->stream);
  return absl::OkStatus();
}

void JointStep::Note(JointPart* part, bool ordered) {
  part->stream.record()->dirty.store(true, std::memory_order_relaxed);
  for (size_t i = part->steps_begin; i < part->steps_end; ++i) {
    steps_[i].Note(part->stream, part->held, ordered);
  }
  if (ordered) part->end = PointOf(part->stream);
}

absl::Status JointStep::RunLocked(const char* call, EnqueueJointly enqueue,
                                  std::optional<OrderPoint>* for_host) {
  for (JointPart& part : parts_) {
    absl::Status status = Join(&part, for_host);
    if (!status.ok() || for_host->has_value()) return status;
  }
  SetCallSite(site_);
  const devrt_status error = enqueue(parts_);
  SetCallSite({});
  for (JointPart& part : parts_) Note(&part, error == nullptr);
  return FromPlugin(parts_[0].stream.record()->device, error, call);
}

absl::Status JointStep::Run(const char* call, EnqueueJointly enqueue,
                            std::optional<OrderPoint>* for_host) {
  OrderedStep::Lock(locks_);
  absl::Status status = RunLocked(call, enqueue, for_host);
  OrderedStep::Unlock(locks_);
  return status;
}

// Not inline: most calls have one part.
ABSL_ATTRIBUTE_NOINLINE absl::Status RunSeveral(absl::Span<JointPart> parts,
                                                const char* call, CallSite site,
                                                EnqueueJointly enqueue) {
  JointStep joint(parts, site);
  for (;;) {
    std::optional<OrderPoint> for_host;
    DEVRT_RETURN_IF_ERROR(joint.Run(call, enqueue, &for_host));
    if (!for_host.has_value()) return absl::OkStatus();
    DEVRT_RETURN_IF_ERROR(WaitOnHost(*for_host, site));
  }
}

// Orders the stream of a part behind what the part comes after.
absl::Status OrderPart(JointPart* part, CallSite site) {
  StreamTarget target;
  DEVRT_RETURN_IF_ERROR(ResolveStream(part->stream, kOperation, site, &target));
  if (!part->capture.has_value()) {
    DEVRT_ASSIGN_OR_RETURN(part->capture, HoldCapture(part->stream));
  }
  const Timeline* const timeline = target.timeline();
  for (const OrderPoint& point : part->after) {
    if (*part->capture != CaptureNumber::kNone) break;
    if (timeline->IsAfter(point)) continue;
    DEVRT_ASSIGN_OR_RETURN(const bool ordered, OrderAfterOnce(target, point));
    if (!ordered) DEVRT_RETURN_IF_ERROR(WaitOnHost(point, site));
  }
  return absl::OkStatus();
}

// One part, whose storages one OrderedStep can hold: a step like others, which
// needs no list.
absl::Status RunAlone(JointPart* part, const char* call, CallSite site,
                      EnqueueJointly enqueue) {
  if (ABSL_PREDICT_FALSE(!part->after.empty())) {
    DEVRT_RETURN_IF_ERROR(OrderPart(part, site));
  }
  const auto run = [&](const StreamTarget& target) {
    part->handle = target.handle;
    const devrt_status error = enqueue({part, 1});
    target.MarkDirty();
    if (error == nullptr) part->end = PointOf(part->stream);
    return FromPlugin(target.device, error, call);
  };
  if (!part->touched.empty()) {
    return RunOrdered({part->stream, site, part->capture}, part->touched, run);
  }
  StreamTarget target;
  DEVRT_RETURN_IF_ERROR(ResolveStream(part->stream, kOperation, site, &target));
  TellKnownOrder(part->stream);
  return run(target);
}

}  // namespace

absl::Status RunJointly(absl::Span<JointPart> parts, const char* call,
                        CallSite site, EnqueueJointly enqueue) {
  if (InHostFunction()) return HostFunctionError(call);
  if (HasDeferredDeletions()) RunDeferredDeletions();
  if (HasPendingReleases()) {
    // No query that would make a capture invalid.
    PollPendingReleases(/*capturing=*/true);
  }
  absl::Status status =
      parts.size() == 1 && parts[0].touched.size() <= OrderedStep::kMost
          ? RunAlone(&parts[0], call, site, enqueue)
          : RunSeveral(parts, call, site, enqueue);
  if (ABSL_PREDICT_FALSE(!status.ok())) return status;
  for (const JointPart& part : parts) {
    if (part.ranges.empty()) continue;
    NoteUses(part.stream, part.ranges.data(), part.ranges.size());
  }
  return status;
}

bool IsOver(const OrderPoint& point) {
  Timeline* const timeline = point.timeline;
  if (timeline == nullptr || timeline->IsComplete(point.epoch)) return true;
  timeline->CheckpointUnlessDestroyed(point.epoch).IgnoreError();
  return timeline->QueryEpoch(point.epoch);
}

}  // namespace devrt::internal
