// SPDX-License-Identifier: Apache-2.0
//
// The raw driver, beside which cuda's rows are measured.

#ifndef DEVRT_BENCH_CUDA_DRIVER_H_
#define DEVRT_BENCH_CUDA_DRIVER_H_

#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace bench {

// The driver's function of that name, as the header declares it; null if there
// is none.
template <typename Function>
Function FindIfAny(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* const found = library != nullptr ? dlsym(library, name) : nullptr;
  return reinterpret_cast<Function>(found);
}
template <typename Function>
Function Find(const char* name) {
  const Function found = FindIfAny<Function>(name);
  if (found != nullptr) return found;
  std::fprintf(stderr, "no %s in libcuda.so.1\n", name);
  std::exit(1);
}
#define DRIVER_TEXT_(name) #name
#define DRIVER_TEXT(name) DRIVER_TEXT_(name)
// The macros of cuda.h give the versioned name.
#define DRIVER(name) ::bench::Find<decltype(&::name)>(DRIVER_TEXT(name))
#define DRIVER_IF_ANY(name) \
  ::bench::FindIfAny<decltype(&::name)>(DRIVER_TEXT(name))

inline void Raw(CUresult error) {
  if (error == CUDA_SUCCESS) return;
  std::fprintf(stderr, "CUDA error %d\n", error);
  std::exit(1);
}

// Device contexts as devrt and every runtime library use them.
inline CUcontext Context(int index) {
  CUdevice device;
  CUcontext context;
  Raw(DRIVER(cuInit)(0));
  Raw(DRIVER(cuDeviceGet)(&device, index));
  Raw(DRIVER(cuDevicePrimaryCtxRetain)(&context, device));
  return context;
}

inline CUstream RawStream() {
  Raw(DRIVER(cuCtxSetCurrent)(Context(0)));
  CUstream stream;
  Raw(DRIVER(cuStreamCreateWithPriority)(&stream, CU_STREAM_NON_BLOCKING, 0));
  return stream;
}

}  // namespace bench

#endif  // DEVRT_BENCH_CUDA_DRIVER_H_
