// SPDX-License-Identifier: Apache-2.0

#include "devrt/arrays/internal/outside_use.h"

#include "devrt/arrays/exchange.h"
#include "devrt/arrays/internal/dlpack_devices.h"
#include "devrt/arrays/internal/mutants.h"
#include "devrt/streams/internal/captures.h"
#include "devrt/streams/internal/stream_record.h"

namespace devrt::internal {

bool OutsideUse::Lives() const { return CheckStream(stream_, "a use").ok(); }

// A native stream goes to another Stream when it is idle, and a timeline to
// another native stream when all its points are complete.
bool OutsideUse::IsAnothers() const {
  const StreamRecord* const record = stream_.record();
  const uint64_t serial = record->serial.load(std::memory_order_acquire);
  if (serial == stream_.serial()) return false;
  return !begin_.timeline->IsOf(begin_) ||
         (serial != 0 && TimelineOf(stream_) == begin_.timeline);
}

bool OutsideUse::IsLost() const {
  return !Mutated(Mutant::kLostConsumersAreTrusted) &&
         stream_.kind() == StreamKind::kExternal && !kept_ && !Lives();
}

// Where that cannot be told, nothing may be recorded either.
CaptureNumber OutsideUse::Capture() const {
  if (ABSL_PREDICT_TRUE(!MayCapture(stream_))) return CaptureNumber::kNone;
  if (kept_ || stream_.kind() == StreamKind::kDefault) {
    return HoldCapture(stream_).value_or(CaptureNumber::kUnknown);
  }
  // The program may be ending it.
  const HeldStream held(stream_, begin_.timeline);
  if (held.handle() == nullptr) return CaptureNumber::kNone;
  return HoldCapture(held).value_or(CaptureNumber::kUnknown);
}

std::optional<StorageUse> OutsideUse::UpToNow() const {
  Timeline* const timeline = begin_.timeline;
  StorageUse use({timeline, timeline->Now()}, stream_);
  const bool lives = Lives();
  if (!lives &&
      (IsAnothers() || Mutated(Mutant::kEndedConsumersAreForgotten))) {
    return std::nullopt;
  }
  if (lives || kept_) use.capture = Capture();
  use.late = !lives;
  return use;
}

std::optional<StorageUse> UseOfUnknown(Device device,
                                       absl::FunctionRef<bool()> is_captured) {
  if (!IsOpen(device.record())) return std::nullopt;
  switch (GetExchangeSettings().release) {
    case ExchangeSettings::Release::kTrust:
      break;
    case ExchangeSettings::Release::kSync:
      // Captures of streams that devrt does not know cannot be told (C82).
      if (!RecordsGraph(CurrentStream(device)) && !is_captured()) {
        device.Synchronize().IgnoreError();
        break;
      }
      [[fallthrough]];
    case ExchangeSettings::Release::kRecord: {
      const StreamRef usual = DefaultStream(device);
      return StorageUse(PointOf(usual), usual);
    }
  }
  return std::nullopt;
}

}  // namespace devrt::internal
