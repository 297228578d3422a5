// SPDX-License-Identifier: Apache-2.0
//
// The operations of a soak's threads.  A thread runs rounds, and each round
// checks the data that it moved.  soak_operations.cc has the operations on
// streams, events and raw memory, which leave nothing behind;
// memory_soak_operations.cc has those on the allocators.

#ifndef DEVRT_TESTS_HARDWARE_SOAK_OPERATIONS_H_
#define DEVRT_TESTS_HARDWARE_SOAK_OPERATIONS_H_

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "devrt/devrt.h"

namespace devrt::soak {

// The state that a thread keeps from round to round.  The operations define it.
struct WorkerState;

struct Worker {
  std::vector<Device> devices;
  uint64_t most_bytes = 0;  // of a block
  bool has_probe = false;   // the backend has devrt.probe
  std::mt19937_64 random;
  std::shared_ptr<WorkerState> state;

  // A device, and another one if there is any.
  Device AnyDevice();
  Device OtherThan(Device device);
  uint64_t AnySize();  // a multiple of eight
  uint64_t Below(uint64_t end) { return random() % end; }
};

struct Operation {
  const char* name;
  absl::Status (*run)(Worker* worker);
  bool needs_probe;
};

// All operations.  An operation returns UNIMPLEMENTED if the backend lacks a
// function that it needs.
const std::vector<Operation>& Operations();

// Checks the rules that hold while no round runs.  With `is_end` all threads
// have ended, and nothing may be left alive.
absl::Status CheckBetweenRounds(const std::vector<Device>& devices,
                                bool is_end);

}  // namespace devrt::soak

#endif  // DEVRT_TESTS_HARDWARE_SOAK_OPERATIONS_H_
