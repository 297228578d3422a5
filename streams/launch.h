// SPDX-License-Identifier: Apache-2.0
//
// Launch: a user's own kernel, with the memory it touches declared.
//
//   absl::Status Scale(devrt::StreamRef s, float* x, size_t n, float f) {
//     return devrt::Launch(s, {devrt::ReadWrite(x, n * sizeof(float))},
//                          [=](const devrt::LaunchContext& k) {
//       if (k.on_host()) {                       // mtia: this is the kernel
//         float* p = k.Local(x, n);
//         for (size_t i = 0; i < n; ++i) p[i] *= f;
//       } else {                                 // cuda, hip: enqueue it
//         LaunchScaleKernel(k.native_stream(), x, n, f);
//       }
//     });
//   }
//
// On a backend whose device is the CPU (mtia) the function is the kernel: it
// runs later, in stream order, on the device's view of its memory, and touches
// device pointers only through Local().  On the others it runs at once, with
// the stream's device current, and enqueues on native_stream().
//
// The declared accesses feed race detection and, on mtia, the copies that make
// overlapping kernels visible; an access that is not declared is an error
// where the backend can tell.  One to a block that was freed is
// INVALID_ARGUMENT on mtia.  With no accesses at all, all memory is assumed.
//
// The function may return void or absl::Status.  A status that is not OK is
// returned by Launch where the function runs at once; on mtia it is a
// device-side assertion, as are an exception and pthread_exit.
//
// Ownership: the function object is moved and destroyed after it ran, never
// inside a host function.

#ifndef DEVRT_STREAMS_LAUNCH_H_
#define DEVRT_STREAMS_LAUNCH_H_

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
#include "devrt/streams/stream.h"

namespace devrt {

// A range of bytes that a kernel touches.
using Access = devrt_access_v0;

inline Access Read(const void* ptr, uint64_t bytes) {
  return Access{const_cast<void*>(ptr), bytes, DEVRT_ACCESS_READ, 0};
}
inline Access Write(void* ptr, uint64_t bytes) {
  return Access{ptr, bytes, DEVRT_ACCESS_WRITE, 0};
}
inline Access ReadWrite(void* ptr, uint64_t bytes) {
  return Access{ptr, bytes, DEVRT_ACCESS_READ | DEVRT_ACCESS_WRITE, 0};
}

struct LaunchOptions {
  const char* name = "kernel";  // in reports and timelines; copied
  uint64_t duration_ns = 0;     // simulated; 0: estimated from the accesses
};

// What the function of a Launch may ask.  Valid while it runs.
class DEVRT_EXPORT LaunchContext {
 public:
  Device device() const { return device_; }
  // True when the function itself is the kernel.
  bool on_host() const { return kernel_ != nullptr; }
  // Where to enqueue, while the function runs; nullptr when on_host().
  void* native_stream() const { return native_; }

  // Where this kernel may touch `ptr[0, count)`: to read for a pointer to
  // const, else to read and write.  nullptr, and a sticky fault after the
  // function, when the device may not access that memory.  Off the host: `ptr`.
  template <typename T>
  T* Local(T* ptr, size_t count = 1) const {
    return static_cast<T*>(const_cast<void*>(LocalBytes(
        ptr, count <= SIZE_MAX / sizeof(T) ? count * sizeof(T) : UINT64_MAX,
        std::is_const_v<T> ? DEVRT_ACCESS_READ
                           : DEVRT_ACCESS_READ | DEVRT_ACCESS_WRITE)));
  }
  // A device-side assertion (on_host() only): sticky when the function ends.
  void Fail(std::string_view text) const;

  // For devrt's own layers.
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

// The function with its type erased; owned by the launch.
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

#endif  // DEVRT_STREAMS_LAUNCH_H_
