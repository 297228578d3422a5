// SPDX-License-Identifier: Apache-2.0
//
// What a soak's threads do: rounds, each of which makes its own objects, checks
// the data that it moved and leaves nothing behind.

#ifndef DEVRT_TESTS_HARDWARE_SOAK_OPERATIONS_H_
#define DEVRT_TESTS_HARDWARE_SOAK_OPERATIONS_H_

#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "devrt/devrt.h"

namespace devrt::soak {

struct Worker {
  std::vector<Device> devices;
  uint64_t most_bytes = 0;  // of a block
  bool has_probe = false;   // the backend has devrt.probe
  std::mt19937_64 random;

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

}  // namespace devrt::soak

#endif  // DEVRT_TESTS_HARDWARE_SOAK_OPERATIONS_H_
