// SPDX-License-Identifier: Apache-2.0
//
// Modules and launches: the CUDA plugin's images, whatever image is asked for.
#include <array>
#include <map>
#include <mutex>

#include "backends/gpu/kernel_image.h"
#include "tests/fakes/hip_on_cuda/forward.h"

struct ihipModule_t {
  int device = 0;
};

namespace devrt::hip_on_cuda {
namespace {

constexpr std::array<const gpu::KernelImage*, 6> kImages = {
    &gpu::kProbeImage, &gpu::kElementwiseImage, &gpu::kRowsImage,
    &gpu::kCastImage,  &gpu::kReduceImage,      &gpu::kColumnsImage};

// The images that a device has loaded. An image is loaded when a program
// requests a function that the images before it lack, because the driver may
// have to compile the image.
using Modules = std::array<CUmodule, kImages.size()>;

// From the first image that has it, on the current device.
CUresult FindFunction(const Api& driver, int device, const char* name,
                      CUfunction* function) {
  static auto* const mutex = new std::mutex();
  static auto* const loaded = new std::map<int, Modules>();
  const std::lock_guard<std::mutex> lock(*mutex);
  Modules& modules = (*loaded)[device];
  CUresult error = CUDA_ERROR_NOT_FOUND;
  for (size_t i = 0; i < kImages.size() && error == CUDA_ERROR_NOT_FOUND; ++i) {
    if (modules[i] == nullptr) {
      const CUresult failed = driver.LoadModule(kImages[i]->data, &modules[i]);
      if (failed != CUDA_SUCCESS) return failed;
    }
    error = driver.LoadFunction(modules[i], name, function);
  }
  return error;
}

}  // namespace
}  // namespace devrt::hip_on_cuda

using namespace devrt::hip_on_cuda;  // NOLINT: HIP's own names are global
using devrt::cuda::Api;

hipError_t hipModuleLoadData(hipModule_t* module, const void*) {
  return CallOnDevice([&](const Api&) {
    if (kImages[0]->data == nullptr) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    *module = new ihipModule_t{CurrentDevice()};
    return CUDA_SUCCESS;
  });
}

hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module,
                                const char* name) {
  return Call([&](const Api& driver) {
    const Scope scope(driver, module->device);
    if (scope.error() != CUDA_SUCCESS) return scope.error();
    return FindFunction(driver, module->device, name,
                        reinterpret_cast<CUfunction*>(function));
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
