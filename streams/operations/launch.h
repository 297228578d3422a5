// SPDX-License-Identifier: Apache-2.0
//
// Launch: a kernel of the program, with the memory that it touches.
//
//   absl::Status Scale(devrt::StreamRef s, float* x, size_t n, float f) {
//     return devrt::Launch(s, {devrt::ReadWrite(x, n * sizeof(float))},
//                          [=](const devrt::LaunchContext& k) {
//       if (k.on_host()) {                       // mtia: this is the kernel
//         float* p = k.Local(x, n);
//         for (size_t i = 0; p != nullptr && i < n; ++i) p[i] *= f;
//       } else {                                 // cuda, hip: enqueue it
//         LaunchScaleKernel(k.native_stream(), x, n, f);
//       }
//     });
//   }
//
// On a backend whose device is the CPU (mtia) the function is the kernel.  It
// runs later, in stream order, and uses device pointers only through Local().
// On other backends the function runs at once, with the stream's device
// current, and enqueues on native_stream().
//
// The backend uses the declared accesses for race detection; mtia also uses
// them for copies that make overlapping kernels visible.  A touch of memory
// that is not declared is an error if the backend can tell.  A declared access
// to a freed block is INVALID_ARGUMENT on mtia.  A launch without any access
// may touch all memory.
//
// The function may return void or absl::Status.  If the function runs at once,
// Launch returns its status.  On mtia a status that is not OK, an exception and
// pthread_exit are device-side assertions.
//
// Ownership: the function object is moved, and is destroyed after it ran, never
// inside a host function.

#ifndef DEVRT_STREAMS_OPERATIONS_LAUNCH_H_
#define DEVRT_STREAMS_OPERATIONS_LAUNCH_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_launch.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/access.h"
#include "devrt/streams/stream.h"

namespace devrt {

// What reports and the simulator know of a kernel.
struct LaunchOptions {
  const char* name = "kernel";  // in reports and timelines; copied
  uint64_t duration_ns = 0;     // simulated; 0: estimated from the accesses
};

// What the function of a Launch gets.  Valid while the function runs.
class DEVRT_EXPORT LaunchContext {
 public:
  // The device of the stream.
  Device device() const { return device_; }
  // Returns true if the function itself is the kernel.
  bool on_host() const { return kernel_ != nullptr; }
  // The native stream to enqueue on; nullptr if on_host().
  void* native_stream() const { return native_; }

  // The address by which this kernel may touch `ptr[0, count)`: to read for a
  // pointer to const, else to write, and to read as well if an access of the
  // launch is ReadWrite or none is declared.  nullptr, and a sticky fault after
  // the function, if the device may not access that memory, or the accesses do
  // not cover it.  `ptr` itself if the function is not the kernel.
  template <typename T>
  T* Local(T* ptr, size_t count = 1) const {
    return static_cast<T*>(const_cast<void*>(LocalBytes(
        ptr, count <= SIZE_MAX / sizeof(T) ? count * sizeof(T) : UINT64_MAX,
        std::is_const_v<T> ? DEVRT_ACCESS_READ
                           : DEVRT_ACCESS_READ | DEVRT_ACCESS_WRITE)));
  }
  // A device-side assertion, sticky when the function ends.  Only if on_host().
  void Fail(std::string_view text) const;

  // For devrt's own code:
  LaunchContext(Device device, const devrt_kernel_context_v0* kernel,
                void* native)
      : device_(device), kernel_(kernel), native_(native) {}

 private:
  const void* LocalBytes(const void* ptr, uint64_t bytes, uint32_t mode) const;
  Device device_;
  const devrt_kernel_context_v0* kernel_;
  void* native_;
};

namespace internal {

// The function with its type erased.  The launch owns it.
class LaunchBody {
 public:
  virtual ~LaunchBody() = default;
  virtual absl::Status Run(const LaunchContext& context) = 0;
};

template <typename F>
class LaunchBodyOf final : public LaunchBody {
 public:
  explicit LaunchBodyOf(F f) : f_(std::move(f)) {}
  absl::Status Run(const LaunchContext& context) override {
    if constexpr (std::is_void_v<
                      std::invoke_result_t<F&, const LaunchContext&>>) {
      f_(context);
      return absl::OkStatus();
    } else {
      return f_(context);
    }
  }

 private:
  F f_;
};

DEVRT_EXPORT absl::Status LaunchErased(StreamRef stream, const Access* accesses,
                                       size_t count,
                                       std::unique_ptr<LaunchBody> body,
                                       const LaunchOptions& options,
                                       CallSite site);

}  // namespace internal

// Runs `function` as a kernel of `stream` that touches `accesses`.  Returns the
// status of the function if the function runs at once.
template <typename F>
absl::Status Launch(StreamRef stream, std::initializer_list<Access> accesses,
                    F function, LaunchOptions options = {},
                    CallSite site = CallSite::Here()) {
  return internal::LaunchErased(
      stream, accesses.begin(), accesses.size(),
      std::make_unique<internal::LaunchBodyOf<F>>(std::move(function)), options,
      site);
}

}  // namespace devrt

#endif  // DEVRT_STREAMS_OPERATIONS_LAUNCH_H_
