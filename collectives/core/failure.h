// SPDX-License-Identifier: Apache-2.0
//
// The end of a communicator that is not orderly: failures, and aborts.
//
// Threads: any.

#ifndef DEVRT_COLLECTIVES_CORE_FAILURE_H_
#define DEVRT_COLLECTIVES_CORE_FAILURE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "collectives/core/comm.h"

namespace devrt::collectives::internal {

// Asks the engine whether the communicator has failed.  The first time it has,
// follows Options::on_failure; while it has not, marks what was known to be
// complete before.  Returns why the communicator failed or was aborted; OK
// while it is ready or finished.
absl::Status PollForFailure(Comm* comm);

// As PollForFailure, for a call that returns the failure: waits until another
// thread, such as the watch, has added what the records of the other ranks say,
// 800 ms at most, and not behind the deadline.
absl::Status PollForWholeFailure(Comm* comm, absl::Time deadline);

// Returns true if the communicator is not ready, or the engine says that it has
// failed.  Ends and notes nothing, which may take long.
bool HasFailed(Comm* comm);

// Notes a failure that the engine does not know of, and follows
// Options::on_failure.
void Fail(Comm* comm, const absl::Status& why);

// The two halves of a failure, for the watch.  NoteFailure asks the engine, and
// looks for a call that is too old.  It returns the failure that it notes, and
// OK if it notes none.  FollowFailure ends what the options say, which takes as
// long as the engine does, and then adds what the records of all ranks say.
absl::Status NoteFailure(Comm* comm);
void FollowFailure(Comm* comm, const absl::Status& failure);

// Fails the communicator if its oldest call is older than Options::timeout.
// Marks calls that are complete.  Does nothing for an engine that has deadlines
// of its own.
void FailIfLate(Comm* comm);

// Ends what runs, on this rank; see Communicator::Abort.
absl::Status AbortComm(Comm* comm, std::string_view why);

// Aborts communicators that have failed, also after a revoke: the engine lets
// go of the children that it makes.
absl::Status AbortFailed(absl::Span<const std::shared_ptr<Comm>> comms);

// Ends what runs on communicators that have failed, before they are shrunk,
// where submissions may wait for other ranks.  Returns when that is over, also
// if another thread has begun it.
absl::Status EndWaits(absl::Span<const std::shared_ptr<Comm>> comms);

// Gives a place back to the engine.  Quarantine for the device if the engine
// does not return in time.
void DestroyPlace(Device device, const Provider& provider, devrt_comm handle,
                  const std::string& text);

// How long the engine may take to end a communicator.  Tests shorten it.
void SetAbortLimit(absl::Duration limit);

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_CORE_FAILURE_H_
