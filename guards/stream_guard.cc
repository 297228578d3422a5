// SPDX-License-Identifier: Apache-2.0

#include "devrt/guards/stream_guard.h"

#include "absl/strings/str_cat.h"
#include "devrt/guards/internal/depth.h"
#include "devrt/runtime/internal/records.h"
#include "devrt/runtime/log.h"
#include "devrt/streams/internal/stream_record.h"
#include "devrt/streams/internal/thread_streams.h"

namespace devrt {

using internal::DeviceRecord;
using internal::StreamRecord;
using internal::StreamSlot;

namespace {

bool IsUsable(StreamRef stream) {
  StreamRecord* record = stream.record();
  return ABSL_PREDICT_TRUE(
      record != nullptr &&
      record->serial.load(std::memory_order_acquire) == stream.serial() &&
      internal::IsOpen(record->device));
}

}  // namespace

StreamGuard::StreamGuard(StreamRef stream) noexcept
    : stream_(stream), previous_stream_(stream), depth_(0) {
  if (ABSL_PREDICT_FALSE(!IsUsable(stream))) return;
  DeviceRecord* device = stream.record()->device;
  devrt_status error =
      device->ops->context_enter(device->self, device->ordinal, &previous_);
  if (ABSL_PREDICT_FALSE(error != nullptr)) {
    absl::Status status = internal::TakeError(device, error, "StreamGuard");
    DEVRT_LOG(kError, std::string_view(status.message().data(),
                                       status.message().size()));
    return;
  }
  StreamSlot* slot = internal::SlotOf(device);
  previous_stream_ = StreamRef(slot->record, slot->serial);
  *slot = {stream.record(), stream.serial()};
  depth_ = internal::EnterGuard();
}

StreamGuard::~StreamGuard() {
  if (ABSL_PREDICT_FALSE(depth_ == 0)) return;
  internal::LeaveGuard("StreamGuard", depth_);
  DeviceRecord* device = stream_.record()->device;
  *internal::SlotOf(device) = {previous_stream_.record(),
                               previous_stream_.serial()};
  const uint32_t state = device->state.load(std::memory_order_acquire);
  if (ABSL_PREDICT_FALSE((state & ~internal::kQuarantined) != 0)) return;
  devrt_status error = device->ops->context_exit(device->self, &previous_);
  if (ABSL_PREDICT_FALSE(error != nullptr)) {
    (void)internal::TakeError(device, error, "StreamGuard");
  }
}

absl::Status StreamGuard::status() const {
  if (depth_ != 0) return absl::OkStatus();
  internal::StreamTarget target;
  absl::Status status =
      internal::LookAt(stream_, "StreamGuard", CallSite{}, &target);
  if (!status.ok()) return status;
  return absl::UnavailableError(
      absl::StrCat(stream_.device().name(),
                   " could not be made current; the log says why"));
}

}  // namespace devrt
