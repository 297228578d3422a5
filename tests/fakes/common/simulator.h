// SPDX-License-Identifier: Apache-2.0
//
// The simulator below a fake driver, through its C table.  What it gives back
// are the vendor's codes.
//
//   int error = engine::Sim<&devrt_ops_v0::stream_sync>(work.sim);

#ifndef DEVRT_TESTS_FAKES_COMMON_SIMULATOR_H_
#define DEVRT_TESTS_FAKES_COMMON_SIMULATOR_H_

#include <functional>

#include "devrt/backends/abi/devrt_launch.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_probe.h"

namespace devrt::fake::engine {

struct Simulator {
  void* self = nullptr;
  const devrt_ops_v0* ops = nullptr;
  const devrt_probe_v0* probe = nullptr;
  const devrt_launch_v0* launch = nullptr;
};

// Returns the simulator.  The first call, which initialises the driver, opens
// it.
const Simulator& TheSimulator();

// Returns true if the simulator's clock is virtual.
bool IsVirtual();

// Destroys the status and returns its code.  A fault of a device becomes a
// fault of the process.
int Translate(devrt_status status);

template <auto kSlot, typename... Args>
int Sim(Args... args) {
  const Simulator& sim = TheSimulator();
  return Translate((sim.ops->*kSlot)(sim.self, args...));
}

template <auto kSlot, typename... Args>
int Probe(Args... args) {
  const Simulator& sim = TheSimulator();
  return Translate((sim.probe->*kSlot)(sim.self, args...));
}

// A kernel that runs `body` on the device's view of memory.
using KernelBody = std::function<void(const devrt_kernel_context_v0& context)>;
int LaunchBody(devrt_stream stream, const char* name, KernelBody body);

// A fill that also takes pinned memory, which the simulator's does not.
int Fill(devrt_stream stream, void* ptr, uint8_t value, uint64_t size);

// Describes a pointer.  The kind of an unknown pointer is UNREGISTERED; that is
// no error.
devrt_pointer_info_v0 LookUp(const void* ptr);

devrt_device_props_v0 PropsOf(uint32_t sim_device);

// The default stream of that kind.
int DefaultStream(uint32_t sim_device, uint32_t kind, devrt_stream* stream);

}  // namespace devrt::fake::engine

#endif  // DEVRT_TESTS_FAKES_COMMON_SIMULATOR_H_
