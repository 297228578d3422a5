// SPDX-License-Identifier: Apache-2.0
//
//   device_view devrt|driver
//
// Prints the UUIDs of the CUDA devices, in order, as devrt or as the driver has
// them; nothing but "none" where there is none.  Exit code 77: no driver.
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include "devrt/devrt.h"
#include "tests/hardware/driver.h"

namespace {

constexpr int kNothingThere = 77;

int ShowDevrt() {
  const auto devices = devrt::Devices("cuda");
  if (!devices.ok()) {
    std::fprintf(stderr, "%s\n", devices.status().ToString().c_str());
    if (!absl::IsUnavailable(devices.status())) return 1;
    std::puts("none");
    return 0;
  }
  for (const devrt::Device device : *devices) {
    const auto properties = device.Properties();
    if (!properties.ok()) {
      std::printf("%s\n", properties.status().ToString().c_str());
      return 1;
    }
    std::printf("GPU-%s\n", properties->uuid_string().c_str());
  }
  return 0;
}

int ShowDriver() {
  const CUresult error = DRIVER_CALL(cuInit)(0);
  if (error != CUDA_SUCCESS) {
    std::fprintf(stderr, "cuInit: %d\n", error);
    std::puts("none");
    return 0;
  }
  int count = 0;
  DRIVER_OK(DRIVER_CALL(cuDeviceGetCount)(&count));
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    CUuuid uuid = {};
    DRIVER_OK(DRIVER_CALL(cuDeviceGet)(&device, i));
    DRIVER_OK(DRIVER_CALL(cuDeviceGetUuid)(&uuid, device));
    std::printf("GPU-");
    for (int j = 0; j < 16; ++j) {
      const bool dash = j == 4 || j == 6 || j == 8 || j == 10;
      std::printf("%s%02x", dash ? "-" : "",
                  static_cast<unsigned char>(uuid.bytes[j]));
    }
    std::puts("");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string who = argc == 2 ? argv[1] : "";
  if (who == "devrt") return ShowDevrt();
  if (who != "driver") {
    std::fprintf(stderr, "usage: device_view devrt|driver\n");
    return 2;
  }
  try {
    return ShowDriver();
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return kNothingThere;
  }
}
