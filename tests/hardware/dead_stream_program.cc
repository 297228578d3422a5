// SPDX-License-Identifier: Apache-2.0
//
//   dead_stream_program adopt|use
//
// Adopts a native stream that was destroyed, or that is destroyed while it is
// adopted, and prints what the next call answers.
#include <cstdio>
#include <string>

#include "devrt/devrt.h"
#include "tests/hardware/driver.h"

namespace {

absl::Status Run(bool use) {
  DEVRT_ASSIGN_OR_RETURN(const devrt::Device device,
                         devrt::GetDevice("cuda:0"));
  const devrt::DeviceGuard guard(device);
  CUstream native = nullptr;
  DRIVER_OK(DRIVER_CALL(cuStreamCreateWithPriority)(&native,
                                                    CU_STREAM_NON_BLOCKING, 0));
  if (!use) {
    DRIVER_OK(DRIVER_CALL(cuStreamDestroy)(native));
    return devrt::Stream::FromNative(device, native).status();
  }
  DEVRT_ASSIGN_OR_RETURN(const devrt::Stream stream,
                         devrt::Stream::FromNative(device, native));
  DRIVER_OK(DRIVER_CALL(cuStreamDestroy)(native));
  return stream.Synchronize();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string which = argc == 2 ? argv[1] : "";
  if (which != "adopt" && which != "use") {
    std::fprintf(stderr, "usage: dead_stream_program adopt|use\n");
    return 2;
  }
  std::printf("%s\n", Run(which == "use").ToString().c_str());
  return 0;
}
