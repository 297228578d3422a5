// SPDX-License-Identifier: Apache-2.0
//
// Modules and launches: the kernels of backends/gpu/*.cu by their names.  The
// machine code in an image is not looked at.
#include <cstring>

#include "tests/fakes/common/kernel.h"
#include "tests/fakes/hip/driver.h"

struct ihipModule_t {
  int device = 0;
};

struct ihipModuleSymbol_t {
  int device = 0;
  devrt::fake::Kernel kernel;
};

namespace devrt::fake {
namespace {

constexpr unsigned kMostThreads = 1024;

Registry<ihipModule_t>& Modules() {
  static auto* const modules = new Registry<ihipModule_t>();
  return *modules;
}

Registry<ihipModuleSymbol_t>& Functions() {
  static auto* const functions = new Registry<ihipModuleSymbol_t>();
  return *functions;
}

// A bundle of code objects for several architectures, or one of them.
bool IsImage(const void* image) {
  const char* const bytes = static_cast<const char*>(image);
  for (const char* const magic : {"__CLANG_OFFLOAD_BUNDLE__",
                                  "\x7f"
                                  "ELF"}) {
    if (std::strncmp(bytes, magic, std::strlen(magic)) == 0) return true;
  }
  return false;
}

}  // namespace
}  // namespace devrt::fake

using namespace devrt::fake;  // NOLINT: the driver's own names are global

hipError_t hipModuleLoadData(hipModule_t* module, const void* image) {
  return Call("hipModuleLoadData", kDeviceCall, [&] {
    if (!IsImage(image)) return hipErrorInvalidImage;
    *module = new ihipModule_t{UseCurrentDevice()};  // for ever, as devrt's are
    Modules().Add(*module);
    return hipSuccess;
  });
}

hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module,
                                const char* name) {
  return Call("hipModuleGetFunction", kDeviceCall, [&] {
    Modules().Check(module, "hipModuleGetFunction", "module");
    const Kernel* const kernel = FindKernel(name);
    if (kernel == nullptr) return hipErrorNotFound;
    *function = new ihipModuleSymbol_t{module->device, *kernel};
    Functions().Add(*function);
    return hipSuccess;
  });
}

hipError_t hipFuncGetAttribute(int* value, hipFunction_attribute attribute,
                               hipFunction_t function) {
  return Call("hipFuncGetAttribute", kDeviceCall, [&] {
    Functions().Check(function, "hipFuncGetAttribute", "function");
    if (attribute != HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES) {
      Die("hipFuncGetAttribute: attribute %d is not known here", attribute);
    }
    *value = 0;
    return hipSuccess;
  });
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x,
                                 unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y,
                                 unsigned block_z, unsigned shared_bytes,
                                 hipStream_t stream, void** arguments,
                                 void** extra) {
  return Call("hipModuleLaunchKernel", kDeviceCall, [&] {
    Functions().Check(function, "hipModuleLaunchKernel", "function");
    Target target;
    const hipError_t error = Resolve("hipModuleLaunchKernel", stream, &target);
    if (error != hipSuccess) return error;
    if (function->device != target.device) return hipErrorInvalidHandle;
    if (Has(kC15NeedsDevice) && target.device != CurrentDevice()) {
      return hipErrorInvalidHandle;
    }
    const unsigned long long threads = 1ull * block_x * block_y * block_z;
    if (grid_x == 0 || grid_y == 0 || grid_z == 0 || threads == 0 ||
        threads > kMostThreads) {
      return hipErrorInvalidValue;
    }
    if (shared_bytes != 0 || extra != nullptr || arguments == nullptr) {
      Die("hipModuleLaunchKernel: only arguments by address are known here");
    }
    if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1) {
      Die("hipModuleLaunchKernel: only one axis is known here");
    }
    return Submit(target, [&] {
      return function->kernel.launch(target, {grid_x, block_x}, arguments);
    });
  });
}
