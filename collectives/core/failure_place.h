// SPDX-License-Identifier: Apache-2.0
//
// Where a communicator failed: which of this rank's calls the engine's error
// is about.
//
// Threads: any.

#ifndef DEVRT_COLLECTIVES_CORE_FAILURE_PLACE_H_
#define DEVRT_COLLECTIVES_CORE_FAILURE_PLACE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "collectives/core/comm.h"

namespace devrt::collectives::internal {

// The number in "all_reduce #118 (float32 ...", by which an engine that counts
// collectives names one; 0 if there is none.
uint64_t SequenceIn(absl::string_view why);

// " at 118 all_reduce(...) ... before": the call that the engine names, or the
// one that is not complete.  " between 118 ... and 120 ..." where only that is
// known, and nothing if no call is open.  Keeps the number of the first.
// `asks`: it may ask the backend.
std::string PlaceOf(Comm* comm, absl::string_view why, bool asks);

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_CORE_FAILURE_PLACE_H_
