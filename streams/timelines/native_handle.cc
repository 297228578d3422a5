// SPDX-License-Identifier: Apache-2.0

#include "streams/timelines/native_handle.h"

#include "absl/strings/str_cat.h"
#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/status.h"
#include "streams/common/capture_extension.h"
#include "streams/common/deferred_deletion.h"

namespace devrt::internal {

void NativeHandle::Attach(devrt_stream handle, const void* thread,
                          bool may_be_destroyed, bool exposed) {
  handle_.store(handle, std::memory_order_relaxed);
  may_capture_.store(exposed ? kExposed : 0, std::memory_order_relaxed);
  may_be_destroyed_.store(may_be_destroyed, std::memory_order_relaxed);
  thread_.store(thread, std::memory_order_relaxed);
  state_.fetch_or(kLive, std::memory_order_release);
}

bool NativeHandle::Detach(bool destroy) {
  uint32_t state = state_.load(std::memory_order_relaxed);
  uint32_t left;
  do {
    left = state & ~kLive;
    // Forget has left the native stream to the device.
    if (left != 0 && destroy && (state & kLive) != 0) left |= kDestroy;
  } while (!state_.compare_exchange_weak(state, left, std::memory_order_acq_rel,
                                         std::memory_order_relaxed));
  return left == 0;
}

// The timeline serves no other stream while this thread counts as a borrower,
// so the handle is that of the stream that ended.
void NativeHandle::ReturnAndDestroy() {
  const devrt_stream handle = handle_.load(std::memory_order_relaxed);
  state_.store(0, std::memory_order_release);
  if (!TakesHandlesBack(device_)) return;
  RunOutsideHostFunction([device = device_, handle] {
    (void)FromPlugin(device, device->ops->stream_destroy(device->self, handle),
                     "stream destruction");
  });
}

bool NativeHandle::IsReachable() const {
  if (!IsValidOnThisThread() || MayBeDestroyed()) return false;
  return (state_.load(std::memory_order_acquire) & kLive) != 0;
}

absl::StatusOr<bool> NativeHandle::QueryCapture(devrt_stream handle) const {
  if (!MayCapture()) return false;
  return IsStreamCapturing(device_, *capture_, handle);
}

absl::StatusOr<bool> NativeHandle::IsCaptured() {
  if (!MayCapture() || MayBeDestroyed() || !IsValidOnThisThread()) return false;
  const devrt_stream handle = Borrow();
  if (handle == nullptr) return false;
  const absl::StatusOr<bool> captured = QueryCapture(handle);
  Return();
  return captured;
}

absl::Status NativeHandle::CheckNoCapture(devrt_stream handle) const {
  DEVRT_ASSIGN_OR_RETURN(const bool captured, QueryCapture(handle));
  if (!captured) return absl::OkStatus();
  return CaptureError(absl::StrCat(
      "a stream of ", DeviceName(device_),
      " is capturing, and nothing can wait for what it was given before: order "
      "others after it, or synchronise, before the capture begins"));
}

}  // namespace devrt::internal
