// SPDX-License-Identifier: Apache-2.0
//
// Waits, and how communicators end.  Each function takes the ranks of one
// communicator that the calling thread has.

#ifndef DEVRT_COLLECTIVES_CORE_LIFECYCLE_H_
#define DEVRT_COLLECTIVES_CORE_LIFECYCLE_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "collectives/core/comm.h"
#include "devrt/runtime/call_site.h"
#include "devrt/streams/stream.h"

namespace devrt::collectives::internal {

using CommSpan = absl::Span<const std::shared_ptr<Comm>>;
using CommVector = std::vector<std::shared_ptr<Comm>>;

// INVALID_ARGUMENT unless the list has ranks of one communicator, each once.
// `call` is for the text.
absl::Status CheckRanks(const char* call, CommSpan comms);
std::vector<Comm*> PointersOf(CommSpan comms);

// Communicator::Wait.
absl::Status WaitFor(Comm* comm, StreamRef stream, absl::Time deadline,
                     CallSite site);

// Waits for the current streams of all ranks.  If the device of a rank has
// failed, the others only miss the rank, and that device knows why.
absl::Status WaitForAll(CommSpan comms, absl::Time deadline, CallSite site);

// Waits until the work of the last submission is over, or the communicator has
// failed.  For the thread that uses it.
void AwaitLast(Comm* comm);

absl::Status BarrierRanks(CommSpan comms, absl::Time deadline, CallSite site);

absl::Status FinishRanks(CommSpan comms, absl::Time deadline);

// A Communicator begins.
void CountRank(const Comm& comm);
// The end of a Communicator, which may be unfinished.  Ranks of one
// communicator may end on one thread, one behind the other: the last one waits
// for all.
void EndRank(std::shared_ptr<Comm> comm);

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_CORE_LIFECYCLE_H_
