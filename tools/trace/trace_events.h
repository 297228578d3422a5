// SPDX-License-Identifier: Apache-2.0
//
// A trace in the Trace Event Format, which ui.perfetto.dev and chrome://tracing
// read.  The host is a process with a track for each thread.  Each device is a
// process with a track for each stream and a counter of its memory.  Arrows
// lead from a call to the operation that it submitted, and from an operation to
// one that waited for it.

#ifndef DEVRT_TOOLS_TRACE_TRACE_EVENTS_H_
#define DEVRT_TOOLS_TRACE_TRACE_EVENTS_H_

#include <string>

#include "tools/trace/ring_reader.h"

namespace devrt::tools {

struct TraceSummary {
  uint64_t calls = 0;
  uint64_t operations = 0;
  uint64_t submissions = 0;  // arrows from a call to its operation
  uint64_t waits = 0;        // arrows from operation to operation
};

// `program` is the title.  Times are microseconds from the start of the trace.
// Calls and operations of a simulator with virtual time have that clock, and
// processes of their own.
std::string TraceEvents(const TraceData& data, const std::string& program,
                        TraceSummary* summary);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_TRACE_TRACE_EVENTS_H_
