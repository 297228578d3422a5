// SPDX-License-Identifier: Apache-2.0
//
// What a program does with the backend.  Exit code 0: all of it works; 77,
// which Meson counts as skipped: something is not written yet; 1: it is wrong.
//
//   plugin_test /absolute/path/of/libdevrt_mybackend.so
//   linked_in_test

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_plugin_helper.h"
#include "devrt/devrt.h"

#ifdef LINKED_IN
DEVRT_STATIC_PLUGIN(mybackend);
#endif

namespace {

absl::StatusOr<devrt::Backend> OpenBackend(int argc, char** argv) {
#ifdef LINKED_IN
  if (argc != 1) return absl::InvalidArgumentError(argv[1]);
  DEVRT_RETURN_IF_ERROR(devrt::RegisterBackend(
      &devrt_plugin_manifest_v0_mybackend, &devrt_plugin_open_v0_mybackend));
  return devrt::GetBackend("mybackend");
#else
  if (argc == 2) return devrt::LoadBackend(argv[1]);
  return absl::InvalidArgumentError("usage: plugin_test PLUGIN");
#endif
}

// Fills on one stream, reads on another, ordered by an event.
absl::Status Use(devrt::Device device) {
  constexpr uint64_t kBytes = 1 << 20;
  DEVRT_ASSIGN_OR_RETURN(devrt::DeviceProperties p, device.Properties());
  std::printf("%s: %s\n", device.name().c_str(), p.name.c_str());
  DEVRT_ASSIGN_OR_RETURN(devrt::MemoryInfo before, device.GetMemoryInfo());
  DEVRT_ASSIGN_OR_RETURN(void* memory, devrt::Allocate(device, kBytes));
  DEVRT_ASSIGN_OR_RETURN(devrt::Stream filler, devrt::Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(devrt::Stream reader, devrt::Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(devrt::Event filled, devrt::Event::Create(device));
  DEVRT_RETURN_IF_ERROR(devrt::FillAsync(filler, memory, 42, kBytes));
  DEVRT_RETURN_IF_ERROR(filled.Record(filler));
  DEVRT_RETURN_IF_ERROR(reader.Wait(filled));
  std::vector<uint8_t> host(kBytes);
  DEVRT_RETURN_IF_ERROR(devrt::Copy(reader, host.data(), memory, kBytes));
  for (uint8_t byte : host) {
    if (byte != 42) return absl::DataLossError("the copy is not the fill");
  }
  DEVRT_RETURN_IF_ERROR(device.Synchronize());
  DEVRT_RETURN_IF_ERROR(devrt::Free(device, memory));
  DEVRT_ASSIGN_OR_RETURN(devrt::MemoryInfo after, device.GetMemoryInfo());
  return after.free_bytes == before.free_bytes
             ? absl::OkStatus()
             : absl::InternalError("freed memory is not free");
}

}  // namespace

int main(int argc, char** argv) {
  const absl::StatusOr<devrt::Backend> backend = OpenBackend(argc, argv);
  absl::Status status = backend.status();
  if (status.ok()) {
    for (devrt::Device device : backend->devices()) {
      if (status.ok()) status = Use(device);
    }
  }
  if (!status.ok()) {
    std::printf("%s\n", std::string(status.message()).c_str());
  }
  return status.ok() ? 0 : absl::IsUnimplemented(status) ? 77 : 1;
}
