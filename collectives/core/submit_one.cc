// SPDX-License-Identifier: Apache-2.0

#include <atomic>
#include <cstdint>
#include <optional>

#include "absl/base/optimization.h"
#include "absl/cleanup/cleanup.h"
#include "arrays/storage/joint_step.h"
#include "collectives/core/submit_steps.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives::internal {

using devrt::internal::JointPart;

absl::Status SubmitOne(const SubmittedOperation& submitted) {
  Comm* const comm = submitted.comm;
  const Operation& operation = *submitted.operation;
  const absl::Span<Comm* const> comms(&submitted.comm, 1);
  if (ABSL_PREDICT_FALSE(comm->in_use.exchange(true))) return InUseError(*comm);
  const absl::Cleanup end_use = [comm] {
    comm->in_use.store(false, std::memory_order_release);
  };
  DEVRT_RETURN_IF_ERROR(CheckReady(*comm));
  const StreamRef stream = StreamOf(submitted);
  std::optional<CaptureNumber> capture;
  DEVRT_RETURN_IF_ERROR(CheckStream(submitted, stream, &capture));
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

  DeviceOrder* const order = comm->takes_part ? comm->order : nullptr;
  OrderPoints after;
  Comm::Pending* recorded = nullptr;
  absl::Status enqueued;
  if (order != nullptr) order->Lock();
  AddBefore(*comm, stream, &after);
  JointPart part = {
      stream, {touched, arrays}, {ranges, pointers}, after, capture};
  absl::Status status = devrt::internal::RunJointly(
      absl::MakeSpan(&part, 1), ToString(operation.kind()), operation.site(),
      [&](absl::Span<const JointPart> parts) {
        const devrt_submission_v0 submission = {
            sizeof submission, 1,           comm->handle,
            parts[0].handle,   &checked.op, nullptr};
        recorded = RecordCalls(comm, {&checked.op, 1}, stream, NowNs(),
                               [&] { return operation.site(); });
        const devrt_status error =
            comm->provider.table->submit(comm->provider.self, &submission, 1);
        if (error == nullptr && !IsEnqueued(*comm)) {
          enqueued = AwaitEnqueued(comms);
        }
        return error;
      });
  if (ABSL_PREDICT_FALSE(!status.ok())) {
    if (order != nullptr) order->Unlock();
    status = Explain(comms, status);
    // A refusal, unless the communicator has failed in the call.
    if (recorded != nullptr && comm->state.load() == State::kReady) {
      WithdrawCalls(comm, {&checked.op, 1});
    }
    return status;
  }
  NoteLast(comm, part.end);
  if (order != nullptr) {
    NoteEnd(recorded, part.end);
    order->NoteOne(comm, part.end);
    order->Unlock();
  } else {
    NoteEndOrReturn(comm, recorded, part.end);
  }
  return enqueued.ok() ? enqueued : Explain(comms, enqueued);
}

}  // namespace devrt::collectives::internal
