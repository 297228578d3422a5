// SPDX-License-Identifier: Apache-2.0
//
// A trace in the Trace Event Format, which ui.perfetto.dev and chrome://tracing
// read: a process for the host with a thread a track, below it one for each
// device with a stream a track and a counter of its memory; an arrow from each
// call to the operation that it submitted, and one for each wait.

#ifndef DEVRT_TOOLS_TRACE_TRACE_EVENTS_H_
#define DEVRT_TOOLS_TRACE_TRACE_EVENTS_H_

#include <string>

#include "tools/trace/ring_reader.h"

namespace devrt::tools {

struct TraceSummary {
  uint64_t calls = 0;
  uint64_t operations = 0;
  uint64_t submissions = 0;  // arrows from a call to its operation
  uint64_t waits = 0;        // arrows between operations
};

// `program` is the title.  Times are microseconds from the start of the trace.
// Calls and operations of a simulator with virtual time are on its clock, and
// stand apart from those of other backends.
std::string TraceEvents(const TraceData& data, const std::string& program,
                        TraceSummary* summary);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_TRACE_TRACE_EVENTS_H_
