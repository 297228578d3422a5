// SPDX-License-Identifier: Apache-2.0
//
// Group: operations of one or several communicators of one process that are
// submitted together, so that none waits for another one of them.
//
//   devrt::collectives::Group group;   // a ring: everyone sends to the right
//   const size_t n = ranks.size();
//   for (size_t i = 0; i < n; ++i) {
//     const int right = static_cast<int>((i + 1) % n);
//     const int left = static_cast<int>((i + n - 1) % n);
//     group.Add(ranks[i], devrt::collectives::Send(sums[i], right));
//     group.Add(ranks[i], devrt::collectives::Recv(gradients[i], left));
//   }
//   DEVRT_RETURN_IF_ERROR(group.Submit());
//
// A group is a list until Submit.  Submit checks everything that one process
// can know before the first call of the engine; a group that is refused, or
// dropped without Submit, has done nothing.
//
// Operations of one group have no order: none may touch an array that another
// one writes.  In place is one operation.
//
// Ownership: a group keeps the arrays and the communicators of its operations.
// Threads: one at a time, for the group and for each of its communicators.

#ifndef DEVRT_COLLECTIVES_CORE_GROUP_H_
#define DEVRT_COLLECTIVES_CORE_GROUP_H_

#include <memory>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "devrt/collectives/communicator.h"
#include "devrt/collectives/operation.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt::collectives {

namespace internal {

// One operation of a group.
struct GroupedOperation {
  GroupedOperation(std::shared_ptr<Comm> of, Operation&& what,
                   std::optional<StreamRef> where)
      : comm(std::move(of)), operation(std::move(what)), stream(where) {}
  std::shared_ptr<Comm> comm;  // nullptr: of a communicator that was moved from
  Operation operation;
  std::optional<StreamRef> stream;  // nullopt: the current one at Add
};

}  // namespace internal

// Operations that are submitted together.
class DEVRT_EXPORT Group {
 public:
  Group() = default;
  Group(const Group&) = default;
  Group& operator=(const Group&) = default;
  // The other group is empty then.
  Group(Group&& other) noexcept : operations_(std::move(other.operations_)) {
    other.operations_.clear();
  }
  Group& operator=(Group&& other) noexcept {
    operations_ = std::move(other.operations_);
    other.operations_.clear();
    return *this;
  }

  // Adds an operation, on the stream that is current now if none is given.
  // Errors come with Submit, which names the operation.
  void Add(const Communicator& communicator, Operation operation,
           std::optional<StreamRef> stream = std::nullopt);
  // Submits the operations, in the order of Add, and empties the group, unless
  // it is refused.  OK for an empty group.  INVALID_ARGUMENT if communicators
  // have different engines; with NCCL also if submissions of only some may wait
  // for other ranks: one with kReport, with `shared_device`, without `watch` or
  // without a finite `timeout` needs a group of its own.  Errors of
  // Communicator::Submit.
  absl::Status Submit(CallSite site = CallSite::Here());
  // The number of operations.
  size_t size() const { return operations_.size(); }

 private:
  absl::InlinedVector<internal::GroupedOperation, 2> operations_;
};

}  // namespace devrt::collectives

#endif  // DEVRT_COLLECTIVES_CORE_GROUP_H_
