// SPDX-License-Identifier: Apache-2.0
//
// CUDA's driver, as another library in the process uses it: by dlopen, so that
// a program also starts on machines without the driver.
//
//   CUcontext context = nullptr;
//   DRIVER_OK(DRIVER_CALL(cuCtxGetCurrent)(&context));

#ifndef DEVRT_TESTS_HARDWARE_DRIVER_H_
#define DEVRT_TESTS_HARDWARE_DRIVER_H_

#include <cuda.h>
#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace devrt::hardware {

inline void* DriverSymbol(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* const symbol = library != nullptr ? dlsym(library, name) : nullptr;
  if (symbol == nullptr) {
    throw std::runtime_error(std::string("libcuda.so.1 has no ") + name);
  }
  return symbol;
}

inline void CheckDriver(CUresult error, const char* call) {
  if (error == CUDA_SUCCESS) return;
  throw std::runtime_error(std::string(call) + ": CUDA error " +
                           std::to_string(static_cast<int>(error)));
}

// cuda.h's macros make the versioned name of it.
#define DRIVER_TEXT_INNER_(name) #name
#define DRIVER_TEXT_(name) DRIVER_TEXT_INNER_(name)
#define DRIVER_CALL(name)               \
  (reinterpret_cast<decltype(&::name)>( \
      ::devrt::hardware::DriverSymbol(DRIVER_TEXT_(name))))
#define DRIVER_OK(call) ::devrt::hardware::CheckDriver((call), #call)

inline CUcontext CurrentContext() {
  CUcontext context = nullptr;
  DRIVER_OK(DRIVER_CALL(cuCtxGetCurrent)(&context));
  return context;
}

inline bool HasPrimaryContext(int ordinal) {
  CUdevice device = 0;
  unsigned flags = 0;
  int active = 0;
  DRIVER_OK(DRIVER_CALL(cuDeviceGet)(&device, ordinal));
  DRIVER_OK(DRIVER_CALL(cuDevicePrimaryCtxGetState)(device, &flags, &active));
  return active != 0;
}

// Makes a new context of the device, and makes the context current.
inline CUcontext NewContext(int ordinal) {
  CUcontext context = nullptr;
  CUdevice device = 0;
  DRIVER_OK(DRIVER_CALL(cuDeviceGet)(&device, ordinal));
#if CUDA_VERSION >= 13000
  DRIVER_OK(DRIVER_CALL(cuCtxCreate)(&context, nullptr, 0, device));
#else
  DRIVER_OK(DRIVER_CALL(cuCtxCreate)(&context, 0, device));
#endif
  return context;
}

}  // namespace devrt::hardware

#endif  // DEVRT_TESTS_HARDWARE_DRIVER_H_
