// SPDX-License-Identifier: Apache-2.0
//
// Works on cuda:0 until something fails, and prints what the user gets to see.
#include <cstdint>
#include <cstdio>

#include "devrt/devrt.h"

namespace {

constexpr uint64_t kSize = 4096;

absl::Status Work() {
  DEVRT_ASSIGN_OR_RETURN(devrt::Device device, devrt::GetDevice("cuda:0"));
  DEVRT_ASSIGN_OR_RETURN(devrt::Stream stream, devrt::Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(void* memory, devrt::Allocate(device, kSize));
  absl::Status status;
  for (int i = 0; i < 10 && status.ok(); ++i) {
    status = devrt::FillAsync(stream, memory, 1, kSize);
    if (status.ok()) status = stream.Synchronize();
  }
  std::printf("later: %s\n", stream.Synchronize().ToString().c_str());
  std::printf("free: %s\n", devrt::Free(device, memory).ToString().c_str());
  return status;
}

}  // namespace

int main() {
  const absl::Status status = Work();
  std::printf("first: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
