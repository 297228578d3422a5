// SPDX-License-Identifier: Apache-2.0

#include "streams/timelines/native_handle.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/status.h"
#include "streams/common/capture_extension.h"
#include "streams/common/deferred_deletion.h"

namespace devrt::internal {

void NativeHandle::Attach(devrt_stream handle, const void* thread,
                          bool may_be_destroyed, bool exposed) {
  MutexLock lock(&mutex_);
  handle_ = handle;
  may_capture_.store(exposed ? kExposed : 0, std::memory_order_relaxed);
  may_be_destroyed_.store(may_be_destroyed, std::memory_order_relaxed);
  thread_.store(thread, std::memory_order_relaxed);
}

bool NativeHandle::Detach(bool destroy) {
  MutexLock lock(&mutex_);
  const devrt_stream handle = std::exchange(handle_, nullptr);
  if (borrowers_ == 0) return true;
  if (destroy) to_destroy_ = handle;
  return false;
}

void NativeHandle::Forget() {
  MutexLock lock(&mutex_);
  handle_ = nullptr;
}

void NativeHandle::Return() {
  devrt_stream destroy = nullptr;
  {
    MutexLock lock(&mutex_);
    if (--borrowers_ == 0) std::swap(destroy, to_destroy_);
  }
  if (destroy == nullptr || !TakesHandlesBack(device_)) return;
  RunOutsideHostFunction([device = device_, destroy] {
    (void)FromPlugin(device, device->ops->stream_destroy(device->self, destroy),
                     "stream destruction");
  });
}

bool NativeHandle::IsBorrowed() const {
  MutexLock lock(&mutex_);
  return borrowers_ != 0;
}

bool NativeHandle::IsReachable() const {
  if (!IsValidOnThisThread() || MayBeDestroyed()) return false;
  MutexLock lock(&mutex_);
  return handle_ != nullptr;
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
