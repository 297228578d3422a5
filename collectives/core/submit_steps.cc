// SPDX-License-Identifier: Apache-2.0

#include "collectives/core/submit_steps.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "arrays/copy/copy_steps.h"
#include "collectives/core/create.h"
#include "collectives/core/failure.h"
#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives::internal {

absl::Status CheckUnusualStream(const SubmittedOperation& submitted,
                                StreamRef stream,
                                std::optional<CaptureNumber>* capture) {
  const Comm& comm = *submitted.comm;
  if (stream.device() != comm.device) {
    return absl::InvalidArgumentError(
        absl::StrCat(comm.Text(), ": ", ToString(submitted.operation->kind()),
                     ": the stream is of ", stream.device().name(), ", not of ",
                     comm.device.name()));
  }
  if (comm.provider.Has(DEVRT_COLLECTIVES_CAPTURE)) return absl::OkStatus();
  const absl::Status may = devrt::internal::CheckMayWait(stream);
  if (!may.ok() && IsCaptureError(may)) {
    return CaptureError(absl::StrCat(
        comm.Text(), ": ", ToString(submitted.operation->kind()),
        " cannot run on stream ", stream.id(),
        ", which is capturing: ", comm.info.name,
        " captures no collectives; submit it before the capture begins, or "
        "after its end"));
  }
  *capture = CaptureNumber::kNone;
  return may;
}

void WithdrawCalls(Comm* comm, absl::Span<const devrt_collective_v0> ops) {
  const MutexLock lock(&comm->mutex);
  for (const devrt_collective_v0& op : ops) {
    comm->ring->Withdraw();
    if (MeetsAll(op)) --comm->sequence;
  }
  comm->pending.pop_back();
}

void NoteEndOrReturn(Comm* comm, Comm::Pending* calls, OrderPoint end) {
  if (comm->provider.Has(DEVRT_COLLECTIVES_STREAM_ORDERED)) {
    NoteEnd(calls, end);
    return;
  }
  NoteEnd(calls, OrderPoint());
  NoteEnds(comm);
}

absl::Status AwaitEnqueued(absl::Span<Comm* const> comms) {
  // The simulator enqueues at once, and a poll is a step of its schedule.
  if (comms[0]->provider.Has(DEVRT_COLLECTIVES_OWN_DEADLINES)) {
    return absl::OkStatus();
  }
  bool is_ready = true;
  for (Comm* const comm : comms) {
    if (IsEnqueued(*comm)) continue;
    uint32_t state = DEVRT_COMM_PENDING;
    DEVRT_RETURN_IF_ERROR(
        comm->Take(comm->provider.table->comm_poll(comm->provider.self,
                                                   comm->handle, &state),
                   "comm_poll"));
    is_ready = state == DEVRT_COMM_READY;
    if (!is_ready) break;
  }
  if (is_ready) return absl::OkStatus();
  absl::Duration limit = absl::InfiniteDuration();
  std::vector<std::shared_ptr<Comm>> waited;
  for (Comm* const comm : comms) {
    limit = std::min(limit, comm->options.timeout);
    waited.push_back(comm->shared_from_this());
  }
  return AwaitReady(waited, absl::Now() + limit);
}

absl::Status Explain(absl::Span<Comm* const> comms, absl::Status status) {
  if (absl::IsDeadlineExceeded(status)) {
    // Part of the operations may be enqueued.
    for (Comm* const comm : comms) Fail(comm, status);
  }
  for (Comm* const comm : comms) {
    FailIfLate(comm);
    const absl::Status failure =
        PollForWholeFailure(comm, absl::InfiniteFuture());
    if (failure.ok()) continue;
    return absl::IsAborted(status) ? CheckReady(*comm) : failure;
  }
  return status;
}

}  // namespace devrt::collectives::internal
