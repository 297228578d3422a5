// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/hardware/soak_operations.h"

namespace devrt::soak {

Device Worker::AnyDevice() { return devices[Below(devices.size())]; }

Device Worker::OtherThan(Device device) {
  if (devices.size() == 1) return device;
  for (;;) {
    const Device other = AnyDevice();
    if (other != device) return other;
  }
}

// Small ones as often as large ones.
uint64_t Worker::AnySize() {
  uint64_t most = 8;
  while (most < most_bytes && Below(8) != 0) most *= 2;
  most = std::min(most, most_bytes);
  return (1 + Below(most / 8)) * 8;
}

}  // namespace devrt::soak
