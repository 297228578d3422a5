// SPDX-License-Identifier: Apache-2.0
//
// The traces that traces/make_traces.py writes, in the command itself.

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
  size_t blocks;   // numbers of blocks are below
  size_t streams;  // likewise
};

absl::Span<const MemoryTrace> MemoryTraces();

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_BENCH_TRACES_H_
