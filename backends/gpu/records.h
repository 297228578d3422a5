// SPDX-License-Identifier: Apache-2.0
//
// What the driver does not report or do by itself about records on a stream:
// HiddenRecords<Api>, Fence<Api>, and records of events that must not be
// recorded while an earlier record is pending.

#ifndef DEVRT_BACKENDS_GPU_RECORDS_H_
#define DEVRT_BACKENDS_GPU_RECORDS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "backends/gpu/context_scope.h"
#include "backends/gpu/fresh_events.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::gpu {

template <class Api>
struct Stream;

// ---- Pending records
//
// If a second record of an event is undefined while the first is pending (C27),
// another native event is recorded instead.  PickFreshEvent sets `*event` to
// `current` if that has no pending record, else to an event without one.  The
// caller records it on the clock's stream, whose context is current.

template <class Api>
typename Api::Error PickFreshEvent(const Api& api, FreshEvents<Api>* others,
                                   const std::shared_ptr<RecordClock>& clock,
                                   typename Api::Event current, unsigned flags,
                                   typename Api::Event* event) {
  *event = current;
  if constexpr (Api::kPendingRecordsAreFixed) {
    return others->Next(
        api, clock, current,
        [&](typename Api::Event* made) {
          return api.CreateEvent((flags & DEVRT_EVENT_TIMING) != 0,
                                 (flags & DEVRT_EVENT_BLOCKING_SYNC) != 0,
                                 (flags & DEVRT_EVENT_IPC) != 0, made);
        },
        event);
  } else {
    (void)api;
    (void)others;
    (void)clock;
    (void)flags;
    return Api::kSuccess;
  }
}

// Called after the record of the event that PickFreshEvent has chosen.
template <class Api>
void FreshEventRecorded(FreshEvents<Api>* others) {
  if constexpr (Api::kPendingRecordsAreFixed) others->Recorded();
}

// ---- Hidden records

// Tells whether the hidden records on one blocking stream are complete: those
// that the driver leaves out when it queries or synchronises the stream.  The
// driver leaves out a record that waits for the legacy stream only, with no
// work of the blocking stream before it (C19).  An event behind all records,
// the marker, gives the answer.
//
// Threads: every member from any thread.
template <class Api>
class HiddenRecords {
 public:
  using Error = typename Api::Error;
  using Stream = gpu::Stream<Api>;

  // Counts a record on the stream.  Called after the record.
  void Count() { records_.fetch_add(1, std::memory_order_acq_rel); }

  // Returns true if the stream may have records that the driver leaves out.
  bool MayExist(const Stream& stream) const {
    if (!stream.blocking || stream.kind == DEVRT_STREAM_LEGACY) return false;
    // The owner's records on an adopted stream are not counted.
    return stream.kind == DEVRT_STREAM_ADOPT ||
           records_.load(std::memory_order_acquire) !=
               complete_.load(std::memory_order_acquire);
  }

  // Returns Api::kNotReady if a record is not complete.
  Error Query(const Api& api, const Stream& stream);

  // Waits for all records, and for the legacy work that this stream still waits
  // for.
  Error Synchronize(const Api& api, const Stream& stream);

  // Forgets all records, because their native stream has ended.
  void Forget() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_pending_ = false;
    complete_.store(records_.load());
  }

  // Destroys the native events.  The stream must not be used any more.
  void Destroy(const Api& api) {
    if (marker_ != typename Api::Event{}) (void)api.DestroyEvent(marker_);
    markers_.Destroy(api);
  }

 private:
  // The number of queries of an event that was just recorded: some
  // microseconds.
  static constexpr int kFreshPolls = 64;

  // Called with the lock held.  A native record never waits.
  Error RecordMarker(const Api& api, const Stream& stream);
  void NoteComplete() {
    is_pending_ = false;
    complete_.store(marked_, std::memory_order_release);
  }

  std::atomic<uint64_t> records_{0};
  std::atomic<uint64_t> complete_{0};
  std::mutex mutex_;  // guards what follows
  typename Api::Event marker_{};
  bool is_pending_ = false;   // the marker's record is pending
  uint64_t marked_ = 0;       // the marker comes after these records
  FreshEvents<Api> markers_;  // earlier native events of the marker
};

template <class Api>
typename Api::Error HiddenRecords<Api>::RecordMarker(const Api& api,
                                                     const Stream& stream) {
  const uint64_t records = records_.load(std::memory_order_acquire);
  const ContextScope<Api> scope(api, stream.context);
  Error error = scope.error();
  if (error == Api::kSuccess && marker_ == typename Api::Event{}) {
    error = api.CreateEvent(false, false, false, &marker_);
  }
  typename Api::Event marker{};
  if (error == Api::kSuccess) {
    error = PickFreshEvent(api, &markers_, stream.clock, marker_, 0, &marker);
  }
  if (error == Api::kSuccess) error = api.Record(marker, stream.native);
  if (error != Api::kSuccess) return error;
  FreshEventRecorded(&markers_);
  marker_ = marker;
  is_pending_ = true;
  marked_ = records;
  return error;
}

template <class Api>
typename Api::Error HiddenRecords<Api>::Synchronize(const Api& api,
                                                    const Stream& stream) {
  uint64_t records = 0;
  typename Api::Event marker{};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Error error = RecordMarker(api, stream);
    if (error != Api::kSuccess) return error;
    records = marked_;
    marker = marker_;
  }
  const Error error = api.SynchronizeEvent(marker);
  if (error == Api::kSuccess) {
    complete_.store(records, std::memory_order_release);
  }
  return error;
}

template <class Api>
typename Api::Error HiddenRecords<Api>::Query(const Api& api,
                                              const Stream& stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // A pending marker is not recorded again, because each query would then move
  // the marker further away.
  if (is_pending_) {
    const Error error = api.QueryEvent(marker_);
    if (error != Api::kSuccess) return error;
    NoteComplete();
    if (!MayExist(stream)) return error;
  }
  Error error = RecordMarker(api, stream);
  if (error == Api::kSuccess) error = api.QueryEvent(marker_);
  // A new record takes a moment even if it waits for nothing.
  for (int i = 0; error == Api::kNotReady && i < kFreshPolls; ++i) {
    error = api.QueryEvent(marker_);
  }
  if (error == Api::kSuccess) NoteComplete();
  return error;
}

// ---- Fences

// Records an event on a stream and makes the stream wait for that event.  This
// gives the stream something to do: otherwise the driver reads the source of a
// small copy from pinned memory at submission (copy.h).
//
// Threads: every member from any thread.  Records and waits of two threads may
// interleave, as they are on one stream.
template <class Api>
class Fence {
 public:
  using Error = typename Api::Error;

  Error Put(const Api& api, const Stream<Api>& stream) {
    typename Api::Event event = event_.load(std::memory_order_acquire);
    if (event == typename Api::Event{}) {
      const Error error = Make(api, stream, &event);
      if (error != Api::kSuccess) return error;
    }
    const Error error = api.Record(event, stream.native);
    return error != Api::kSuccess ? error : api.Wait(stream.native, event);
  }

  // Destroys the native event.  The stream must not be used any more.
  void Destroy(const Api& api) {
    const auto event = event_.load(std::memory_order_relaxed);
    if (event != typename Api::Event{}) (void)api.DestroyEvent(event);
  }

 private:
  Error Make(const Api& api, const Stream<Api>& stream,
             typename Api::Event* event) {
    const std::lock_guard<std::mutex> lock(mutex_);
    *event = event_.load(std::memory_order_relaxed);
    if (*event != typename Api::Event{}) return Api::kSuccess;
    const ContextScope<Api> scope(api, stream.context);
    Error error = scope.error();
    if (error == Api::kSuccess) {
      error = api.CreateEvent(false, false, false, event);
    }
    if (error != Api::kSuccess) return error;
    event_.store(*event, std::memory_order_release);
    return error;
  }

  std::mutex mutex_;  // held while the event is made
  std::atomic<typename Api::Event> event_{};
};

// ---- All of them

// Destroys the native events that the backend made for the stream.  The stream
// must not be used any more.
template <class Api>
void DestroyEventsOf(const Api& api, Stream<Api>* stream) {
  stream->hidden.Destroy(api);
  stream->fence.Destroy(api);
  if (stream->bare.event != typename Api::Event{}) {
    (void)api.DestroyEvent(stream->bare.event);
  }
  stream->window.Destroy(api);
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_RECORDS_H_
