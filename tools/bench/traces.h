// SPDX-License-Identifier: Apache-2.0
//
// The traces that traces/make_traces.py writes, as data in the command.

#ifndef DEVRT_TOOLS_BENCH_TRACES_H_
#define DEVRT_TOOLS_BENCH_TRACES_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "tools/bench/workloads.h"

namespace devrt::tools {

struct MemoryTrace {
  const char* name;
  const bench::TraceCall* calls;
  size_t count;
  size_t blocks;   // above the largest number of a block
  size_t streams;  // above the largest number of a stream
};

absl::Span<const MemoryTrace> MemoryTraces();

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_BENCH_TRACES_H_
