// SPDX-License-Identifier: Apache-2.0
//
// Works on a device until something fails, and prints what the user gets to
// see.
//
//   lost_program cuda:0         what the driver lets fail
//   lost_program hip:0 fault    a kernel that writes to address 0
#include <cstdint>
#include <cstdio>

#include "devrt/devrt.h"

namespace {

constexpr uint64_t kSize = 4096;

absl::Status Work(const char* name, bool fault) {
  DEVRT_ASSIGN_OR_RETURN(devrt::Device device, devrt::GetDevice(name));
  DEVRT_ASSIGN_OR_RETURN(devrt::Stream stream, devrt::Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(void* memory, devrt::Allocate(device, kSize));
  absl::Status status;
  if (fault) {
    status = devrt::CommitFault(stream, devrt::FaultForm::kNullWrite);
    if (status.ok()) status = stream.Synchronize();
  }
  for (int i = 0; i < 10 && status.ok(); ++i) {
    status = devrt::FillAsync(stream, memory, 1, kSize);
    if (status.ok()) status = stream.Synchronize();
  }
  std::printf("later: %s\n", stream.Synchronize().ToString().c_str());
  std::printf("free: %s\n", devrt::Free(device, memory).ToString().c_str());
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const absl::Status status = Work(argv[1], argc > 2);
  std::printf("first: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
