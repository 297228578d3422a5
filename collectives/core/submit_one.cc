// SPDX-License-Identifier: Apache-2.0

#include <cstdint>

#include "arrays/storage/joint_step.h"
#include "collectives/core/submit_steps.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives::internal {

using devrt::internal::JointPart;

absl::Status SubmitOne(const SubmittedOperation& submitted, CallSite site) {
  Comm* const comm = submitted.comm;
  const Operation& operation = *submitted.operation;
  const absl::Span<Comm* const> comms(&comm, 1);
  DEVRT_ASSIGN_OR_RETURN(const Use use, Use::Begin(comms));
  DEVRT_RETURN_IF_ERROR(CheckReady(*comm));
  JointPart part = {StreamOf(submitted), {}};
  DEVRT_RETURN_IF_ERROR(CheckStream(submitted, part.stream, &part.capture));
  CheckedOperation checked;
  DEVRT_RETURN_IF_ERROR(CheckOperation(comm, operation, &checked));
  devrt::internal::Touched touched[2];
  devrt::internal::UsedRange ranges[2];
  size_t arrays = 0, pointers = 0;
  ForEachMemory(
      operation, checked,
      [&](devrt::internal::Storage* storage, bool writes) {
        touched[arrays++] = {storage, writes};
      },
      [&](const void* pointer, uint64_t bytes) {
        ranges[pointers++] = {pointer, bytes};
      });
  part.touched = {touched, arrays};
  part.ranges = {ranges, pointers};

  DeviceOrder* const order = comm->takes_part ? comm->order : nullptr;
  OrderPoints after;
  bool is_recorded = false;
  absl::Status enqueued;
  if (order != nullptr) order->Lock();
  AddBefore(*comm, part.stream, &after);
  part.after = after;
  absl::Status status = devrt::internal::RunJointly(
      absl::MakeSpan(&part, 1), ToString(operation.kind()), site,
      [&](absl::Span<const JointPart> parts) {
        const devrt_submission_v0 submission = {
            sizeof submission, 1, comm->handle, parts[0].handle, &checked.op};
        {
          const MutexLock lock(&comm->mutex);
          RecordCall(comm, checked.op, part.stream, operation.site(), NowNs());
        }
        is_recorded = true;
        const devrt_status error =
            comm->provider.table->submit(comm->provider.self, &submission, 1);
        if (error == nullptr) enqueued = AwaitEnqueued(comms);
        return error;
      });
  if (status.ok()) {
    comm->last.clear();
    comm->last.push_back(part.end);
    if (order != nullptr) {
      order->Begin(Submitting(comms, nullptr), /*after_all=*/true);
      order->Add(*comm, part.end);
    }
    NoteEnd(comm, comm->ring->written(), 1, part.end);
  }
  if (order != nullptr) order->Unlock();
  if (status.ok()) {
    return enqueued.ok() ? enqueued : Explain(comms, enqueued);
  }
  status = Explain(comms, status);
  // A refusal, unless the communicator has failed in the call.
  if (is_recorded && comm->state.load() == State::kReady) {
    const MutexLock lock(&comm->mutex);
    WithdrawCall(comm, checked.op);
  }
  return status;
}

}  // namespace devrt::collectives::internal
