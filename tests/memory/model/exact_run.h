// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_TESTS_MEMORY_MODEL_EXACT_RUN_H_
#define DEVRT_TESTS_MEMORY_MODEL_EXACT_RUN_H_

#include <string>
#include <vector>

#include "devrt/streams/stream.h"
#include "tests/memory/model/program.h"

namespace devrt::testing {

// Runs the program on the streams' device beside a ModelAllocator, and leaves
// the device as it was.  Returns the first difference, or "".
std::string RunExactly(const std::vector<Stream>& streams,
                       const Program& program);

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_MEMORY_MODEL_EXACT_RUN_H_
