// SPDX-License-Identifier: Apache-2.0
//
// Reads the ring file of the trace layer, also after a crash of its process.

#ifndef DEVRT_TOOLS_TRACE_RING_READER_H_
#define DEVRT_TOOLS_TRACE_RING_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "layers/trace/ring_file.h"

namespace devrt::tools {

struct TraceThread {
  uint32_t tid = 0;
  std::string name;
  std::vector<trace::Record> calls;  // in the order in which they ended
};

struct TraceData {
  uint32_t pid = 0;  // 0: no process wrote records
  uint32_t refused_processes = 0;
  uint64_t start_ns = 0;
  uint64_t overwritten = 0;  // older records, overwritten by newer ones
  uint64_t lost[trace::kLosses] = {};  // numbers of records, by trace::Loss
  std::vector<std::string> backends;
  std::vector<TraceThread> threads;
  std::vector<trace::Record> device;  // kDeviceOp, kDependency, kClock
  std::string names;

  std::string Name(uint32_t number) const;  // "" for 0 and invalid numbers
  uint64_t Lost() const;                    // the sum of `lost`
};

// INVALID_ARGUMENT if the open file is not a ring file of this version;
// DATA_LOSS if it cannot be read to its end.
absl::StatusOr<TraceData> ReadTrace(int fd);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_TRACE_RING_READER_H_
