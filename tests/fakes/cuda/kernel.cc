// SPDX-License-Identifier: Apache-2.0
//
// Modules and launches: the kernels of backends/gpu/*.cu by their names, and of
// PTX a kernel `empty`.  The code in an image is not looked at.
#include "tests/fakes/common/kernel.h"

#include <cstring>

#include "tests/fakes/cuda/driver.h"

struct CUfunc_st {
  CUcontext context = nullptr;
  devrt::fake::Kernel kernel;
};

namespace devrt::fake {
namespace {

constexpr uint32_t kFatBinary = 0xba55ed50;
constexpr char kPtx[] = ".version";
constexpr unsigned kMostThreads = 1024;

}  // namespace
}  // namespace devrt::fake

struct CUmod_st {
  CUcontext context = nullptr;
};

namespace devrt::fake {
namespace {

Registry<CUmod_st>& Modules() {
  static auto* const modules = new Registry<CUmod_st>();
  return *modules;
}

Registry<CUfunc_st>& Functions() {
  static auto* const functions = new Registry<CUfunc_st>();
  return *functions;
}

}  // namespace
}  // namespace devrt::fake

using namespace devrt::fake;  // NOLINT: the driver's own names are global

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  CUcontext context = nullptr;
  CUresult error = Enter("cuModuleLoadData");
  if (error == CUDA_SUCCESS) error = NeedContext(&context);
  if (error != CUDA_SUCCESS) return error;
  uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  if (magic != kFatBinary && std::strncmp(static_cast<const char*>(image), kPtx,
                                          sizeof kPtx - 1) != 0) {
    return CUDA_ERROR_INVALID_IMAGE;
  }
  auto* const made = new CUmod_st();  // for ever, as devrt's are
  made->context = context;
  Modules().Add(made);
  *module = made;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module,
                             const char* name) {
  const CUresult error = Enter("cuModuleGetFunction");
  if (error != CUDA_SUCCESS) return error;
  Modules().Check(module, "cuModuleGetFunction", "module");
  const Kernel* const kernel = FindKernel(name);
  if (kernel == nullptr) return CUDA_ERROR_NOT_FOUND;
  *function = new CUfunc_st{module->context, *kernel};
  Functions().Add(*function);
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                            CUfunction function) {
  const CUresult error = Enter("cuFuncGetAttribute");
  if (error != CUDA_SUCCESS) return error;
  Functions().Check(function, "cuFuncGetAttribute", "function");
  if (attribute != CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES) {
    Die("cuFuncGetAttribute: attribute %d is not known here", attribute);
  }
  *value = 0;
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                        unsigned grid_z, unsigned block_x, unsigned block_y,
                        unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void** arguments, void** extra) {
  CUresult error = Enter("cuLaunchKernel");
  if (error != CUDA_SUCCESS) return error;
  Functions().Check(function, "cuLaunchKernel", "function");
  Target target;
  error = Resolve("cuLaunchKernel", stream, &target);
  if (error != CUDA_SUCCESS) return error;
  if (function->context != target.context) return CUDA_ERROR_INVALID_HANDLE;
  const unsigned long long threads = 1ull * block_x * block_y * block_z;
  if (grid_x == 0 || grid_y == 0 || grid_z == 0 || threads == 0 ||
      threads > kMostThreads) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool lacks_arguments =
      arguments == nullptr && function->kernel.has_arguments;
  if (shared_bytes != 0 || extra != nullptr || lacks_arguments) {
    Die("cuLaunchKernel: only arguments by address are known here");
  }
  if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1) {
    Die("cuLaunchKernel: only grids and blocks of one axis are known here");
  }
  return Submitted(target, static_cast<CUresult>(function->kernel.launch(
                               target, {grid_x, block_x}, arguments)));
}
