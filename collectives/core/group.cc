// SPDX-License-Identifier: Apache-2.0

#include "devrt/collectives/group.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"
#include "collectives/core/comm.h"
#include "collectives/core/submit.h"
#include "collectives/room.h"

namespace devrt::collectives {
namespace {

constexpr size_t kRoom = 16;

}  // namespace

absl::Status internal::SubmitTogether(
    absl::Span<const GroupedOperation> operations, CallSite site) {
  Room<SubmittedOperation> submitted(operations.size());
  for (const GroupedOperation& grouped : operations) {
    submitted.Add(grouped.comm.get(), &grouped.operation, grouped.stream);
  }
  return SubmitTogether(absl::MakeSpan(submitted), site);
}

void Group::Add(const Communicator& communicator, Operation operation,
                std::optional<StreamRef> stream) {
  const std::shared_ptr<internal::Comm>& comm = communicator.comm();
  if (comm != nullptr && !stream.has_value()) {
    stream = CurrentStream(comm->device);
  }
  // Growth moves the operations, which have arrays.
  if (operations_.size() == operations_.capacity()) {
    operations_.reserve(std::max(kRoom, 2 * operations_.size()));
  }
  operations_.emplace_back(comm, std::move(operation), stream);
}

absl::Status Group::Submit(CallSite site) {
  absl::Status status = internal::SubmitTogether(operations_, site);
  // clear() would give the room back, too.
  if (status.ok()) operations_.erase(operations_.begin(), operations_.end());
  return status;
}

}  // namespace devrt::collectives
