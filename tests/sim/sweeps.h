// SPDX-License-Identifier: Apache-2.0
//
// For tests of FaultSweep: a process with the layer, and a body without a
// mistake.

#ifndef DEVRT_TESTS_SIM_SWEEPS_H_
#define DEVRT_TESTS_SIM_SWEEPS_H_

#include <stdlib.h>

#include <cstdint>
#include <utility>

#include "devrt/devrt.h"
#include "devrt/sim/faults.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"

namespace devrt::testing {

// Entry points that mtia lacks and cuda has: fault_sweep_cuda_test.cc sweeps
// them.
inline constexpr const char* kSweptOnCuda[] = {
    "event_ipc.event_export",      "event_ipc.event_open",
    "capture.stream_is_capturing", "capture.stream_capture_id",
    "capture.capture_retain",
};

template <typename Function>
void InSweep(Function function) {
  InChild([&] {
    setenv("DEVRT_LOG", "off", 1);
    EXPECT_OK(sim::EnableFaults());
    function();
  });
}

// Memory that ends with the object, behind the last use.
class Memory {
 public:
  static absl::StatusOr<Memory> Create(Device device, uint64_t size) {
    DEVRT_ASSIGN_OR_RETURN(void* const ptr, Allocate(device, size));
    return Memory(device, ptr);
  }
  Memory(Memory&& other) noexcept
      : device_(other.device_), ptr_(std::exchange(other.ptr_, nullptr)) {}
  Memory& operator=(Memory&&) = delete;
  ~Memory() {
    if (ptr_ == nullptr) return;
    // Work may be pending, if a call behind its submission has failed.
    if (!device_.Synchronize().ok()) device_.Synchronize().IgnoreError();
    // A failed free has freed nothing.
    if (!Free(device_, ptr_).ok()) Free(device_, ptr_).IgnoreError();
  }
  void* ptr() const { return ptr_; }

 private:
  Memory(Device device, void* ptr) : device_(device), ptr_(ptr) {}
  Device device_;
  void* ptr_;
};

// Fills memory on one stream, and copies it to the host on another.
inline absl::Status RightBody() {
  DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice("mtia:0"));
  DEVRT_ASSIGN_OR_RETURN(const Stream a, Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(const Stream b, Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(const Event filled, Event::Create(device));
  DEVRT_ASSIGN_OR_RETURN(const Memory memory, Memory::Create(device, 4));
  DEVRT_RETURN_IF_ERROR(FillAsync(a, memory.ptr(), 3, 4));
  DEVRT_RETURN_IF_ERROR(filled.Record(a));
  DEVRT_RETURN_IF_ERROR(b.Wait(filled));
  char host[4] = {};
  const absl::Status copied = CopyAsync(b, host, memory.ptr(), 4);
  // A copy that failed late may run.
  const absl::Status waited = b.Synchronize();
  DEVRT_RETURN_IF_ERROR(copied);
  DEVRT_RETURN_IF_ERROR(waited);
  return host[3] == 3 ? absl::OkStatus()
                      : absl::InternalError("the copy has other bytes");
}

// Use libdevrt_collectives, on two devices (fault_sweep_collectives.cc).
absl::Status UseCollectives();
absl::Status UseFailedCommunicator();
absl::Status UseAbort();

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_SIM_SWEEPS_H_
