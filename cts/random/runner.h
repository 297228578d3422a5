// SPDX-License-Identifier: Apache-2.0
//
// Runs a program through devrt's public C++ API, and compares its results with
// those of the model.
//
//   Venue venue = {backend, devices, simulator, is_virtual};
//   std::optional<Mismatch> bad = RunProgram(program, venue);
//
// No step runs after the first mismatch.  In any case RunProgram opens the
// gates, waits for the devices and destroys all objects, so that a simulator
// can be reset.

#ifndef DEVRT_CTS_RANDOM_RUNNER_H_
#define DEVRT_CTS_RANDOM_RUNNER_H_

#include <optional>
#include <string>
#include <vector>

#include "cts/random/program.h"
#include "devrt/devrt.h"

namespace devrt::cts {

// The backend and the devices that run programs.
struct Venue {
  Backend backend;
  std::vector<Device> devices;         // the devices of a program
  std::optional<Simulator> simulator;  // only in virtual mode
  // The timeout of gates; 0 if the backend itself detects deadlocks.
  uint64_t gate_timeout_ns = 0;
};

struct Mismatch {
  int step = 0;      // counted from 1; 0 means at the end
  std::string what;  // "byte 3 of block 1 is 7, not 9"
};

std::optional<Mismatch> RunProgram(const Program& program, const Venue& venue);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_RUNNER_H_
