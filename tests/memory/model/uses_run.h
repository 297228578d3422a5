// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_TESTS_MEMORY_MODEL_USES_RUN_H_
#define DEVRT_TESTS_MEMORY_MODEL_USES_RUN_H_

#include <string>
#include <vector>

#include "devrt/streams/stream.h"
#include "tests/memory/model/program.h"

namespace devrt::testing {

// Runs the program on the streams' device and checks which stream uses which
// block.  Leaves the device as it was, but may replace streams.  Returns the
// first error, or "".  A request may be refused if it would not fit although
// each live block kept two of the largest pages from the driver.
std::string RunWithUses(std::vector<Stream>* streams, const Program& program);
// The number of requests that were refused so far.
int CountRefused();
// Returns true if a block waited for a stream in any program so far.  If none
// did, the programs prove nothing.
bool WasAnyBlockPending();

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_MEMORY_MODEL_USES_RUN_H_
