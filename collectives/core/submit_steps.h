// SPDX-License-Identifier: Apache-2.0
//
// Steps of a submission, of one operation (submit_one.cc) and of several
// (submit.cc).
//
// Threads: that which has the communicators' `in_use`.

#ifndef DEVRT_COLLECTIVES_CORE_SUBMIT_STEPS_H_
#define DEVRT_COLLECTIVES_CORE_SUBMIT_STEPS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "collectives/core/comm.h"
#include "collectives/core/device_order.h"
#include "collectives/core/operation_checks.h"
#include "collectives/core/submit.h"
#include "devrt/collectives/operation.h"
#include "streams/captures/captures.h"
#include "streams/objects/may_capture.h"
#include "streams/objects/stream_record.h"

namespace devrt::collectives::internal {

using devrt::internal::CaptureNumber;

// False for sends and receives, which only two ranks submit.
inline bool MeetsAll(const devrt_collective_v0& op) {
  return op.op != DEVRT_COLLECTIVE_SEND && op.op != DEVRT_COLLECTIVE_RECV;
}

inline bool MeetsAll(const Operation& operation) {
  return operation.kind() != OpKind::kSend && operation.kind() != OpKind::kRecv;
}

// The stream of the operation: its own, or the current one.
inline StreamRef StreamOf(const SubmittedOperation& submitted) {
  return submitted.stream.has_value() ? *submitted.stream
                                      : CurrentStream(submitted.comm->device);
}

// CheckStream for a stream that is of another device, or may capture.
absl::Status CheckUnusualStream(const SubmittedOperation& submitted,
                                StreamRef stream,
                                std::optional<CaptureNumber>* capture);

// OK if the stream may have the operation: it is of the device, and captures
// only where the engine can.  Sets `*capture` if it is known then.
inline absl::Status CheckStream(const SubmittedOperation& submitted,
                                StreamRef stream,
                                std::optional<CaptureNumber>* capture) {
  const devrt::internal::StreamRecord& record = *stream.record();
  const devrt::internal::Timeline* const timeline =
      record.timeline.load(std::memory_order_acquire);
  if (ABSL_PREDICT_FALSE(
          record.device_gate != submitted.comm->device.gate() ||
          timeline == nullptr ||
          devrt::internal::IsOpenToCaptures(record, *timeline))) {
    return CheckUnusualStream(submitted, stream, capture);
  }
  *capture = CaptureNumber::kNone;
  return absl::OkStatus();
}

// Calls touch(storage, writes) for arrays and use(pointer, bytes) for pointers.
template <typename Touch, typename Uses>
void ForEachMemory(const Operation& operation, const CheckedOperation& checked,
                   Touch touch, Uses use) {
  if (operation.has_arrays()) {
    if (checked.dst_bytes != 0) {
      touch(operation.out()->storage().get(), true);
    }
    if (checked.src_bytes != 0) {
      touch(operation.in()->storage().get(), false);
    }
    return;
  }
  if (checked.dst_bytes != 0) use(checked.op.dst, checked.dst_bytes);
  if (checked.src_bytes != 0 && checked.op.src != checked.op.dst) {
    use(checked.op.src, checked.src_bytes);
  }
}

// Adds the work that the next submission of the communicator comes after, but
// for that of the stream itself.
inline void AddBefore(const Comm& comm, StreamRef stream, OrderPoints* points) {
  if (!comm.needs_order) return;
  const devrt::internal::Timeline* const own =
      stream.record()->timeline.load(std::memory_order_relaxed);
  for (const OrderPoint& point : comm.last) {
    if (ABSL_PREDICT_FALSE(point.timeline != own)) points->push_back(point);
  }
  if (comm.takes_part) comm.order->AddBefore(comm, points);
}

// Records calls at the time `now_ns`, before the engine's submit, which may
// hang.  The place of the next call is site().  Returns what NoteEnd takes, if
// the engine does not refuse the calls.
template <typename Site>
Comm::Pending* RecordCalls(Comm* comm,
                           absl::Span<const devrt_collective_v0> ops,
                           StreamRef stream, uint64_t now_ns, Site site) {
  const uint64_t stream_id = stream.id();
  const MutexLock lock(&comm->mutex);
  Ring* const ring = comm->ring.get();
  uint64_t last = 0;
  for (const devrt_collective_v0& op : ops) {
    Call call;
    call.op = op.op;
    call.reduction = op.reduction;
    call.sequence = MeetsAll(op) ? ++comm->sequence : 0;
    call.count = op.count;
    call.stream = stream_id;
    call.dtype = op.dtype;
    call.root_or_peer = op.root_or_peer;
    call.site = site();
    last = ring->Append(call, now_ns);
  }
  auto& pending = comm->pending;
  const uint64_t first = last - ops.size() + 1;
  const bool goes_on = !pending.empty() && !pending.back().is_submitted.load();
  const uint64_t submission = goes_on ? pending.back().submission : first;
  // The ring has no records of older calls.  Those of this submission stay,
  // whose ends are not noted yet.
  while (!pending.empty() && last - pending.front().last >= kRecords &&
         pending.front().is_submitted.load()) {
    pending.pop_front();
  }
  return &pending.emplace_back(first, last, submission);
}

// The last submission of the communicator is one part, which ends at `end`.
inline void NoteLast(Comm* comm, OrderPoint end) {
  if (comm->last.size() != 1) comm->last.resize(1);
  comm->last[0] = end;
}

// Takes the newest calls back, which were refused.
void WithdrawCalls(Comm* comm, absl::Span<const devrt_collective_v0> ops);

// The calls end at `end`.  Without the lock, which another thread may have.
inline void NoteEnd(Comm::Pending* calls, OrderPoint end) {
  calls->end = end;
  calls->is_submitted.store(true, std::memory_order_release);
}

// NoteEnd for an engine that may be one whose submit returns when the calls are
// complete: then they are marked so.
void NoteEndOrReturn(Comm* comm, Comm::Pending* calls, OrderPoint end);

// Waits for an engine that enqueues after submit has returned: until then the
// streams must get no other work.
absl::Status AwaitEnqueued(absl::Span<Comm* const> comms);

// Returns true if the engine has enqueued what the communicator submitted.
inline bool IsEnqueued(const Comm& comm) {
  return comm.provider.is_pending != nullptr &&
         !comm.provider.is_pending(comm.handle);
}

// An error of the engine, which may have found that a communicator has failed:
// then the failure, or ABORTED if it came before the call.
absl::Status Explain(absl::Span<Comm* const> comms, absl::Status status);

// SubmitTogether for one operation of a communicator that compares no
// signatures and shares no device, which most are: without lists.
absl::Status SubmitOne(const SubmittedOperation& submitted);
inline bool MaySubmitOne(const Comm& comm) {
  return comm.bootstrap == nullptr && !comm.options.shared_device;
}

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_CORE_SUBMIT_STEPS_H_
