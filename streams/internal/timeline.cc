// SPDX-License-Identifier: Apache-2.0

#include "streams/internal/timeline.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"
#include "streams/internal/captures.h"
#include "streams/internal/device_streams.h"
#include "streams/internal/stream_record.h"

namespace devrt::internal {

std::atomic<UseHook> g_use_hook{nullptr};
std::atomic<StreamEndHook> g_stream_end_hook{nullptr};

void SetUseHook(UseHook hook) {
  g_use_hook.store(hook, std::memory_order_release);
}

void SetStreamEndHook(StreamEndHook hook) {
  g_stream_end_hook.store(hook, std::memory_order_release);
}

Timeline* TimelineOf(StreamRef stream) {
  return stream.record()->timeline.load(std::memory_order_acquire);
}

// Only tests end one.
Timeline::~Timeline() {
  for (Check* check : checks_) delete check;
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
  if (other == nullptr || other == this || other->IsComplete(point.epoch)) {
    return true;
  }
  if (!has_order_.load(std::memory_order_acquire)) return false;
  MutexLock lock(&mutex_);
  return order_ != nullptr && order_->EpochOf(other) >= point.epoch;
}

// The older ones first: the newest joined are kept.
void Timeline::Join(const Captured& captured) {
  if (!IsHere()) return;
  MutexLock lock(&mutex_);
  if (ended_.load(std::memory_order_relaxed)) return;
  if (order_ == nullptr) order_ = std::make_unique<Order>();
  Order* const order = order_.get();
  const auto add = [this, order](const OrderPoint& p) {
    if (p.timeline != this && !p.timeline->IsComplete(p.epoch)) order->Add(p);
  };
  order->DropComplete();
  for (size_t i = captured.order.count; i > 0; --i) {
    const Order::Point& p = captured.order.points[i - 1];
    add({p.timeline, p.epoch});
  }
  add(captured.point);
  has_order_.store(order->count != 0, std::memory_order_release);
}

void Timeline::NoteOrdered(uint64_t epoch, CaptureOrder* capture) {
  MutexLock lock(&mutex_);
  if (order_ != nullptr) order_->DropComplete();
  capture->Note({this, epoch}, order_.get());
}

// ---- The native stream ------------------------------------------------------

void Timeline::Attach(devrt_stream handle, const void* thread, bool may_be_gone,
                      bool shared) {
  MutexLock lock(&mutex_);
  handle_ = handle;
  may_capture_.store(shared ? kMayCapture : 0, std::memory_order_relaxed);
  may_be_gone_.store(may_be_gone, std::memory_order_relaxed);
  thread_.store(thread, std::memory_order_relaxed);
}

absl::StatusOr<bool> Timeline::AskWhetherCaptured(devrt_stream handle) const {
  if (!MayCapture()) return false;
  const auto& capture = DeviceStreams::Of(device_)->capture;
  if (ABSL_PREDICT_TRUE(capture.table == nullptr)) return false;
  uint32_t yes = 0;
  absl::Status status = FromPlugin(
      device_, capture.table->stream_is_capturing(capture.self, handle, &yes),
      "capture query");
  if (!status.ok()) return status;
  return yes != 0;
}

absl::StatusOr<bool> Timeline::IsCaptured() {
  if (!MayCapture() || MayBeGone() || !IsHere()) return false;
  const devrt_stream handle = Enter();
  if (handle == nullptr) return false;
  const absl::StatusOr<bool> captured = AskWhetherCaptured(handle);
  Leave();
  return captured;
}

absl::Status Timeline::CheckNoCapture(devrt_stream handle) const {
  DEVRT_ASSIGN_OR_RETURN(const bool captured, AskWhetherCaptured(handle));
  if (!captured) return absl::OkStatus();
  return CaptureError(absl::StrCat(
      "a stream of ", DeviceName(device_),
      " is capturing, and nothing can wait for what it was given before: order "
      "others after it, or synchronise, before the capture begins"));
}

devrt_stream Timeline::Enter() {
  MutexLock lock(&mutex_);
  if (handle_ != nullptr) ++users_;
  return handle_;
}

void Timeline::Leave() {
  devrt_stream destroy = nullptr;
  {
    MutexLock lock(&mutex_);
    if (--users_ == 0) std::swap(destroy, to_destroy_);
  }
  if (destroy == nullptr || !TakesHandlesBack(device_)) return;
  RunOutside([device = device_, destroy] {
    (void)FromPlugin(device, device->ops->stream_destroy(device->self, destroy),
                     "stream destruction");
  });
}

bool Timeline::End(Last last, bool destroy) {
  if (last == Last::kIdle) {
    Complete(BeginLook());
  } else if (last == Last::kCheckpoint && IsOpen(device_)) {
    if (devrt_stream handle = Enter()) {
      if (CheckNoCapture(handle).ok()) (void)Append(handle, true);
      Leave();
    }
  }
  MutexLock lock(&mutex_);
  ended_.store(true, std::memory_order_release);
  // What is noted from here on is of before the end too.
  if (last == Last::kIdle) Complete(Now());
  order_.reset();
  has_order_.store(false, std::memory_order_relaxed);
  const devrt_stream handle = std::exchange(handle_, nullptr);
  if (users_ == 0) return true;
  if (destroy) to_destroy_ = handle;
  return false;
}

bool Timeline::IsSpent() const {
  MutexLock lock(&mutex_);
  return users_ == 0 && !polling_ && checks_.empty() && IsComplete(Now());
}

void Timeline::Revive(Rule rule) {
  MutexLock lock(&mutex_);
  since_.store(epoch_.fetch_add(1) + 1, std::memory_order_release);
  left_out_.store(false, std::memory_order_relaxed);
  rule_.store(rule, std::memory_order_relaxed);
  ended_.store(false, std::memory_order_release);
}

void Timeline::Release() {
  Check* checks = nullptr;
  {
    MutexLock lock(&mutex_);
    handle_ = nullptr;
    checks = TakeOut(0, checks_.size());
    order_.reset();
    has_order_.store(false, std::memory_order_relaxed);
  }
  PutChecks(checks);
  // Of a device that was lost nobody knows what still runs.
  if (TakesHandlesBack(device_)) Complete(BeginWait());
}

// An epoch that began after the end holds no work.
uint64_t Timeline::BeginWait() {
  return ended_.load(std::memory_order_acquire) ? Now() : BeginLook();
}

// ---- Checkpoints ------------------------------------------------------------

absl::Status Timeline::Checkpoint(StreamRef stream, uint64_t epoch) {
  if (covered_.load(std::memory_order_acquire) >= epoch || IsComplete(epoch)) {
    return absl::OkStatus();
  }
  if (!IsOpen(device_)) return ClosedError(device_);
  if (InHostFunction()) return HostFunctionError("a checkpoint");
  if (!IsHere()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a per-thread stream of ", DeviceName(device_),
        " was used by another thread than its own: what it uses is known to be "
        "over after Device::Synchronize only"));
  }
  StreamRecord* const record = stream.record();
  if (record->kind == StreamKind::kDefault &&
      record->handle.load(std::memory_order_acquire) == nullptr) {
    absl::Status status = ObtainHandle(record, "a checkpoint");
    if (!status.ok()) return status;
  }
  {
    MutexLock lock(&mutex_);
    if (checks_.size() >= kMostCheckpoints) {
      left_out_.store(true, std::memory_order_relaxed);
      return absl::OkStatus();
    }
  }
  const devrt_stream handle = Enter();
  if (handle == nullptr) return absl::OkStatus();  // its last one covers it
  absl::Status status;
  if (CheckNoCapture(handle).ok()) {
    status = Append(handle, false);
    record->dirty.store(true, std::memory_order_relaxed);
  } else {
    left_out_.store(true, std::memory_order_relaxed);
  }
  Leave();
  return status;
}

absl::Status Timeline::Append(devrt_stream handle, bool last, Check** pinned) {
  Timelines& all = DeviceStreams::Of(device_)->timelines;
  absl::StatusOr<Check*> taken = all.TakeCheck();
  if (!taken.ok()) return taken.status();
  Check* const check = *taken;
  check->epoch = BeginLook();
  check->last = last;
  // What is noted after the end is of before it.
  if (last) ++check->epoch;
  absl::Status status = FromPlugin(
      device_, device_->ops->event_record(device_->self, check->event, handle),
      "checkpoint");
  if (!status.ok()) {
    all.PutCheck(check);
    return status;
  }
  MutexLock lock(&mutex_);
  Insert(check);
  if (pinned != nullptr) {
    ++check->pins;
    *pinned = check;
  }
  if (covered_.load(std::memory_order_relaxed) < check->epoch) {
    covered_.store(check->epoch, std::memory_order_release);
  }
  return status;
}

// Of two that record at once the later epoch may come first.
void Timeline::Insert(Check* check) {
  auto place = checks_.end();
  while (place != checks_.begin() && place[-1]->epoch > check->epoch) --place;
  checks_.insert(place, check);
}

size_t Timeline::FindCheck(uint64_t epoch) const {
  const auto found = std::lower_bound(
      checks_.begin(), checks_.end(), epoch,
      [](const Check* check, uint64_t e) { return check->epoch < e; });
  return static_cast<size_t>(found - checks_.begin());
}

Check* Timeline::TakeOut(size_t first, size_t last) {
  Check* taken = nullptr;
  for (size_t i = first; i < last; ++i) {
    Check* const check = checks_[i];
    if (check->pins != 0) {
      check->dropped = true;
    } else {
      check->next = std::exchange(taken, check);
    }
  }
  const auto begin = checks_.begin();
  checks_.erase(begin + static_cast<ptrdiff_t>(first),
                begin + static_cast<ptrdiff_t>(last));
  return taken;
}

void Timeline::PutChecks(Check* checks) {
  Timelines& all = DeviceStreams::Of(device_)->timelines;
  while (checks != nullptr) {
    all.PutCheck(std::exchange(checks, checks->next));
  }
}

void Timeline::Thin() {
  {
    MutexLock lock(&mutex_);
    if (checks_.size() < kMostCheckpoints) return;
  }
  Poll(false);
  Check* taken = nullptr;
  {
    MutexLock lock(&mutex_);
    if (checks_.size() < kMostCheckpoints) return;
    for (size_t i = checks_.size() - 1; i >= 2; i -= 2) {
      if (Check* const check = TakeOut(i - 1, i)) {
        check->next = std::exchange(taken, check);
      }
    }
  }
  PutChecks(taken);
}

Check* Timeline::Pinned(uint64_t epoch) {
  MutexLock lock(&mutex_);
  const size_t i = FindCheck(epoch);
  if (i == checks_.size()) return nullptr;
  ++checks_[i]->pins;
  return checks_[i];
}

absl::Status Timeline::CheckpointEagerly(StreamRef stream, uint64_t epoch) {
  Thin();
  return Checkpoint(stream, epoch);
}

absl::StatusOr<Check*> Timeline::PinCheck(uint64_t epoch, Captured* captured) {
  captured->point = {this, epoch};
  captured->order.count = 0;
  Check* check = Pinned(epoch);
  if (check == nullptr) {
    if (IsComplete(epoch)) return nullptr;
    if (!IsOpen(device_)) return ClosedError(device_);
    ObtainDefault();
    if (!IsHere() || may_be_gone_.load(std::memory_order_relaxed)) {
      return nullptr;
    }
    Thin();
    const devrt_stream handle = Enter();
    // It has ended meanwhile, with a last checkpoint maybe.
    if (handle == nullptr) {
      check = Pinned(epoch);
    } else {
      {
        MutexLock lock(&mutex_);
        if (order_ != nullptr) captured->order = *order_;
      }
      absl::Status status = CheckNoCapture(handle);
      if (status.ok()) status = Append(handle, false, &check);
      Leave();
      if (!status.ok()) return status;
    }
  }
  if (check != nullptr) captured->point.epoch = check->epoch;
  return check;
}

void Timeline::Unpin(Check* check) {
  {
    MutexLock lock(&mutex_);
    if (--check->pins != 0 || !check->dropped) return;
    check->dropped = false;
  }
  DeviceStreams::Of(device_)->timelines.PutCheck(check);
}

// ---- Polls ------------------------------------------------------------------

Timeline::Answer Timeline::Ask(devrt_event event, absl::Status* error) {
  uint32_t done = 0;
  absl::Status status = FromPlugin(
      device_, device_->ops->event_query(device_->self, event, &done),
      "checkpoint");
  if (error != nullptr) *error = status;
  if (!status.ok()) return Answer::kFailed;
  return done != 0 ? Answer::kDone : Answer::kNotYet;
}

Timeline::Answer Timeline::AskChecks(bool* found, absl::Status* error) {
  size_t step = 1;
  uint64_t not_yet = UINT64_MAX;  // the epoch of one that is not complete
  // Those that other threads record meanwhile are left to the next poll: there
  // may be no end of them.
  const uint64_t begin = Now();
  for (;;) {
    Check* check = nullptr;
    {
      MutexLock lock(&mutex_);
      const size_t end = FindCheck(std::min(not_yet, begin + 1));
      if (end == 0) {
        return not_yet == UINT64_MAX ? Answer::kDone : Answer::kNotYet;
      }
      check = checks_[not_yet == UINT64_MAX ? std::min(step, end) - 1
                                            : (end - 1) / 2];
      ++check->pins;
    }
    const Answer answer = Ask(check->event, error);
    Check* over = nullptr;
    if (answer == Answer::kNotYet) {
      not_yet = check->epoch;
    } else {
      MutexLock lock(&mutex_);
      const size_t i = FindCheck(check->epoch);
      const bool there = i < checks_.size() && checks_[i] == check;
      if (answer == Answer::kDone) {
        over = TakeOut(0, there ? i + 1 : i);
      } else if (there) {
        over = TakeOut(i, i + 1);
      }
      step *= 2;
    }
    if (answer == Answer::kDone) {
      *found = true;
      Complete(check->epoch);
      if (check->last) Complete(Now());
    }
    PutChecks(over);
    Unpin(check);
    if (answer == Answer::kFailed) return answer;
  }
}

absl::Status Timeline::AskStream(devrt_stream handle) {
  absl::Status status = CheckNoCapture(handle);
  if (!status.ok()) return status;
  const uint64_t epoch = BeginLook();
  uint32_t done = 0;
  status = FromPlugin(device_,
                      device_->ops->stream_query(device_->self, handle, &done),
                      "stream query");
  if (status.ok() && done != 0) Complete(epoch);
  return status;
}

void Timeline::MakeUp(devrt_stream handle) {
  if (InHostFunction() || !IsHere() ||
      !left_out_.exchange(false, std::memory_order_relaxed)) {
    return;
  }
  if (!CheckNoCapture(handle).ok() || !Append(handle, false).ok()) {
    left_out_.store(true, std::memory_order_relaxed);
  }
}

// Other libraries may work on a default stream that nobody asked devrt for.
void Timeline::ObtainDefault() {
  if (rule_.load(std::memory_order_relaxed) != Rule::kDefault) return;
  StreamRecord* const record = &DeviceStreams::Of(device_)->legacy;
  if (record->handle.load(std::memory_order_acquire) == nullptr &&
      !InHostFunction()) {
    (void)ObtainHandle(record, "a checkpoint");
  }
}

bool Timeline::Poll(bool query_stream, absl::Status* error) {
  if (!IsOpen(device_)) return false;
  if (query_stream) ObtainDefault();
  devrt_stream handle;
  {
    MutexLock lock(&mutex_);
    if (polling_ || (checks_.empty() && !query_stream)) return false;
    polling_ = true;
    ++users_;
    handle = handle_;
  }
  const uint64_t before = completed_.load(std::memory_order_relaxed);
  {
    const RelaxedCaptures relaxed(device_);
    bool found = false;
    absl::Status failed;
    const Answer checks = AskChecks(&found, &failed);
    if (handle != nullptr && !may_be_gone_.load(std::memory_order_relaxed)) {
      if (checks != Answer::kNotYet && query_stream && IsHere()) {
        absl::Status status = AskStream(handle);
        status.Update(failed);
        if (error != nullptr) *error = std::move(status);
      }
      if (found) MakeUp(handle);
    }
  }
  {
    MutexLock lock(&mutex_);
    polling_ = false;
  }
  Leave();
  return completed_.load(std::memory_order_relaxed) > before;
}

// Apart from Poll: another thread's must not stand in its way.
bool Timeline::AskFor(uint64_t epoch) {
  if (IsComplete(epoch)) return true;
  if (!IsOpen(device_)) return false;
  const RelaxedCaptures relaxed(device_);
  if (!relaxed.MayAsk()) return false;
  if (Check* const check = Pinned(epoch)) {
    if (Ask(check->event) == Answer::kDone) {
      Complete(check->epoch);
      if (check->last) Complete(Now());
    }
    Unpin(check);
  } else if (IsHere() && !may_be_gone_.load(std::memory_order_relaxed)) {
    if (devrt_stream handle = Enter()) {
      AskStream(handle).IgnoreError();
      Leave();
    }
  }
  return IsComplete(epoch);
}

bool Timeline::IsOutOfReach() const {
  MutexLock lock(&mutex_);
  return checks_.empty() && !polling_ &&
         (handle_ == nullptr || !IsHere() ||
          may_be_gone_.load(std::memory_order_relaxed));
}

}  // namespace devrt::internal
