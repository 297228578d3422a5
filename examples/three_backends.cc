// SPDX-License-Identifier: Apache-2.0
//
// CUDA, HIP and the simulated accelerator in one process and one thread: device
// guards nested in every order, and data that goes through all of them.
//
//   three_backends               with the backends of this machine
//   three_backends mtia hip      with these; a missing backend is an error

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "devrt/devrt.h"

namespace {

constexpr uint64_t kBytes = 1 << 16;

// The last device of each backend: with several devices it is not the one that
// is current in a new thread.
absl::StatusOr<std::vector<devrt::Device>> Choose(
    const std::vector<std::string>& names, bool all) {
  std::vector<devrt::Device> chosen;
  for (const std::string& name : names) {
    const absl::StatusOr<std::vector<devrt::Device>> devices =
        devrt::Devices(name);
    if (devices.ok()) {
      chosen.push_back(devices->back());
    } else if (all) {
      return devices.status();
    } else {
      std::printf("without %s: %s\n", name.c_str(),
                  std::string(devices.status().message()).c_str());
    }
  }
  return chosen;
}

// Shifts `host` by one byte in the device's memory; the first byte then comes
// from the device.
absl::Status PassThrough(devrt::Device device, std::vector<uint8_t>* host) {
  const auto first = static_cast<uint8_t>(device.index() + 1);
  DEVRT_ASSIGN_OR_RETURN(devrt::Stream stream, devrt::Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(void* memory, devrt::Allocate(device, kBytes));
  auto* const bytes = static_cast<uint8_t*>(memory);
  absl::Status status =
      devrt::Copy(stream, bytes + 1, host->data(), kBytes - 1);
  if (status.ok()) status = devrt::FillAsync(stream, bytes, first, 1);
  if (status.ok()) status = devrt::Copy(stream, host->data(), bytes, kBytes);
  const absl::Status freed = devrt::Free(device, memory);
  return status.ok() ? freed : status;
}

// Checks in the innermost scope that every device is current in its backend.
absl::Status Work(const std::vector<devrt::Device>& devices) {
  std::vector<uint8_t> host(kBytes, 0);
  for (const devrt::Device device : devices) {
    DEVRT_ASSIGN_OR_RETURN(devrt::Device current,
                           devrt::CurrentDevice(device.backend()));
    if (current != device) {
      return absl::InternalError(current.name() + " is current, not " +
                                 device.name());
    }
    DEVRT_RETURN_IF_ERROR(PassThrough(device, &host));
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    const devrt::Device device = devices[devices.size() - 1 - i];
    if (host[i] != device.index() + 1) {
      return absl::InternalError("byte " + std::to_string(i) + " is not " +
                                 device.name() + "'s");
    }
  }
  return absl::OkStatus();
}

absl::Status Nest(const std::vector<devrt::Device>& devices, size_t level) {
  if (level == devices.size()) return Work(devices);
  const devrt::Device device = devices[level];
  DEVRT_ASSIGN_OR_RETURN(devrt::Device before,
                         devrt::CurrentDevice(device.backend()));
  {
    const devrt::DeviceGuard guard(device);
    DEVRT_RETURN_IF_ERROR(guard.status());
    DEVRT_RETURN_IF_ERROR(Nest(devices, level + 1));
  }
  DEVRT_ASSIGN_OR_RETURN(devrt::Device after,
                         devrt::CurrentDevice(device.backend()));
  return after == before
             ? absl::OkStatus()
             : absl::InternalError(after.name() + " is current, and was not");
}

absl::Status Run(const std::vector<std::string>& names, bool all) {
  DEVRT_ASSIGN_OR_RETURN(std::vector<devrt::Device> devices,
                         Choose(names, all));
  std::sort(devices.begin(), devices.end());
  int orders = 0;
  do {
    for (const devrt::Device device : devices) {
      std::printf("%s ", device.name().c_str());
    }
    DEVRT_RETURN_IF_ERROR(Nest(devices, 0));
    std::printf("ok\n");
    ++orders;
  } while (std::next_permutation(devices.begin(), devices.end()));
  std::printf("%zu backends in one thread, nested in %d orders\n",
              devices.size(), orders);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> names(argv + 1, argv + argc);
  const absl::Status status =
      names.empty() ? Run({"mtia", "cuda", "hip"}, false) : Run(names, true);
  if (!status.ok()) std::printf("%s\n", devrt::StatusText(status).c_str());
  return status.ok() ? 0 : 1;
}
