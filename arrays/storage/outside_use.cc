// SPDX-License-Identifier: Apache-2.0

#include "arrays/storage/outside_use.h"

#include "arrays/storage/release_rule.h"
#include "streams/captures/captures.h"
#include "streams/objects/may_capture.h"
#include "streams/objects/stream_record.h"

namespace devrt::internal {

// CheckStream without the cost of an error.
bool OutsideUse::Lives() const {
  const StreamRecord* const record = stream_.record();
  return record->serial.load(std::memory_order_acquire) == stream_.serial() &&
         IsOpen(record->device);
}

// An idle native stream may get another Stream, and a timeline with complete
// points only may get another native stream.
bool OutsideUse::IsAnothers() const {
  const StreamRecord* const record = stream_.record();
  const uint64_t serial = record->serial.load(std::memory_order_acquire);
  if (serial == stream_.serial()) return false;
  return !begin_.timeline->IsOfPresentStream(begin_.epoch) ||
         (serial != 0 && TimelineOf(stream_) == begin_.timeline);
}

bool OutsideUse::IsLost() const {
  return stream_.record()->kind == StreamKind::kExternal && !kept_ && !Lives();
}

// kUnknown if the backend cannot tell: then no event may be recorded either.
CaptureNumber OutsideUse::Capture() const {
  if (ABSL_PREDICT_TRUE(!MayBeCaptured(stream_))) return CaptureNumber::kNone;
  if (kept_ || stream_.record()->kind == StreamKind::kDefault) {
    return HoldCapture(stream_).value_or(CaptureNumber::kUnknown);
  }
  // The program may destroy the stream meanwhile.
  const HeldStream held(stream_, begin_.timeline);
  if (held.handle() == nullptr) return CaptureNumber::kNone;
  return HoldCapture(held).value_or(CaptureNumber::kUnknown);
}

std::optional<StorageUse> OutsideUse::UpToNow() const {
  Timeline* const timeline = begin_.timeline;
  // Constructed once for the caller, because the object is large.
  std::optional<StorageUse> use(std::in_place,
                                OrderPoint{timeline, timeline->Now()}, stream_);
  if (ABSL_PREDICT_TRUE(Lives())) {
    use->capture = Capture();
    return use;
  }
  if (IsAnothers()) {
    use.reset();
    return use;
  }
  if (kept_) use->capture = Capture();
  use->late = true;
  return use;
}

std::optional<StorageUse> UseOfUnknown(Device device,
                                       absl::FunctionRef<bool()> is_captured) {
  if (!IsOpen(device.record())) return std::nullopt;
  switch (GetReleaseRule()) {
    case ReleaseRule::kTrust:
      break;
    case ReleaseRule::kSync:
      // devrt cannot see captures of streams that it does not know (C82).
      if (!IsCapturing(CurrentStream(device)).value_or(false) &&
          !is_captured()) {
        device.Synchronize().IgnoreError();
        break;
      }
      [[fallthrough]];
    case ReleaseRule::kRecord: {
      const StreamRef usual = DefaultStream(device);
      return StorageUse(PointOf(usual), usual);
    }
  }
  return std::nullopt;
}

}  // namespace devrt::internal
