// SPDX-License-Identifier: Apache-2.0
//
// Submission of operations: of one communicator, or of a group.

#ifndef DEVRT_COLLECTIVES_CORE_SUBMIT_H_
#define DEVRT_COLLECTIVES_CORE_SUBMIT_H_

#include <cstddef>
#include <optional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "devrt/collectives/group.h"
#include "devrt/runtime/call_site.h"

namespace devrt::collectives::internal {

// An operation to submit.  Does not own what it names.
struct SubmittedOperation {
  Comm* comm;  // nullptr: of a communicator that was moved from
  const Operation* operation;
  std::optional<StreamRef> stream;  // nullopt: the current one
  // For SubmitTogether: its part, and the next one of that.
  size_t part = 0;
  size_t next = 0;
};

// Checks all operations, and then submits them by one call of the engine.  An
// error leaves every communicator as it was, unless the engine says that one
// has failed.
absl::Status SubmitTogether(absl::Span<SubmittedOperation> operations,
                            CallSite site);
absl::Status SubmitTogether(absl::Span<const GroupedOperation> operations,
                            CallSite site);

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_CORE_SUBMIT_H_
