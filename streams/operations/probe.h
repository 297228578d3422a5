// SPDX-License-Identifier: Apache-2.0
//
// Probes: kernels that keep a stream busy, for tests of order.
//
//   DEVRT_ASSIGN_OR_RETURN(devrt::Flag gate, devrt::Flag::Create(gpu));
//   DEVRT_RETURN_IF_ERROR(gate.WaitOn(s));     // s is busy from here on
//   assert(!*s.Query());
//   DEVRT_RETURN_IF_ERROR(gate.Set());         // s goes on
//
// UNIMPLEMENTED on a backend without the extension DEVRT_PROBE_EXTENSION.
// Threads: any.

#ifndef DEVRT_STREAMS_OPERATIONS_PROBE_H_
#define DEVRT_STREAMS_OPERATIONS_PROBE_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_probe.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt {

// Enqueues a kernel that runs for `nanoseconds` of the device's clock.
DEVRT_EXPORT absl::Status Spin(StreamRef stream, uint64_t nanoseconds,
                               CallSite site = CallSite::Here());

// What a kernel of CommitFault does.
enum class FaultForm : uint32_t {
  kNullWrite = DEVRT_FAULT_NULL_WRITE,
  kMisaligned = DEVRT_FAULT_MISALIGNED,
  kAssert = DEVRT_FAULT_ASSERT,
  kTrap = DEVRT_FAULT_TRAP,
};

// Enqueues a kernel that commits a fault: the device is lost after it.
// UNIMPLEMENTED if the backend cannot cause faults.
DEVRT_EXPORT absl::Status CommitFault(StreamRef stream, FaultForm form,
                                      CallSite site = CallSite::Here());

// A flag that kernels wait for; it is clear at first.  Destroy the flag after
// every kernel that uses it is complete.
class DEVRT_EXPORT Flag {
 public:
  // A new flag for kernels of `device`.
  static absl::StatusOr<Flag> Create(Device device);
  Flag(Flag&& other) noexcept
      : device_(other.device_), flag_(std::exchange(other.flag_, nullptr)) {}
  Flag& operator=(Flag&& other) noexcept;
  ~Flag();

  // Enqueues a kernel that ends when the flag is set, or after `timeout_ns` of
  // the device's clock; 0: without a limit.
  absl::Status WaitOn(StreamRef stream, uint64_t timeout_ns = 0,
                      CallSite site = CallSite::Here()) const;
  // Sets or clears the flag from the host, at once.  Host functions may call
  // both:
  absl::Status Set() const;
  absl::Status Clear() const;
  // Enqueues an operation that sets the flag.
  absl::Status SetOn(StreamRef stream, CallSite site = CallSite::Here()) const;

 private:
  Flag(Device device, devrt_flag flag) : device_(device), flag_(flag) {}
  absl::Status Store(uint32_t value) const;
  Device device_;
  devrt_flag flag_;
};

}  // namespace devrt

#endif  // DEVRT_STREAMS_OPERATIONS_PROBE_H_
