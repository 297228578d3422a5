// SPDX-License-Identifier: Apache-2.0
//
// A bit of everything that a device can do, for tests of what devrt leaves in
// the calling thread: its current device or context, its last error.
//
// Threads: the calling one. Errors are ignored, since the fakes make calls
// fail.

#ifndef DEVRT_TESTS_FAKES_COMMON_USE_EVERYTHING_H_
#define DEVRT_TESTS_FAKES_COMMON_USE_EVERYTHING_H_

#include <cstdint>
#include <vector>

#include "devrt/devrt.h"

namespace devrt::test {

// Some of everything; what fails is not the question.
inline void UseEverything(Device device, Device peer) {
  constexpr uint64_t kBytes = 4096;
  std::vector<char> host(kBytes);
  (void)device.GetMemoryInfo();
  auto memory = Allocate(device, kBytes);
  auto pinned = AllocateHost(device, kBytes);
  if (RegisterHost(device, host.data(), kBytes).ok()) {
    (void)UnregisterHost(device, host.data());
  }
  (void)GetPointerInfo(host.data());
  if (memory.ok()) (void)GetPointerInfo(*memory);
  auto stream = Stream::Create(device, {0, true});
  auto event = Event::Create(device);
  if (stream.ok() && event.ok() && memory.ok()) {
    (void)FillAsync(*stream, *memory, 1, kBytes);
    (void)event->Record(*stream);
    (void)stream->Wait(*event);
    (void)stream->Query();
    (void)stream->Synchronize();
    (void)FillAsync(DefaultStream(device), *memory, 1, kBytes);
  }
  if (EnablePeerAccess(device, peer).ok()) {
    (void)DisablePeerAccess(device, peer);
  }
  (void)device.Synchronize();
  if (pinned.ok()) (void)FreeHost(*pinned);
  if (memory.ok()) (void)Free(device, *memory);
  const DeviceGuard guard(device);
}

}  // namespace devrt::test

#endif  // DEVRT_TESTS_FAKES_COMMON_USE_EVERYTHING_H_
