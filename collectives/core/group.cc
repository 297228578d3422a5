// SPDX-License-Identifier: Apache-2.0

#include "devrt/collectives/group.h"

#include <utility>

#include "collectives/core/comm.h"
#include "collectives/core/submit.h"

namespace devrt::collectives {
namespace {

constexpr size_t kRoom = 16;

}  // namespace

void Group::Add(const Communicator& communicator, Operation operation,
                std::optional<StreamRef> stream) {
  const std::shared_ptr<internal::Comm>& comm = communicator.comm();
  if (comm != nullptr && !stream.has_value()) {
    stream = CurrentStream(comm->device);
  }
  // Growth moves the operations, which have arrays.
  if (operations_.empty()) operations_.reserve(kRoom);
  operations_.push_back({comm, std::move(operation), stream});
}

absl::Status Group::Submit(CallSite site) {
  absl::Status status = internal::SubmitTogether(operations_, site);
  if (status.ok()) operations_.clear();
  return status;
}

}  // namespace devrt::collectives
