// SPDX-License-Identifier: Apache-2.0
//
// The simulator below the fake driver, through its C table.
//
//   CUresult error = Sim<&devrt_ops_v0::stream_sync>(target.sim);

#ifndef DEVRT_TESTS_FAKES_CUDA_SIMULATOR_H_
#define DEVRT_TESTS_FAKES_CUDA_SIMULATOR_H_

#include <cuda.h>

#include <functional>

#include "devrt/backends/abi/devrt_launch.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_probe.h"

namespace devrt::fake {

struct Simulator {
  void* self = nullptr;
  const devrt_ops_v0* ops = nullptr;
  const devrt_probe_v0* probe = nullptr;
  const devrt_launch_v0* launch = nullptr;
};

// Opened at the first call, by whoever calls cuInit.
const Simulator& TheSimulator();

// Whether its clock is not the real one.
bool IsVirtual();

// Ends the status.  A fault of a device becomes the process's.
CUresult Translate(devrt_status status);

template <auto kSlot, typename... Args>
CUresult Sim(Args... args) {
  const Simulator& sim = TheSimulator();
  return Translate((sim.ops->*kSlot)(sim.self, args...));
}

template <auto kSlot, typename... Args>
CUresult Probe(Args... args) {
  const Simulator& sim = TheSimulator();
  return Translate((sim.probe->*kSlot)(sim.self, args...));
}

// A kernel that runs `body` on the device's view of memory.
using KernelBody = std::function<void(const devrt_kernel_context_v0& context)>;
CUresult LaunchBody(devrt_stream stream, const char* name, KernelBody body);

// What is known of a pointer; kind UNREGISTERED without an error.
devrt_pointer_info_v0 LookUp(const void* ptr);

}  // namespace devrt::fake

#endif  // DEVRT_TESTS_FAKES_CUDA_SIMULATOR_H_
