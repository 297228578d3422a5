// SPDX-License-Identifier: Apache-2.0
//
// What a soak's threads do: rounds, each of which checks the data that it
// moved. soak_operations.cc has those of streams, events and raw memory, which
// leave nothing behind; memory_soak_operations.cc those of the allocators.

#ifndef DEVRT_TESTS_HARDWARE_SOAK_OPERATIONS_H_
#define DEVRT_TESTS_HARDWARE_SOAK_OPERATIONS_H_

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "devrt/devrt.h"

namespace devrt::soak {

// What a thread keeps from round to round; of the operations' own making.
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

// All of them; an answer of UNIMPLEMENTED means that the backend cannot.
const std::vector<Operation>& Operations();

// What must hold while no round is under way.  Also called when all threads
// have ended, `is_end`: then nothing may be left alive.
absl::Status CheckBetweenRounds(const std::vector<Device>& devices,
                                bool is_end);

}  // namespace devrt::soak

#endif  // DEVRT_TESTS_HARDWARE_SOAK_OPERATIONS_H_
