// SPDX-License-Identifier: Apache-2.0

#include "streams/timelines/timeline.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "streams/common/relaxed_captures.h"

namespace devrt::internal {

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

absl::StatusOr<devrt_event> Timeline::MakeEventOfWaits() {
  DEVRT_ASSIGN_OR_RETURN(CheckpointEvent* const made, events_->Acquire());
  CheckpointEvent* first = nullptr;
  if (event_of_waits_.compare_exchange_strong(first, made)) return made->event;
  events_->Return(made);  // another thread was first
  return first->event;
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
  CheckpointEvent* const event = event_of_waits_.exchange(nullptr);
  if (event != nullptr) events_->Return(event);
  checkpoints_.Clear();
  order_.Clear();
  // Nobody knows what still runs on a device that was lost.
  if (TakesHandlesBack(device_)) Complete(BeginWait());
}

// Two threads that come here at once get one handle: the device has only one.
absl::StatusOr<devrt_stream> Timeline::ObtainDefaultHandle() {
  if (const devrt_stream known = native_.Borrow()) {
    native_.Return();
    return known;
  }
  devrt_stream_desc_v0 desc{};
  desc.struct_size = sizeof desc;
  desc.kind = DEVRT_STREAM_LEGACY;
  desc.flags = DEVRT_STREAM_BLOCKING;
  devrt_stream handle = nullptr;
  DEVRT_RETURN_IF_ERROR(
      FromPlugin(device_,
                 device_->ops->stream_create(device_->self, device_->ordinal,
                                             &desc, &handle),
                 "default stream"));
  native_.Attach(handle, nullptr, false, true);
  return handle;
}

absl::StatusOr<devrt_stream> Timeline::BorrowHandle() {
  const devrt_stream handle = native_.Borrow();
  if (handle != nullptr || InHostFunction() ||
      rule_.load(std::memory_order_relaxed) != Rule::kDefault) {
    return handle;
  }
  DEVRT_RETURN_IF_ERROR(ObtainDefaultHandle().status());
  return native_.Borrow();
}

// An epoch that began after the end holds no work.
uint64_t Timeline::BeginWait() {
  return ended_.load(std::memory_order_acquire) ? Now() : BeginLook();
}

// ---- Checkpoints ------------------------------------------------------------

absl::Status Timeline::Checkpoint(uint64_t epoch) {
  if (checkpoints_.Covers(epoch) || IsComplete(epoch)) return absl::OkStatus();
  if (!IsOpen(device_)) return ClosedError(device_);
  if (InHostFunction()) return HostFunctionError("a checkpoint");
  if (!native_.IsValidOnThisThread()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a per-thread stream of ", DeviceName(device_),
        " was used by another thread than its own: what it uses is known to be "
        "over after Device::Synchronize only"));
  }
  if (checkpoints_.IsFull()) {
    checkpoints_.NoteLeftOut();
    return absl::OkStatus();
  }
  DEVRT_ASSIGN_OR_RETURN(const devrt_stream handle, BorrowHandle());
  if (handle == nullptr) return absl::OkStatus();  // the last one covers it
  absl::Status status;
  if (native_.CheckNoCapture(handle).ok()) {
    status = checkpoints_.Record(handle, false);
  } else {
    checkpoints_.NoteLeftOut();
  }
  native_.Return();
  return status;
}

void Timeline::MakeRoom() {
  if (!checkpoints_.IsFull()) return;
  Poll(false);
  checkpoints_.RemoveEverySecond();
}

absl::Status Timeline::CheckpointEagerly(uint64_t epoch) {
  MakeRoom();
  return Checkpoint(epoch);
}

absl::StatusOr<CheckpointEvent*> Timeline::PinCheckpoint(
    uint64_t epoch, OrderedPoint* covered) {
  covered->point = {this, epoch};
  covered->order.count = 0;
  CheckpointEvent* check = checkpoints_.Pin(epoch);
  if (check == nullptr) {
    if (IsComplete(epoch)) return nullptr;
    if (!IsOpen(device_)) return ClosedError(device_);
    if (!native_.IsValidOnThisThread() || native_.MayBeDestroyed()) {
      return nullptr;
    }
    MakeRoom();
    const devrt_stream handle = BorrowHandle().value_or(nullptr);
    if (handle == nullptr) {
      // The stream has ended meanwhile, maybe with a last checkpoint.
      check = checkpoints_.Pin(epoch);
    } else {
      order_.CopyTo(&covered->order, nullptr);
      absl::Status status = native_.CheckNoCapture(handle);
      if (status.ok()) status = checkpoints_.Record(handle, false, &check);
      native_.Return();
      if (!status.ok()) return status;
    }
  }
  if (check != nullptr) covered->point.epoch = check->epoch;
  return check;
}

// ---- Queries ----------------------------------------------------------------

absl::Status Timeline::QueryStream(devrt_stream handle) {
  DEVRT_RETURN_IF_ERROR(native_.CheckNoCapture(handle));
  const uint64_t epoch = BeginLook();
  uint32_t done = 0;
  const OwnQuery own;
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

bool Timeline::Poll(const Effort& effort, absl::Status* error) {
  if (!IsOpen(device_)) return false;
  if (effort.once && IsComplete(effort.enough)) return false;
  CheckpointEvent* first = nullptr;
  if (!checkpoints_.BeginPoll(effort.query_stream, effort.enough,
                              effort.once ? &first : nullptr)) {
    return false;
  }
  const uint64_t before = completed();
  {
    const RelaxedCaptures relaxed(device_, native_.capture());
    bool found = false;
    absl::Status failed;
    CheckpointList::Answer answer = CheckpointList::Answer::kDone;
    if (!effort.once) {
      answer = checkpoints_.QueryAll(&found, &failed);
    } else if (first != nullptr) {
      answer = checkpoints_.QueryOnce(first, &found, &failed);
    }
    const bool query_stream = effort.query_stream &&
                              answer != CheckpointList::Answer::kNotYet &&
                              !IsComplete(effort.enough);
    if (query_stream || (found && checkpoints_.HasLeftOut())) {
      FinishPoll(query_stream, found, failed, error);
    }
  }
  checkpoints_.EndPoll();
  return completed() > before;
}

void Timeline::FinishPoll(bool query_stream, bool found, absl::Status failed,
                          absl::Status* error) {
  const devrt_stream handle =
      query_stream ? BorrowHandle().value_or(nullptr) : native_.Borrow();
  if (handle == nullptr) return;
  if (!native_.MayBeDestroyed()) {
    if (query_stream && native_.IsValidOnThisThread()) {
      absl::Status status = QueryStream(handle);
      status.Update(std::move(failed));
      if (error != nullptr) *error = std::move(status);
    }
    if (found) RecordLeftOut(handle);
  }
  native_.Return();
}

// Does not go through Poll, in which another thread's poll would stand in the
// way.
bool Timeline::QueryEpoch(uint64_t epoch) {
  if (IsComplete(epoch)) return true;
  if (!IsOpen(device_)) return false;
  const RelaxedCaptures relaxed(device_, native_.capture());
  if (!relaxed.MayQuery()) return false;
  if (CheckpointEvent* const check = checkpoints_.Pin(epoch)) {
    checkpoints_.QueryPinned(*check);
    checkpoints_.Unpin(check);
  } else if (native_.IsValidOnThisThread() && !native_.MayBeDestroyed()) {
    if (devrt_stream handle = native_.Borrow()) {
      QueryStream(handle).IgnoreError();
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
