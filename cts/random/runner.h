// SPDX-License-Identifier: Apache-2.0
//
// Runs a program through devrt's public C++ API, and compares what it finds
// with what the model says.
//
//   Venue venue = {backend, devices, simulator, is_virtual};
//   std::optional<Mismatch> bad = RunProgram(program, venue);
//
// After the first mismatch no further step is done.  Whatever happens, gates
// are opened, the devices waited for, and all objects given up before it
// returns; so a simulator can be reset.

#ifndef DEVRT_CTS_RANDOM_RUNNER_H_
#define DEVRT_CTS_RANDOM_RUNNER_H_

#include <optional>
#include <string>
#include <vector>

#include "cts/random/program.h"
#include "devrt/devrt.h"

namespace devrt::cts {

// Where programs run.
struct Venue {
  Backend backend;
  std::vector<Device> devices;         // those that a program counts
  std::optional<Simulator> simulator;  // only in virtual mode
  // For gates: 0 where a backend sees by itself that nothing can move.
  uint64_t gate_timeout_ns = 0;
};

struct Mismatch {
  int step = 0;      // from 1; 0: at the end
  std::string what;  // "byte 3 of block 1 is 7, not 9"
};

std::optional<Mismatch> RunProgram(const Program& program, const Venue& venue);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_RUNNER_H_
