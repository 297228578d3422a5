// SPDX-License-Identifier: Apache-2.0
//
// The devices of the ranks of a test over NCCL: one for each rank, or one for
// several where NCCL allows that, which it does from 2.30 on if the user sets
// NCCL_MULTI_RANK_GPU_ENABLE=1.

#ifndef DEVRT_TESTS_HARDWARE_NCCL_DEVICES_H_
#define DEVRT_TESTS_HARDWARE_NCCL_DEVICES_H_

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "devrt/collectives/communicator.h"
#include "devrt/devrt.h"

namespace devrt::hardware {

inline bool RanksMayShare(Device device) {
  const auto engine = collectives::EngineOf(device);
  const char* const enabled = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return engine.ok() && enabled != nullptr && std::string(enabled) == "1" &&
         std::count(engine->features.begin(), engine->features.end(),
                    "shared_device") != 0;
}

// The first devices of the machine, or all of them in turns if they are fewer
// than `ranks` and the ranks may share them.
inline std::vector<Device> DevicesOfRanks(std::vector<Device> devices,
                                          size_t ranks) {
  const size_t found = devices.size();
  if (found >= ranks) {
    devices.erase(devices.begin() + static_cast<std::ptrdiff_t>(ranks),
                  devices.end());
  } else if (found > 0 && RanksMayShare(devices[0])) {
    while (devices.size() < ranks) {
      devices.push_back(devices[devices.size() - found]);
    }
  }
  return devices;
}

}  // namespace devrt::hardware

#endif  // DEVRT_TESTS_HARDWARE_NCCL_DEVICES_H_
