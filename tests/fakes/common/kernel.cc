// SPDX-License-Identifier: Apache-2.0
//
// The kernels of backends/gpu/probe.cu, and one that does nothing.
#include "tests/fakes/common/kernel.h"

#include <cstring>

#include "tests/fakes/common/flags.h"
#include "tests/fakes/common/options.h"
#include "tests/fakes/common/simulator.h"

namespace devrt::fake {
namespace {

template <typename T>
T Argument(void** arguments, int index) {
  T value;
  std::memcpy(&value, arguments[index], sizeof value);
  return value;
}

int LaunchFault(const Work& work, void** arguments) {
  const auto form = Argument<uint32_t>(arguments, 0);
  const auto address = Argument<uint64_t>(arguments, 1);
  if (form == DEVRT_FAULT_NULL_WRITE && address != 0) {
    Die("devrt_fault writes to 0x%llx, which is not simulated",
        static_cast<unsigned long long>(address));
  }
  return engine::Probe<&devrt_probe_v0::fault>(work.sim, form);
}

// Each in one thread.
constexpr Kernel kProbeKernels[] = {
    {"devrt_spin",
     [](const Work& work, const Grid&, void** arguments) {
       return engine::Probe<&devrt_probe_v0::spin>(
           work.sim, Argument<uint64_t>(arguments, 0));
     }},
    {"devrt_wait",
     [](const Work& work, const Grid&, void** arguments) {
       return WaitForWord(work, Argument<const uint32_t*>(arguments, 0),
                          Argument<uint64_t>(arguments, 1));
     }},
    {"devrt_set",
     [](const Work& work, const Grid&, void** arguments) {
       return SetWord(work, Argument<uint32_t*>(arguments, 0),
                      Argument<uint32_t>(arguments, 1));
     }},
    {"devrt_fault",
     [](const Work& work, const Grid&, void** arguments) {
       return LaunchFault(work, arguments);
     }},
    {"empty",
     [](const Work& work, const Grid&, void**) {
       return engine::Probe<&devrt_probe_v0::spin>(work.sim, uint64_t{0});
     },
     false},
};

}  // namespace

const Kernel* FindKernel(const char* name) {
  for (const Kernel& kernel : kProbeKernels) {
    if (std::strcmp(kernel.name, name) == 0) return &kernel;
  }
  return FindTensorKernel(name);
}

}  // namespace devrt::fake
