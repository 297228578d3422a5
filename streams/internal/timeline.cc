// SPDX-License-Identifier: Apache-2.0

#include "streams/internal/timeline.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "streams/internal/device_streams.h"
#include "streams/internal/relaxed_captures.h"
#include "streams/internal/stream_record.h"

namespace devrt::internal {

Timeline* TimelineOf(StreamRef stream) {
  return stream.record()->timeline.load(std::memory_order_acquire);
}

// ---- Order ------------------------------------------------------------------

bool Timeline::IsAfter(const OrderPoint& point) const {
  if (IsPast(point)) return true;
  Timeline* const other = point.timeline;
  // A stream that has ended may be no member of the device any more.
  if (other->device_ != device_ ||
      other->ended_.load(std::memory_order_acquire)) {
    return false;
  }
  const Rule mine = rule_.load(std::memory_order_relaxed);
  const Rule its = other->rule_.load(std::memory_order_relaxed);
  return mine != its && mine != Rule::kNone && its != Rule::kNone;
}

bool Timeline::IsPast(const OrderPoint& point) const {
  Timeline* const other = point.timeline;
  return other == nullptr || other == this || other->IsComplete(point.epoch) ||
         order_.Covers(point);
}

// ---- The life of the native stream ------------------------------------------

bool Timeline::End(EndState state, bool destroy) {
  if (state == EndState::kIdle) {
    Complete(BeginLook());
  } else if (state == EndState::kBusy && IsOpen(device_)) {
    if (devrt_stream handle = native_.Borrow()) {
      if (native_.CheckNoCapture(handle).ok()) {
        (void)checkpoints_.Record(handle, true);
      }
      native_.Return();
    }
  }
  ended_.store(true, std::memory_order_release);
  // Uses that are noted from here on belong to work from before the end.
  if (state == EndState::kIdle) Complete(Now());
  order_.Close();
  return native_.Detach(destroy);
}

// Borrowers may record checkpoints, so they are looked for first.
bool Timeline::IsSpent() const {
  return !native_.IsBorrowed() && checkpoints_.IsIdle() && IsComplete(Now());
}

void Timeline::Revive(Rule rule) {
  BeginStream();
  (void)checkpoints_.TakeLeftOut();
  rule_.store(rule, std::memory_order_relaxed);
  order_.Open();
  ended_.store(false, std::memory_order_release);
}

void Timeline::Release() {
  native_.Forget();
  checkpoints_.Clear();
  order_.Clear();
  // Nobody knows what still runs on a device that was lost.
  if (TakesHandlesBack(device_)) Complete(BeginWait());
}

// An epoch that began after the end holds no work.
uint64_t Timeline::BeginWait() {
  return ended_.load(std::memory_order_acquire) ? Now() : BeginLook();
}

// ---- Checkpoints ------------------------------------------------------------

absl::Status Timeline::Checkpoint(StreamRef stream, uint64_t epoch) {
  if (checkpoints_.Covers(epoch) || IsComplete(epoch)) return absl::OkStatus();
  if (!IsOpen(device_)) return ClosedError(device_);
  if (InHostFunction()) return HostFunctionError("a checkpoint");
  if (!native_.IsValidOnThisThread()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a per-thread stream of ", DeviceName(device_),
        " was used by another thread than its own: what it uses is known to be "
        "over after Device::Synchronize only"));
  }
  StreamRecord* const record = stream.record();
  if (record->kind == StreamKind::kDefault &&
      record->handle.load(std::memory_order_acquire) == nullptr) {
    DEVRT_RETURN_IF_ERROR(ObtainHandle(record, "a checkpoint"));
  }
  if (checkpoints_.IsFull()) {
    checkpoints_.NoteLeftOut();
    return absl::OkStatus();
  }
  const devrt_stream handle = native_.Borrow();
  if (handle == nullptr) return absl::OkStatus();  // the last one covers it
  absl::Status status;
  if (native_.CheckNoCapture(handle).ok()) {
    status = checkpoints_.Record(handle, false);
    record->dirty.store(true, std::memory_order_relaxed);
  } else {
    checkpoints_.NoteLeftOut();
  }
  native_.Return();
  return status;
}

void Timeline::MakeRoom() {
  if (!checkpoints_.IsFull()) return;
  Poll(false);
  checkpoints_.Thin();
}

absl::Status Timeline::CheckpointEagerly(StreamRef stream, uint64_t epoch) {
  MakeRoom();
  return Checkpoint(stream, epoch);
}

absl::StatusOr<CheckpointEvent*> Timeline::PinCheckpoint(
    uint64_t epoch, OrderedPoint* covered) {
  covered->point = {this, epoch};
  covered->order.count = 0;
  CheckpointEvent* check = checkpoints_.Pin(epoch);
  if (check == nullptr) {
    if (IsComplete(epoch)) return nullptr;
    if (!IsOpen(device_)) return ClosedError(device_);
    ObtainDefaultHandle();
    if (!native_.IsValidOnThisThread() || native_.MayBeDestroyed()) {
      return nullptr;
    }
    MakeRoom();
    const devrt_stream handle = native_.Borrow();
    if (handle == nullptr) {
      // The stream has ended meanwhile, maybe with a last checkpoint.
      check = checkpoints_.Pin(epoch);
    } else {
      order_.CopyTo(&covered->order);
      absl::Status status = native_.CheckNoCapture(handle);
      if (status.ok()) status = checkpoints_.Record(handle, false, &check);
      native_.Return();
      if (!status.ok()) return status;
    }
  }
  if (check != nullptr) covered->point.epoch = check->epoch;
  return check;
}

// ---- Questions --------------------------------------------------------------

absl::Status Timeline::AskStream(devrt_stream handle) {
  DEVRT_RETURN_IF_ERROR(native_.CheckNoCapture(handle));
  const uint64_t epoch = BeginLook();
  uint32_t done = 0;
  absl::Status status = FromPlugin(
      device_, device_->ops->stream_query(device_->self, handle, &done),
      "stream query");
  if (status.ok() && done != 0) Complete(epoch);
  return status;
}

void Timeline::RecordLeftOut(devrt_stream handle) {
  if (InHostFunction() || !native_.IsValidOnThisThread() ||
      !checkpoints_.TakeLeftOut()) {
    return;
  }
  if (!native_.CheckNoCapture(handle).ok() ||
      !checkpoints_.Record(handle, false).ok()) {
    checkpoints_.NoteLeftOut();
  }
}

void Timeline::ObtainDefaultHandle() {
  if (rule_.load(std::memory_order_relaxed) != Rule::kDefault) return;
  StreamRecord* const record = &DeviceStreams::Of(device_)->legacy;
  if (record->handle.load(std::memory_order_acquire) == nullptr &&
      !InHostFunction()) {
    (void)ObtainHandle(record, "a checkpoint");
  }
}

bool Timeline::Poll(bool query_stream, absl::Status* error) {
  if (!IsOpen(device_)) return false;
  if (query_stream) ObtainDefaultHandle();
  if (!checkpoints_.BeginPoll(query_stream)) return false;
  const devrt_stream handle = native_.Borrow();
  const uint64_t before = completed();
  {
    const RelaxedCaptures relaxed(device_);
    bool found = false;
    absl::Status failed;
    const CheckpointList::Answer answer = checkpoints_.AskAll(&found, &failed);
    if (handle != nullptr && !native_.MayBeDestroyed()) {
      if (answer != CheckpointList::Answer::kNotYet && query_stream &&
          native_.IsValidOnThisThread()) {
        absl::Status status = AskStream(handle);
        status.Update(failed);
        if (error != nullptr) *error = std::move(status);
      }
      if (found) RecordLeftOut(handle);
    }
  }
  checkpoints_.EndPoll();
  if (handle != nullptr) native_.Return();
  return completed() > before;
}

// Does not go through Poll, in which another thread's poll would stand in the
// way.
bool Timeline::QueryEpoch(uint64_t epoch) {
  if (IsComplete(epoch)) return true;
  if (!IsOpen(device_)) return false;
  const RelaxedCaptures relaxed(device_);
  if (!relaxed.MayAsk()) return false;
  if (CheckpointEvent* const check = checkpoints_.Pin(epoch)) {
    checkpoints_.AskPinned(*check);
    checkpoints_.Unpin(check);
  } else if (native_.IsValidOnThisThread() && !native_.MayBeDestroyed()) {
    if (devrt_stream handle = native_.Borrow()) {
      AskStream(handle).IgnoreError();
      native_.Return();
    }
  }
  return IsComplete(epoch);
}

// A stream that ends gets its last checkpoint before it loses its handle, so
// the handle is looked at first.
bool Timeline::IsOutOfReach() const {
  return !native_.IsReachable() && checkpoints_.IsIdle();
}

}  // namespace devrt::internal
