// SPDX-License-Identifier: Apache-2.0
//
// A library of somebody's that uses devrt: linked with libdevrt.so, or with
// devrt and mtia inside it.

#include <cstdio>

#include "devrt/devrt.h"

#ifdef DEVRT_TEST_LINKED_IN
#include "devrt/backends/abi/devrt_plugin_helper.h"

DEVRT_STATIC_PLUGIN(mtia);
#endif

namespace {

absl::Status UseDevrt() {
#ifdef DEVRT_TEST_LINKED_IN
  devrt::RegisterBackend(&devrt_plugin_manifest_v0_mtia,
                         &devrt_plugin_open_v0_mtia)
      .IgnoreError();  // the second use finds it registered
#endif
  DEVRT_ASSIGN_OR_RETURN(const devrt::Device device, devrt::GetDevice("mtia"));
  DEVRT_ASSIGN_OR_RETURN(const devrt::Stream stream,
                         devrt::Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(const devrt::StreamRef own,
                         devrt::PerThreadDefaultStream(device));
  // The simulator's threads, and a thread-local of memory/.
  DEVRT_RETURN_IF_ERROR(devrt::LaunchHostFunc(stream, [](absl::Status) {}));
  const devrt::StreamGuard on_stream(stream);
  const int64_t extent = 64;
  DEVRT_RETURN_IF_ERROR(
      devrt::Array::Full({&extent, 1}, devrt::kFloat32, 1.0, device).status());
  // The background thread looks after what is pending.
  DEVRT_ASSIGN_OR_RETURN(void* const pinned,
                         devrt::AllocatePinned(device, 4096));
  DEVRT_RETURN_IF_ERROR(devrt::RecordPinnedUse(pinned, stream));
  DEVRT_RETURN_IF_ERROR(devrt::FreePinned(pinned));
  DEVRT_RETURN_IF_ERROR(own.Synchronize());
  return device.Synchronize();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int devrt_test_use();

int devrt_test_use() {
  const absl::Status status = UseDevrt();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
