// SPDX-License-Identifier: Apache-2.0
//
// Backend<Api>: what the driver does not tell or do by itself about streams
// that take part in the legacy stream's rules.

#ifndef DEVRT_BACKENDS_GPU_RECORDS_H_
#define DEVRT_BACKENDS_GPU_RECORDS_H_

#include "backends/gpu/backend.h"

namespace devrt::gpu {

// Questions after an event that was recorded just now: some microseconds.
inline constexpr int kFreshPolls = 64;

// ---- Bare records
//
// A record behind legacy work, with no work of its own blocking stream before
// it, counts for neither the driver's query nor its synchronisation of that
// stream (C19).  An event of ours behind it tells.

template <class Api>
bool Backend<Api>::HidesRecords(const Stream& stream) {
  if (!stream.blocking || stream.kind == DEVRT_STREAM_LEGACY) return false;
  // What others record on a stream of theirs is not known here.
  return stream.kind == DEVRT_STREAM_ADOPT ||
         stream.records.load(std::memory_order_acquire) !=
             stream.records_complete.load(std::memory_order_acquire);
}

// Under marker_mutex; records never wait.
template <class Api>
typename Api::Error Backend<Api>::RecordMarker(Stream* stream) {
  const uint64_t records = stream->records.load(std::memory_order_acquire);
  const ContextScope scope(*api_, stream->context);
  Error error = scope.error();
  if (error == Api::kSuccess && stream->marker == typename Api::Event{}) {
    error = api_->CreateEvent(false, false, false, &stream->marker);
  }
  typename Api::Event marker{};
  if (error == Api::kSuccess) {
    error = Renew(&stream->markers, stream, stream->marker, 0, &marker);
  }
  if (error == Api::kSuccess) error = api_->Record(marker, stream->native);
  if (error != Api::kSuccess) return error;
  Renewed(&stream->markers);
  stream->marker = marker;
  stream->marker_pending = true;
  stream->marked_records = records;
  return error;
}

// Also for what the legacy stream still holds for this one.
template <class Api>
typename Api::Error Backend<Api>::SynchronizeRecords(Stream* stream) {
  uint64_t records = 0;
  typename Api::Event marker{};
  {
    const std::lock_guard<std::mutex> lock(stream->marker_mutex);
    if (const Error error = RecordMarker(stream); error != Api::kSuccess) {
      return error;
    }
    records = stream->marked_records;
    marker = stream->marker;
  }
  const Error error = api_->SynchronizeEvent(marker);
  if (error == Api::kSuccess) {
    stream->records_complete.store(records, std::memory_order_release);
  }
  return error;
}

// Under marker_mutex.
template <class Api>
void Backend<Api>::NoteMarkerComplete(Stream* stream) {
  stream->marker_pending = false;
  stream->records_complete.store(stream->marked_records,
                                 std::memory_order_release);
}

template <class Api>
typename Api::Error Backend<Api>::QueryRecords(Stream* stream) {
  const std::lock_guard<std::mutex> lock(stream->marker_mutex);
  // A marker that is pending is not recorded again: each question would move
  // it away from its answer.
  if (stream->marker_pending) {
    const Error error = api_->QueryEvent(stream->marker);
    if (error != Api::kSuccess) return error;
    NoteMarkerComplete(stream);
    if (!HidesRecords(*stream)) return error;
  }
  Error error = RecordMarker(stream);
  if (error == Api::kSuccess) error = api_->QueryEvent(stream->marker);
  // A fresh one takes a moment where there is nothing to wait for.
  for (int i = 0; error == Api::kNotReady && i < kFreshPolls; ++i) {
    error = api_->QueryEvent(stream->marker);
  }
  if (error == Api::kSuccess) NoteMarkerComplete(stream);
  return error;
}

// ---- Early reads
//
// The source of a small copy from pinned memory is read at its submission where
// the stream itself has nothing to do, also if the legacy stream's rules let it
// wait for others (measured: below 32 KiB, docs/decisions/0010).  A wait for an
// event that was recorded on the stream itself is something to do.

template <class Api>
bool Backend<Api>::ReadsEarly(const Stream& stream, uint64_t size,
                              uint32_t kind) const {
  return stream.blocking && size < Api::kEarlyReadBelow &&
         (kind == DEVRT_COPY_H2D || kind == DEVRT_COPY_INFER);
}

// Two threads' records and waits may mix: the stream is the same.
template <class Api>
typename Api::Error Backend<Api>::Fence(Stream* stream) {
  typename Api::Event fence = stream->fence.load(std::memory_order_acquire);
  if (fence == typename Api::Event{}) {
    const std::lock_guard<std::mutex> lock(stream->marker_mutex);
    fence = stream->fence.load(std::memory_order_relaxed);
    if (fence == typename Api::Event{}) {
      const ContextScope scope(*api_, stream->context);
      Error error = scope.error();
      if (error == Api::kSuccess) {
        error = api_->CreateEvent(false, false, false, &fence);
      }
      if (error != Api::kSuccess) return error;
      stream->fence.store(fence, std::memory_order_release);
    }
  }
  const Error error = api_->Record(fence, stream->native);
  return error != Api::kSuccess ? error : api_->Wait(stream->native, fence);
}

// ---- Pending records
//
// Where re-recording an event whose record is pending is undefined (C27), what
// is recorded is another one: `*event` becomes `current` if that is complete,
// and what no pending record holds if not.  In the stream's context.

template <class Api>
typename Api::Error Backend<Api>::Renew(FreshEvents<Api>* others,
                                        Stream* stream,
                                        typename Api::Event current,
                                        unsigned flags,
                                        typename Api::Event* event) {
  *event = current;
  if constexpr (Api::kPendingRecordsAreFixed) {
    return others->Take(
        *api_, stream->clock, current,
        [&](typename Api::Event* made) {
          return api_->CreateEvent((flags & DEVRT_EVENT_TIMING) != 0,
                                   (flags & DEVRT_EVENT_BLOCKING_SYNC) != 0,
                                   (flags & DEVRT_EVENT_IPC) != 0, made);
        },
        event);
  } else {
    (void)others;
    (void)stream;
    (void)flags;
    return Api::kSuccess;
  }
}

template <class Api>
void Backend<Api>::Renewed(FreshEvents<Api>* others) {
  if constexpr (Api::kPendingRecordsAreFixed) others->Recorded();
}

// ---- All of them

template <class Api>
void Backend<Api>::DestroyEventsOf(Stream* stream) {
  for (const typename Api::Event event :
       {stream->marker, stream->fence.load(std::memory_order_relaxed),
        stream->bare.event}) {
    if (event != typename Api::Event{}) (void)api_->DestroyEvent(event);
  }
  stream->markers.Destroy(*api_);
  stream->window.Destroy(*api_);
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_RECORDS_H_
