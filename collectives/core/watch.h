// SPDX-License-Identifier: Apache-2.0
//
// The watch: a thread that looks every 100 ms whether communicators have failed
// or their oldest call is too old.  It runs while there is one that needs it:
// of an engine without deadlines of its own.  Each failure that it finds is
// followed on another thread.
//
// Threads: any.

#ifndef DEVRT_COLLECTIVES_CORE_WATCH_H_
#define DEVRT_COLLECTIVES_CORE_WATCH_H_

#include <memory>

#include "collectives/core/comm.h"

namespace devrt::collectives::internal {

// Looks at the communicator until it ends.  Does nothing if the engine has its
// own deadlines.
void WatchComm(const std::shared_ptr<Comm>& comm);

// Returns true if the thread runs, or one that follows a failure; for tests.
bool IsWatching();

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_CORE_WATCH_H_
