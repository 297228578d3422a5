// SPDX-License-Identifier: Apache-2.0
//
// A trace in the Trace Event Format, which ui.perfetto.dev and chrome://tracing
// read: a process for the host with a thread a track, a process for each device
// with a stream a track, an arrow for each wait, a counter for each device's
// memory.

#ifndef DEVRT_TOOLS_TRACE_TRACE_EVENTS_H_
#define DEVRT_TOOLS_TRACE_TRACE_EVENTS_H_

#include <string>

#include "tools/trace/ring_reader.h"

namespace devrt::tools {

struct TraceSummary {
  uint64_t calls = 0;
  uint64_t operations = 0;
  uint64_t arrows = 0;
};

// `program` is the title.  Times are microseconds from the start of the trace;
// those of a simulator are of its own clock.
std::string TraceEvents(const TraceData& data, const std::string& program,
                        TraceSummary* summary);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_TRACE_TRACE_EVENTS_H_
