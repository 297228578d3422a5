// SPDX-License-Identifier: Apache-2.0
//
// Counts the devices that CUDA will find, without CUDA: its initialisation
// spoils a process that forks later (C105), and NVML's starts a thread that
// stays.
//
// The files of the kernel's driver are used only if they are the whole answer.
// In every other case the count is left to CUDA: without such files, as on WSL;
// with a device file that is missing or not accessible; with MIG; and with a
// list that has duplicates, mixes numbers and UUIDs, or has other words.
//
// Sources: the NVIDIA driver's README, "The /proc Interface"; the CUDA C++
// Programming Guide, "CUDA Environment Variables".

#ifndef DEVRT_BACKENDS_CUDA_DEVICE_COUNT_H_
#define DEVRT_BACKENDS_CUDA_DEVICE_COUNT_H_

#include <string>
#include <vector>

namespace devrt::cuda {

// The driver must be asked.
inline constexpr int kUnknownCount = -1;

// Lists the UUIDs ("GPU-...") of the devices that this process may use, by the
// files below `root` ("" for the machine's own).  Returns false if the files
// are not the whole answer.
bool ReadDevices(const std::string& root, std::vector<std::string>* uuids);

// Returns how many of these devices CUDA_VISIBLE_DEVICES leaves: those before
// the first word that names none.  `visible` is its value, nullptr if it is not
// set.
int CountVisible(const std::vector<std::string>& uuids, const char* visible);

}  // namespace devrt::cuda

#endif  // DEVRT_BACKENDS_CUDA_DEVICE_COUNT_H_
