// SPDX-License-Identifier: Apache-2.0
//
// Options::exchange_records: after a failure the ranks tell each other over
// the bootstrap where they are: the calls from the oldest open one on, and the
// newest.
//
// Threads: any.

#ifndef DEVRT_COLLECTIVES_CORE_RECORD_EXCHANGE_H_
#define DEVRT_COLLECTIVES_CORE_RECORD_EXCHANGE_H_

#include "absl/status/status.h"
#include "collectives/core/comm.h"

namespace devrt::collectives::internal {

// Gives this rank's calls to the others, asks for theirs, 5 s long, and adds to
// the communicator's failure where the ranks differ.  On a thread of its own,
// because `failure` is told before; in the simulator on this one.  Does nothing
// without the option, and where the Communicator has ended.
void ExchangeRecords(Comm* comm, const absl::Status& failure);

// Waits until the exchange is over, and lets none begin.
void EndExchange(Comm* comm);

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_CORE_RECORD_EXCHANGE_H_
