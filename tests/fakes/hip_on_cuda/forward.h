// SPDX-License-Identifier: Apache-2.0
//
// A libamdhip64.so that forwards to CUDA's driver, so that the HIP plugin runs
// on a machine with NVIDIA GPUs only.  It shows that the plugin works on a GPU,
// but not that it works on GPUs of AMD.  Not installed.
//
//   LD_LIBRARY_PATH=<build>/tests/fakes/hip_on_cuda devrt list
//
// Streams and events are the driver's own; a thread's device is this library's,
// and no context is current behind a call that was not before it, so that
// CUDA's users in the process see nothing of it.  A module's machine code is
// for other processors: its functions are those of the CUDA plugin's images by
// the same name.  CUDA_VISIBLE_DEVICES chooses devices, HIP's variables do not.

#ifndef DEVRT_TESTS_FAKES_HIP_ON_CUDA_FORWARD_H_
#define DEVRT_TESTS_FAKES_HIP_ON_CUDA_FORWARD_H_

#include <cstdint>

#include "backends/cuda/api.h"
#include "tests/fakes/hip/errors.h"

namespace devrt::hip_on_cuda {

using cuda::Api;

// HIP's number for what the driver says.
hipError_t Translate(CUresult error);

// Initialises the driver; the driver's functions, or nullptr with a code.
const Api* Driver(hipError_t* error);

// An entry point: body(driver) gives a CUresult.
template <typename Body>
hipError_t Call(const Body& body) {
  hipError_t error = hipSuccess;
  const Api* const driver = Driver(&error);
  if (driver != nullptr) error = Translate(body(*driver));
  return fake::RememberLast(error, false);
}

// ---- Devices ----------------------------------------------------------------

hipError_t CountDevices(int* count);
int CurrentDevice();
CUresult SetCurrentDevice(int device);
bool IsDevice(int device);
// Its primary context, retained at the first call.
CUresult ContextOf(const Api& driver, int device, CUcontext* context);
// The device that has this primary context; -1: none.
int DeviceOf(CUcontext context);

// The device's primary context is current until the end of the scope.
class Scope {
 public:
  Scope(const Api& driver, int device);
  ~Scope();
  Scope(const Scope&) = delete;
  CUresult error() const { return error_; }

 private:
  const Api& driver_;
  CUcontext previous_ = nullptr;
  bool switched_ = false;
  CUresult error_;
};

// An entry point that works on the thread's device.
template <typename Body>
hipError_t CallOnDevice(const Body& body) {
  return Call([&](const Api& driver) {
    const Scope scope(driver, CurrentDevice());
    return scope.error() != CUDA_SUCCESS ? scope.error() : body(driver);
  });
}

// ---- Streams ----------------------------------------------------------------

inline bool IsDefault(hipStream_t stream) {
  return stream == nullptr || stream == hipStreamPerThread;
}
inline CUstream StreamOf(hipStream_t stream) {
  if (stream == nullptr) return Api::LegacyStream();
  if (stream == hipStreamPerThread) return Api::PerThreadStream();
  return reinterpret_cast<CUstream>(stream);
}
inline CUevent EventOf(hipEvent_t event) {
  return reinterpret_cast<CUevent>(event);
}

// An entry point on a stream: body(driver, stream).  Default streams are the
// thread's device's.
template <typename Body>
hipError_t CallOn(hipStream_t stream, const Body& body) {
  const auto run = [&](const Api& driver) {
    return body(driver, StreamOf(stream));
  };
  return IsDefault(stream) ? CallOnDevice(run) : Call(run);
}

}  // namespace devrt::hip_on_cuda

#endif  // DEVRT_TESTS_FAKES_HIP_ON_CUDA_FORWARD_H_
