// SPDX-License-Identifier: Apache-2.0
//
// Reads the traces of tools/bench/traces, whose README.md has the form. Where
// the build has no command, DEVRT_BENCH_TRACES names a folder that
// make_traces.py wrote.

#ifndef DEVRT_BENCH_TRACE_FILE_H_
#define DEVRT_BENCH_TRACE_FILE_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tools/bench/workloads.h"

#ifndef DEVRT_BENCH_TRACES_DIR
#define DEVRT_BENCH_TRACES_DIR "."
#endif

namespace bench {

struct Trace {
  std::vector<TraceCall> calls;
  uint32_t blocks = 0;
  uint32_t streams = 0;
};

// Ends the program, naming the line, if it is none.
inline Trace ReadTrace(const std::string& path) {
  std::ifstream file(path);
  Trace trace;
  std::string line;
  const auto fail = [&path](const std::string& what) {
    std::fprintf(stderr, "%s: %s\n", path.c_str(), what.c_str());
    std::exit(1);
  };
  if (!file) fail("cannot be read");
  std::vector<bool> live;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    unsigned long long block = 0, bytes = 0, stream = 0;
    const int read =
        std::sscanf(line.c_str(), "a %llu %llu %llu", &block, &bytes, &stream);
    const bool is_allocation = read == 3;
    if (!is_allocation && std::sscanf(line.c_str(), "f %llu", &block) != 1) {
      fail("not a call: " + line);
    }
    if (block > 1'000'000 || stream > 64) fail("too large: " + line);
    if (block >= live.size()) live.resize(block + 1);
    if (live[block] == is_allocation) fail("freed or live already: " + line);
    live[block] = is_allocation;
    trace.calls.push_back({is_allocation, static_cast<uint32_t>(block),
                           static_cast<uint32_t>(stream), bytes});
    if (trace.streams <= stream) {
      trace.streams = static_cast<uint32_t>(stream) + 1;
    }
  }
  trace.blocks = static_cast<uint32_t>(live.size());
  if (trace.calls.empty()) fail("has no call");
  return trace;
}

inline std::string TracePath(const char* name) {
  const char* folder = std::getenv("DEVRT_BENCH_TRACES");
  return std::string(folder != nullptr ? folder : DEVRT_BENCH_TRACES_DIR) +
         "/" + name + ".trace";
}

}  // namespace bench

#endif  // DEVRT_BENCH_TRACE_FILE_H_
