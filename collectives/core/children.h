// SPDX-License-Identifier: Apache-2.0
//
// How communicators make others: Split and Shrink.  Each function takes the
// ranks of one communicator that the calling thread has.

#ifndef DEVRT_COLLECTIVES_CORE_CHILDREN_H_
#define DEVRT_COLLECTIVES_CORE_CHILDREN_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/core/lifecycle.h"
#include "devrt/runtime/call_site.h"

namespace devrt::collectives::internal {

// Of each rank its place in its part of the split; nullptr for color -1.
absl::StatusOr<CommVector> SplitRanks(CommSpan comms,
                                      absl::Span<const int> colors,
                                      absl::Span<const int> keys,
                                      CallSite site);
absl::StatusOr<CommVector> ShrinkRanks(CommSpan comms,
                                       absl::Span<const int> gone,
                                       CallSite site);

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_CORE_CHILDREN_H_
