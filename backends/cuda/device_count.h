// SPDX-License-Identifier: Apache-2.0
//
// How many devices CUDA will find, without asking it: its initialisation spoils
// a process that forks later (C105), and NVML's starts a thread that stays.
//
// What the kernel's driver tells of is taken only where it is the whole answer;
// in every other case (no such files, as on WSL; a device file that is not
// there yet or not accessible; MIG; a list with doubles, with words of two
// kinds, or with others than plain numbers and UUIDs) the number is left to
// CUDA.
//
// Sources: the NVIDIA driver's README, "The /proc Interface"; the CUDA C++
// Programming Guide, "CUDA Environment Variables".

#ifndef DEVRT_BACKENDS_CUDA_DEVICE_COUNT_H_
#define DEVRT_BACKENDS_CUDA_DEVICE_COUNT_H_

#include <string>
#include <vector>

namespace devrt::cuda {

// What only the driver itself can tell.
inline constexpr int kUnknownCount = -1;

// UUIDs ("GPU-...") of the devices that this process may use, by the files
// below `root` (empty: the machine's own).  False where these are not all of
// it.
bool ReadDevices(const std::string& root, std::vector<std::string>* uuids);

// How many of these CUDA_VISIBLE_DEVICES leaves: those before the first that
// there is not.  `visible` is its value, nullptr where it is not set.
int CountVisible(const std::vector<std::string>& uuids, const char* visible);

}  // namespace devrt::cuda

#endif  // DEVRT_BACKENDS_CUDA_DEVICE_COUNT_H_
