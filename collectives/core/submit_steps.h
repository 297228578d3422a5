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

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "collectives/core/comm.h"
#include "collectives/core/device_order.h"
#include "collectives/core/operation_checks.h"
#include "collectives/core/submit.h"
#include "devrt/collectives/operation.h"
#include "streams/captures/captures.h"
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

// OK if the stream may have the operation: it is of the device, and captures
// only where the engine can.  Sets `*capture` if it is known then.
absl::Status CheckStream(const SubmittedOperation& submitted, StreamRef stream,
                         std::optional<CaptureNumber>* capture);

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
    if (point.timeline != own) points->push_back(point);
  }
  if (comm.takes_part) comm.order->AddBefore(comm, points);
}

// Records a call before the engine's submit, which may hang.
void RecordCall(Comm* comm, const devrt_collective_v0& op, StreamRef stream,
                CallSite site, uint64_t now_ns) DEVRT_REQUIRES(comm->mutex);
// Takes the newest call back: it was refused.
void WithdrawCall(Comm* comm, const devrt_collective_v0& op)
    DEVRT_REQUIRES(comm->mutex);

// The `count` calls up to the number `last` end at `end`.
void NoteEnd(Comm* comm, uint64_t last, size_t count, OrderPoint end);

// Waits for an engine that enqueues after submit has returned: until then the
// streams must get no other work.
absl::Status AwaitEnqueued(absl::Span<Comm* const> comms);

// An error of the engine, which may have found that a communicator has failed:
// then the failure, or ABORTED if it came before the call.
absl::Status Explain(absl::Span<Comm* const> comms, absl::Status status);

// SubmitTogether for one operation of a communicator that compares no
// signatures and shares no device, which most are: without lists.
absl::Status SubmitOne(const SubmittedOperation& submitted, CallSite site);

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_CORE_SUBMIT_STEPS_H_
