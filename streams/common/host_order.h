// SPDX-License-Identifier: Apache-2.0
//
// HostOrder: what devrt tells a race detector about the order of host threads
// (devrt_race.h).
//
//   if (HasExactHostOrder()) TellRelease(object);    before an unlock
//   if (HasExactHostOrder()) TellAcquire(object);    after a lock
//
// Cost: one load while no detector orders host threads exactly.
// Threads: any.  The functions take no lock of devrt.

#ifndef DEVRT_STREAMS_COMMON_HOST_ORDER_H_
#define DEVRT_STREAMS_COMMON_HOST_ORDER_H_

#include <atomic>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_race.h"
#include "runtime/registry/records.h"
#include "streams/common/extension.h"

namespace devrt::internal {

extern std::atomic<bool> g_has_exact_host_order;

inline bool HasExactHostOrder() {
  return ABSL_PREDICT_FALSE(
      g_has_exact_host_order.load(std::memory_order_relaxed));
}

// The device's backend has the detector `race`, which serves all backends.
// Called before work of the device.
void AttachDetector(DeviceRecord* device,
                    const ExtensionOf<devrt_race_v0>& race);

// Asks the detector that is attached, or will be, for call stacks in reports.
void WantStacks();

// Chooses the order of the detector that is attached, or will be.
absl::Status SetHostOrder(bool is_exact);
// Returns true if the exact order is chosen, which may be before there is a
// detector.
bool IsExactChosen();

// The functions below do nothing without a detector.
void TellRelease(const void* object);
void TellAcquire(const void* object);
void TellForget(const void* object);
// devrt has left out a wait of the calling thread, because the work is known to
// be complete.
void TellKnownOrderToHost();
// devrt itself records the event and waits for it.
void TellOwnEvent(devrt_event event);

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_COMMON_HOST_ORDER_H_
