// SPDX-License-Identifier: Apache-2.0

#include "streams/objects/stream_recycler.h"

#include <algorithm>
#include <utility>

#include "devrt/runtime/log.h"
#include "streams/common/deferred_deletion.h"
#include "streams/common/relaxed_captures.h"
#include "streams/objects/device_streams.h"
#include "streams/objects/kept_stream.h"
#include "streams/objects/use_hooks.h"

namespace devrt::internal {

namespace {

// Number of native streams that are kept for each class.  More are kept only
// while they are busy.  A CUDA stream takes 0.55 MiB (C101).
constexpr size_t kMaxKept = 256;
// Number of busy streams that are queried before a new stream is made.
constexpr int kLooks = 4;
// Number of busy streams that are queried when one more comes back beyond
// kMaxKept: more than one, so that their number goes down again.
constexpr size_t kTrimLooks = 2;
// Number of serials that a recycler takes at a time.
constexpr uint64_t kSerials = 1024;

// Logs an error, which a destructor cannot return.  Nothing is logged for a
// lost device, because frees succeed after a fault.
void LogUnlessLost(DeviceRecord* device, devrt_status error, const char* call) {
  if (error == nullptr) return;
  absl::Status status = TakeError(device, error, call);
  if (TakesHandlesBack(device)) {
    absl::string_view text = status.message();
    DEVRT_LOG(kError, std::string_view(text.data(), text.size()));
  }
}

// The first of `count` serials that no other stream of the process has.
uint64_t TakeSerials(uint64_t count) {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(count, std::memory_order_relaxed);
}

}  // namespace

uint64_t StreamRecycler::NextSerial() {
  if (next_serial_ == end_of_serials_) {
    next_serial_ = TakeSerials(kSerials);
    end_of_serials_ = next_serial_ + kSerials;
  }
  return next_serial_++;
}

absl::StatusOr<int> StreamRecycler::ClampPriority(int priority) {
  {
    MutexLock lock(&mutex_);
    if (has_priorities_) {
      return std::clamp(priority, priority_greatest_, priority_least_);
    }
  }
  auto properties = Device(device_).Properties();
  if (!properties.ok()) return properties.status();
  MutexLock lock(&mutex_);
  priority_greatest_ = properties->priority_greatest;
  priority_least_ = properties->priority_least;
  has_priorities_ = true;
  return std::clamp(priority, priority_greatest_, priority_least_);
}

StreamRecycler::Class* StreamRecycler::FindClass(int priority, bool blocking) {
  for (const auto& c : classes_) {
    if (c->priority == priority && c->blocking == blocking) return c.get();
  }
  classes_.push_back(std::make_unique<Class>());
  classes_.back()->priority = priority;
  classes_.back()->blocking = blocking;
  return classes_.back().get();
}

void StreamRecycler::PushBusy(Class* c, StreamRecord* record) {
  record->next = nullptr;
  *c->busy_tail = record;
  c->busy_tail = &record->next;
  ++c->busy_count;
}

StreamRecord* StreamRecycler::PopIdle(Class* c) {
  StreamRecord* record = c->idle;
  if (record == nullptr) return nullptr;
  c->idle = record->next;
  --c->idle_count;
  return record;
}

StreamRecord* StreamRecycler::PopBusy(Class* c) {
  StreamRecord* record = c->busy;
  if (record == nullptr) return nullptr;
  c->busy = record->next;
  if (c->busy == nullptr) c->busy_tail = &c->busy;
  --c->busy_count;
  return record;
}

// The lock is not held over the query, because other threads may run in it.
StreamRecycler::Seen StreamRecycler::QueryBusy(int priority, bool blocking,
                                               bool surplus,
                                               StreamRecord** record) {
  if (!IsOpen(device_)) return Seen::kNone;
  {
    MutexLock lock(&mutex_);
    Class* c = FindClass(priority, blocking);
    if (surplus && c->idle_count + c->busy_count <= kMaxKept) {
      return Seen::kNone;
    }
    *record = PopBusy(c);
  }
  if (*record == nullptr) return Seen::kNone;
  Timeline* const timeline = (*record)->timeline.load();
  const uint64_t epoch = timeline->BeginLook();
  uint32_t done = 0;
  devrt_status error = nullptr;
  {
    const RelaxedCaptures relaxed(device_, DeviceStreams::Of(device_)->capture);
    const OwnQuery own;
    error = device_->ops->stream_query(
        device_->self, (*record)->handle.load(std::memory_order_relaxed),
        &done);
  }
  if (error != nullptr) {
    // The stream's work failed, on this device or on one that the stream waited
    // for.  The stream will never be idle.
    LogUnlessLost(device_, error, "stream query");
    DestroyAndBlank(*record);
    return Seen::kFailed;
  }
  if (done != 0) {
    timeline->Complete(epoch);
    (*record)->dirty.store(false, std::memory_order_relaxed);
    return Seen::kIdle;
  }
  MutexLock lock(&mutex_);
  PushBusy(FindClass(priority, blocking), *record);
  return Seen::kBusy;
}

StreamRecord* StreamRecycler::FindIdle(int priority, bool blocking) {
  for (int look = 0; look < kLooks; ++look) {
    StreamRecord* record = nullptr;
    const Seen seen = QueryBusy(priority, blocking, false, &record);
    if (seen == Seen::kIdle) return record;
    if (seen == Seen::kNone) return nullptr;
  }
  return nullptr;
}

void StreamRecycler::TrimClass(int priority, bool blocking, size_t looks) {
  for (; looks > 0; --looks) {
    StreamRecord* record = nullptr;
    const Seen seen = QueryBusy(priority, blocking, true, &record);
    if (seen == Seen::kNone) return;
    if (seen == Seen::kIdle) DestroyAndBlank(record);
  }
}

void StreamRecycler::Trim() {
  struct Surplus {
    int priority;
    bool blocking;
    size_t busy;
  };
  std::vector<Surplus> classes;
  {
    MutexLock lock(&mutex_);
    for (const auto& c : classes_) {
      if (c->idle_count + c->busy_count > kMaxKept) {
        classes.push_back({c->priority, c->blocking, c->busy_count});
      }
    }
  }
  for (const Surplus& c : classes) TrimClass(c.priority, c.blocking, c.busy);
}

StreamRef StreamRecycler::Publish(StreamRecord* record, uint64_t serial) {
  record->dirty.store(false, std::memory_order_relaxed);
  record->exposed.store(false, std::memory_order_relaxed);
  record->serial.store(serial, std::memory_order_release);
  device_->live_streams.fetch_add(1, std::memory_order_relaxed);
  return StreamRef(record, serial);
}

absl::StatusOr<StreamRef> StreamRecycler::MakeNative(
    const devrt_stream_desc_v0& desc, StreamKind kind, bool may_be_destroyed) {
  devrt_stream handle = nullptr;
  absl::Status status =
      FromPlugin(device_,
                 device_->ops->stream_create(device_->self, device_->ordinal,
                                             &desc, &handle),
                 "stream creation");
  if (!status.ok()) return status;
  const bool blocking = (desc.flags & DEVRT_STREAM_BLOCKING) != 0;
  StreamRecord* record = TakeBlank(kind, blocking, desc.priority);
  if (record == nullptr) {
    record = new StreamRecord(device_);
    record->kind = kind;
    record->blocking = blocking;
    record->priority = desc.priority;
  }
  Timeline* const timeline =
      DeviceStreams::Of(device_)->timelines.Acquire(blocking);
  timeline->native().Attach(handle,
                            kind == StreamKind::kPerThread ? &t_state : nullptr,
                            may_be_destroyed, kind != StreamKind::kCreated);
  record->timeline.store(timeline, std::memory_order_release);
  record->handle.store(handle, std::memory_order_release);
  return Publish(record, TakeSerials(1));
}

StreamRecord* StreamRecycler::TakeBlank(StreamKind kind, bool blocking,
                                        int priority) {
  MutexLock lock(&mutex_);
  for (StreamRecord** p = &blank_; *p != nullptr; p = &(*p)->next) {
    StreamRecord* record = *p;
    if (record->kind == kind && record->blocking == blocking &&
        record->priority == priority) {
      *p = record->next;
      return record;
    }
  }
  return nullptr;
}

void StreamRecycler::PushBlank(StreamRecord* record) {
  record->handle.store(nullptr, std::memory_order_relaxed);
  record->next = blank_;
  blank_ = record;
}

absl::StatusOr<StreamRef> StreamRecycler::Create(StreamOptions options) {
  {
    // The usual case takes one lock.
    MutexLock lock(&mutex_);
    if (has_priorities_) {
      Class* c = FindClass(
          std::clamp(options.priority, priority_greatest_, priority_least_),
          options.blocking);
      if (StreamRecord* record = PopIdle(c)) {
        return Publish(record, NextSerial());
      }
    }
  }
  auto priority = ClampPriority(options.priority);
  if (!priority.ok()) return priority.status();
  if (StreamRecord* record = FindIdle(*priority, options.blocking)) {
    return Publish(record, TakeSerials(1));
  }
  if (!IsOpen(device_)) return ClosedError(device_);
  devrt_stream_desc_v0 desc{};
  desc.struct_size = sizeof desc;
  desc.kind = DEVRT_STREAM_CREATE;
  desc.flags = options.blocking ? DEVRT_STREAM_BLOCKING : 0;
  desc.priority = *priority;
  return MakeNative(desc, StreamKind::kCreated);
}

absl::StatusOr<StreamRef> StreamRecycler::Adopt(void* native,
                                                std::shared_ptr<void> owner) {
  devrt_stream_desc_v0 desc{};
  desc.struct_size = sizeof desc;
  desc.kind = DEVRT_STREAM_ADOPT;
  desc.native = native;
  auto made = MakeNative(desc, StreamKind::kExternal, owner == nullptr);
  if (made.ok()) {
    MutexLock lock(&mutex_);
    made->record()->owner = std::move(owner);
  }
  return made;
}

absl::StatusOr<StreamRef> StreamRecycler::MakePerThread() {
  devrt_stream_desc_v0 desc{};
  desc.struct_size = sizeof desc;
  desc.kind = DEVRT_STREAM_PER_THREAD;
  desc.flags = DEVRT_STREAM_BLOCKING;
  auto made = MakeNative(desc, StreamKind::kPerThread);
  if (made.ok()) {
    // The program does not own the stream: Shutdown must not ask for the end of
    // threads.
    device_->live_streams.fetch_sub(1, std::memory_order_relaxed);
    MutexLock lock(&mutex_);
    per_thread_.push_back(made->record());
  }
  return made;
}

// An adopted stream may be destroyed by now unless its owner is kept.  If uses
// are not tracked, nobody asks, and any answer is right.
Timeline::EndState StreamRecycler::EndStateOf(
    const StreamRecord& record) const {
  if (!AreUsesTracked()) return Timeline::EndState::kIdle;
  switch (record.kind) {
    case StreamKind::kExternal:
      return record.owner != nullptr ? Timeline::EndState::kBusy
                                     : Timeline::EndState::kUnknown;
    case StreamKind::kCreated: {
      const Timeline& timeline =
          *record.timeline.load(std::memory_order_relaxed);
      return record.dirty.load(std::memory_order_relaxed) ||
                     timeline.HasOpenCheckpoint() ||
                     timeline.native().MayCapture()
                 ? Timeline::EndState::kBusy
                 : Timeline::EndState::kIdle;
    }
    default:
      return Timeline::EndState::kBusy;
  }
}

bool StreamRecycler::EndTimeline(StreamRecord* record, Timeline::EndState state,
                                 bool destroy) {
  Timeline* const timeline = record->timeline.load(std::memory_order_relaxed);
  const bool ours = timeline->End(state, destroy);
  DeviceStreams::Of(device_)->timelines.Retire(timeline);
  return ours;
}

void StreamRecycler::Destroy(StreamRecord* record) {
  devrt_stream handle = record->handle.exchange(nullptr);
  if (handle == nullptr) return;
  if (!EndTimeline(record, EndStateOf(*record), true) ||
      !TakesHandlesBack(device_)) {
    return;
  }
  LogUnlessLost(device_, device_->ops->stream_destroy(device_->self, handle),
                "stream destruction");
}

void StreamRecycler::Abandon(StreamRecord* record) {
  if (record->handle.exchange(nullptr) == nullptr) return;
  (void)EndTimeline(record, EndStateOf(*record), false);
}

void StreamRecycler::DestroyAndBlank(StreamRecord* record) {
  Destroy(record);
  MutexLock lock(&mutex_);
  PushBlank(record);
}

void StreamRecycler::Release(StreamRecord* record) {
  // In a forked child, a thread that does not exist there may hold the lock.
  if ((device_->state.load(std::memory_order_acquire) & kForkedChild) != 0) {
    return;
  }
  const StreamRef stream(record, record->serial.load());
  const bool now = !InHostFunction();
  if (now) NoteStreamEnd(stream);
  record->serial.store(0, std::memory_order_release);
  if (record->kind != StreamKind::kPerThread) {
    device_->live_streams.fetch_sub(1, std::memory_order_relaxed);
  }
  RunOutsideHostFunction([this, stream, now] {
    if (!now) NoteStreamEnd(stream);
    GiveBack(stream.record());
  });
}

void StreamRecycler::GiveBack(StreamRecord* record) {
  const uint32_t state = device_->state.load(std::memory_order_acquire);
  if ((state & kForkedChild) != 0 || KeptStream::KeepsAfterEnd(record)) return;
  std::shared_ptr<void> owner;  // destroyed outside the lock
  if (record->kind == StreamKind::kExternal && state == 0) Destroy(record);
  if (record->kind != StreamKind::kCreated || state != 0) Abandon(record);
  bool surplus = false;
  {
    MutexLock lock(&mutex_);
    // The native streams of a lost device are lost too.
    if (record->kind != StreamKind::kCreated || state != 0) {
      owner = std::move(record->owner);
      per_thread_.erase(
          std::remove(per_thread_.begin(), per_thread_.end(), record),
          per_thread_.end());
      PushBlank(record);
      return;
    }
    Class* c = FindClass(record->priority, record->blocking);
    if (Keep(c, record)) {
      surplus = c->busy_count != 0 && c->idle_count + c->busy_count > kMaxKept;
      if (!surplus) return;
    }
  }
  if (surplus) {
    TrimClass(record->priority, record->blocking, kTrimLooks);
  } else {
    DestroyAndBlank(record);
  }
}

// A stream that is not dirty is idle, with three exceptions: others who have
// its handle may submit work to it, a stream that has joined a capture may
// still be part of it, and a checkpoint makes no stream dirty.
bool StreamRecycler::Keep(Class* c, StreamRecord* record) {
  const Timeline& timeline = *record->timeline.load(std::memory_order_relaxed);
  if (timeline.native().MayCapture()) return false;
  if (record->dirty.load(std::memory_order_relaxed) ||
      timeline.HasOpenCheckpoint()) {
    PushBusy(c, record);
    return true;
  }
  if (c->idle_count == kMaxKept) return false;
  record->next = c->idle;
  c->idle = record;
  ++c->idle_count;
  return true;
}

void StreamRecycler::ReleaseIdle() {
  std::vector<StreamRecord*> streams;
  {
    MutexLock lock(&mutex_);
    for (const auto& c : classes_) {
      for (StreamRecord* list : {c->idle, c->busy}) {
        for (; list != nullptr; list = list->next) streams.push_back(list);
      }
    }
    classes_.clear();
    streams.insert(streams.end(), per_thread_.begin(), per_thread_.end());
    for (StreamRecord* record : per_thread_) record->serial.store(0);
    per_thread_.clear();
    has_priorities_ = false;
  }
  for (StreamRecord* record : streams) {
    if (record->kind == StreamKind::kPerThread) Abandon(record);
    Destroy(record);
  }
  MutexLock lock(&mutex_);
  for (StreamRecord* record : streams) PushBlank(record);
}

}  // namespace devrt::internal
