// SPDX-License-Identifier: Apache-2.0
//
// Modules and launches: the CUDA plugin's images, whatever image is asked for.
#include <array>
#include <map>
#include <mutex>

#include "backends/gpu/backend.h"
#include "tests/fakes/hip_on_cuda/forward.h"

namespace devrt::gpu {

extern const KernelImage kProbeImage;
extern const KernelImage kElementwiseImage;
extern const KernelImage kReduceImage;

}  // namespace devrt::gpu

struct ihipModule_t {
  int device = 0;
};

namespace devrt::hip_on_cuda {
namespace {

// All images, loaded on the current device.
using Modules = std::array<CUmodule, 3>;

CUresult LoadAll(const Api& driver, Modules* modules) {
  size_t i = 0;
  for (const gpu::KernelImage* const image :
       {&gpu::kProbeImage, &gpu::kElementwiseImage, &gpu::kReduceImage}) {
    if (image->data == nullptr) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    const CUresult error = driver.LoadModule(image->data, &(*modules)[i++]);
    if (error != CUDA_SUCCESS) return error;
  }
  return CUDA_SUCCESS;
}

CUresult ModulesOf(const Api& driver, int device, Modules* modules) {
  static auto* const mutex = new std::mutex();
  static auto* const loaded = new std::map<int, Modules>();
  const std::lock_guard<std::mutex> lock(*mutex);
  const auto found = loaded->find(device);
  if (found != loaded->end()) {
    *modules = found->second;
    return CUDA_SUCCESS;
  }
  const CUresult error = LoadAll(driver, modules);
  if (error == CUDA_SUCCESS) (*loaded)[device] = *modules;
  return error;
}

}  // namespace
}  // namespace devrt::hip_on_cuda

using namespace devrt::hip_on_cuda;  // NOLINT: HIP's own names are global
using devrt::cuda::Api;

hipError_t hipModuleLoadData(hipModule_t* module, const void*) {
  return CallOnDevice([&](const Api& driver) {
    Modules modules;
    const CUresult error = ModulesOf(driver, CurrentDevice(), &modules);
    if (error == CUDA_SUCCESS) *module = new ihipModule_t{CurrentDevice()};
    return error;
  });
}

hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module,
                                const char* name) {
  return Call([&](const Api& driver) {
    const Scope scope(driver, module->device);
    Modules modules;
    CUresult error = scope.error();
    if (error == CUDA_SUCCESS) {
      error = ModulesOf(driver, module->device, &modules);
    }
    if (error != CUDA_SUCCESS) return error;
    for (const CUmodule mine : modules) {
      error = driver.LoadFunction(mine, name,
                                  reinterpret_cast<CUfunction*>(function));
      if (error != CUDA_ERROR_NOT_FOUND) break;
    }
    return error;
  });
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x,
                                 unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y,
                                 unsigned block_z, unsigned shared_bytes,
                                 hipStream_t stream, void** arguments,
                                 void** extra) {
  return CallOn(stream, [&](const Api& driver, CUstream native) {
    if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 ||
        shared_bytes != 0 || extra != nullptr) {
      return CUDA_ERROR_NOT_SUPPORTED;  // devrt launches along one axis
    }
    return driver.Launch(reinterpret_cast<CUfunction>(function), grid_x,
                         block_x, native, arguments);
  });
}
