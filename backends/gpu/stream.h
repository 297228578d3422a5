// SPDX-License-Identifier: Apache-2.0
//
// Backend<Api>: streams of all kinds, and host functions.

#ifndef DEVRT_BACKENDS_GPU_STREAM_H_
#define DEVRT_BACKENDS_GPU_STREAM_H_

#include <algorithm>
#include <thread>

#include "backends/gpu/backend.h"

namespace devrt::gpu {

template <class Api>
template <typename Call>
devrt_status Backend<Api>::Submit(Stream* stream, const char* entry_point,
                                  Call call) {
  Error error = CheckAlive(*stream);
  // What others submit to a stream of theirs is not counted here.
  if (error == Api::kSuccess && stream->kind != DEVRT_STREAM_ADOPT) {
    const uint64_t number = stream->window.Count();
    if (QueueWindow<Api>::IsMark(number)) {
      const ContextScope scope(*api_, stream->context);
      error = scope.error();
      if (error == Api::kSuccess) {
        error = stream->window.Mark(*api_, stream->native, number);
      }
    }
  }
  if (error == Api::kSuccess) error = Enqueue(stream, call);
  return Take(error, entry_point, stream->device);
}

template <class Api>
devrt_status Backend<Api>::stream_create(uint32_t ordinal,
                                         const devrt_stream_desc_v0* desc,
                                         devrt_stream* stream) {
  Device* device = nullptr;
  if (devrt_status error = Find(ordinal, &device)) return error;
  if (desc->kind == DEVRT_STREAM_ADOPT) {
    return Adopt(device, desc->native, stream);
  }
  if (desc->kind == DEVRT_STREAM_LEGACY ||
      desc->kind == DEVRT_STREAM_PER_THREAD) {
    return DefaultStream(device, desc->kind, stream);
  }
  if (desc->kind != DEVRT_STREAM_CREATE) {
    return Refuse(DEVRT_INVALID_ARGUMENT, "there is no stream kind %u",
                  desc->kind);
  }
  Context context{};
  if (devrt_status error = Enter(device, &context)) return error;
  auto made = std::make_unique<Stream>();
  made->device = device;
  made->kind = desc->kind;
  made->blocking = (desc->flags & DEVRT_STREAM_BLOCKING) != 0;
  made->context = context;
  made->context_id = device->context_id.load(std::memory_order_relaxed);
  DestroyEnded();
  const ContextScope scope(*api_, context);
  Error error = scope.error();
  if (error == Api::kSuccess) {
    error = api_->CreateStream(made->blocking, desc->priority, &made->native);
  }
  if (error != Api::kSuccess) return Take(error, "stream creation", device);
  AddBlocking(made.get());
  *stream = reinterpret_cast<devrt_stream>(made.release());
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::DefaultStream(Device* device, uint32_t kind,
                                         devrt_stream* stream) {
  Context context{};
  if (devrt_status error = Enter(device, &context)) return error;
  const auto make = [&](typename Api::Stream native) {
    auto made = std::make_unique<Stream>();
    made->device = device;
    made->kind = kind;
    made->blocking = true;
    made->context = context;
    made->context_id = device->context_id.load(std::memory_order_relaxed);
    made->native = native;
    return made;
  };
  if (kind == DEVRT_STREAM_LEGACY) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<Stream>& legacy = legacy_[device->ordinal];
    if (legacy == nullptr) legacy = make(Api::LegacyStream());
    *stream = reinterpret_cast<devrt_stream>(legacy.get());
    return nullptr;
  }
  // The handle means the calling thread's stream, so a thread has its own:
  // found in a list of the thread's, and while the thread ends, when that list
  // may be gone already, in the list of all.
  struct Own {
    std::vector<Stream*> streams;
    // The backend, and with it the streams, may be gone before the thread.
    std::vector<std::shared_ptr<std::atomic<bool>>> ended;
    bool* is_gone;
    ~Own() {
      *is_gone = true;
      for (const auto& flag : ended) flag->store(true);
    }
  };
  static thread_local bool is_gone = false;
  static thread_local Own own{{}, {}, &is_gone};
  if (!is_gone && own.streams.size() <= device->ordinal) {
    own.streams.resize(device->ordinal + 1);
  }
  Stream* mine =
      is_gone ? OfEndingThread(device) : own.streams[device->ordinal];
  if (mine == nullptr) mine = OfEndedThread(device);
  if (mine == nullptr) {
    auto made = make(Api::PerThreadStream());
    made->thread = std::this_thread::get_id();
    made->ended = std::make_shared<std::atomic<bool>>(false);
    mine = made.get();
    AddBlocking(mine);
    const std::lock_guard<std::mutex> lock(mutex_);
    per_thread_.push_back(std::move(made));
  }
  if (!is_gone && own.streams[device->ordinal] != mine) {
    own.streams[device->ordinal] = mine;
    own.ended.push_back(mine->ended);
  }
  *stream = reinterpret_cast<devrt_stream>(mine);
  return nullptr;
}

// The calling thread's, whose list is gone.
template <class Api>
typename Backend<Api>::Stream* Backend<Api>::OfEndingThread(Device* device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto s = per_thread_.rbegin(); s != per_thread_.rend(); ++s) {
    if ((*s)->thread != std::this_thread::get_id()) continue;
    if ((*s)->device != device) continue;
    (*s)->ended->store(false);  // nobody else's yet
    return s->get();
  }
  return nullptr;
}

// One that an ended thread has left, for the calling thread. It is not
// destroyed, since its handle might still be in somebody's hands.
template <class Api>
typename Backend<Api>::Stream* Backend<Api>::OfEndedThread(Device* device) {
  const uint64_t id = device->context_id.load(std::memory_order_relaxed);
  Stream* found = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& s : per_thread_) {
      if (s->device != device || s->context_id != id) continue;
      bool was_ended = true;
      if (!s->ended->compare_exchange_strong(was_ended, false)) continue;
      s->thread = std::this_thread::get_id();
      found = s.get();
      break;
    }
  }
  if (found == nullptr) return nullptr;
  // What was recorded was on that thread's native stream.
  RemoveBlocking(found);
  {
    const std::lock_guard<std::mutex> lock(found->marker_mutex);
    found->marker_pending = false;
    found->records_complete.store(found->records.load());
    found->bare.legacy_joined = 0;
    if (found->clock != nullptr) found->clock = std::make_shared<RecordClock>();
  }
  AddBlocking(found);
  return found;
}

template <class Api>
devrt_status Backend<Api>::Adopt(Device* device, void* native,
                                 devrt_stream* stream) {
  if (reinterpret_cast<uintptr_t>(native) <= Api::kLastMagicStream) {
    return Refuse(DEVRT_INVALID_ARGUMENT,
                  "native stream %p is a default stream's number: ask for the "
                  "legacy or the per-thread stream by its kind",
                  native);
  }
  auto made = std::make_unique<Stream>();
  made->device = device;
  made->kind = DEVRT_STREAM_ADOPT;
  made->native = reinterpret_cast<typename Api::Stream>(native);
  Error error = api_->ContextOf(made->native, &made->context);
  if (error == Api::kSuccess) {
    error = api_->ContextId(made->context, &made->context_id);
  }
  bool knows_blocking = false;
  if constexpr (Api::kHasCaptures) {
    bool capturing = false;
    if (error == Api::kSuccess && api_->CanTellCaptures()) {
      error = api_->IsCapturing(made->native, &capturing);
    }
    // Its flags cannot be asked for without making the capture invalid.  But a
    // blocking stream that captures shows in the legacy one (C83).
    bool legacy_captures = false;
    if (error == Api::kSuccess && capturing) {
      const ContextScope scope(*api_, made->context);
      error = scope.error();
      if (error == Api::kSuccess) {
        error = api_->IsCapturing(Api::LegacyStream(), &legacy_captures);
      }
    }
    if (error == Api::kSuccess && legacy_captures) {
      return Refuse(DEVRT_FAILED_PRECONDITION,
                    "native stream %p of %s:%u is capturing, and it or another "
                    "stream that captures is blocking: adopt it before the "
                    "capture begins",
                    native, Api::kBackend, device->ordinal);
    }
    knows_blocking = capturing;
  }
  if (error == Api::kSuccess && !knows_blocking) {
    error = api_->IsBlocking(made->native, &made->blocking);
  }
  typename Api::Device owner{};
  if (error == Api::kSuccess) {
    const ContextScope scope(*api_, made->context);
    error = scope.error();
    if (error == Api::kSuccess) error = api_->CurrentDevice(&owner);
  }
  if (error != Api::kSuccess)
    return Take(error, "adoption of a stream", device);
  if (owner != device->native) {
    uint32_t actual = 0;
    for (const Device& d : devices_) {
      if (d.native == owner) actual = d.ordinal;
    }
    return Refuse(DEVRT_INVALID_ARGUMENT,
                  "native stream %p belongs to %s:%u, not to %s:%u", native,
                  Api::kBackend, actual, Api::kBackend, device->ordinal);
  }
  if (made->context != device->context.load()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    foreign_.push_back(made.get());
  }
  AddBlocking(made.get());
  *stream = reinterpret_cast<devrt_stream>(made.release());
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::stream_destroy(devrt_stream handle) {
  Stream* const stream = Of(handle);
  if (stream->kind == DEVRT_STREAM_LEGACY ||
      stream->kind == DEVRT_STREAM_PER_THREAD) {
    return Refuse(DEVRT_INVALID_ARGUMENT,
                  "a default stream of %s:%u cannot be destroyed",
                  Api::kBackend, stream->device->ordinal);
  }
  std::unique_ptr<Stream> gone(stream);
  RemoveBlocking(stream);
  const bool is_alive = CheckAlive(*stream) == Api::kSuccess;
  if (Api::kDestroyedStreamsLoseWork && is_alive &&
      gone->kind != DEVRT_STREAM_ADOPT) {
    DestroyEnded();
    return DestroyLater(std::move(gone));
  }
  if (is_alive) DestroyEventsOf(stream);
  if (gone->kind == DEVRT_STREAM_ADOPT) {
    const std::lock_guard<std::mutex> lock(mutex_);
    foreign_.erase(std::remove(foreign_.begin(), foreign_.end(), stream),
                   foreign_.end());
    return nullptr;
  }
  if (!is_alive) return nullptr;  // the native one went with its context
  return TakeEnd(api_->DestroyStream(gone->native), "stream destruction",
                 gone->device);
}

template <class Api>
devrt_status Backend<Api>::stream_query(devrt_stream handle, uint32_t* done) {
  Stream* const stream = Of(handle);
  Error error = On(*stream, [&] { return api_->QueryStream(stream->native); });
  if (error == Api::kSuccess && HidesRecords(*stream)) {
    error = QueryRecords(stream);
  }
  if (error == Api::kSuccess || error == Api::kNotReady) {
    *done = error == Api::kSuccess ? 1 : 0;
    return nullptr;
  }
  return Take(error, "stream query", stream->device);
}

template <class Api>
devrt_status Backend<Api>::stream_sync(devrt_stream handle) {
  Stream* const stream = Of(handle);
  Error error =
      On(*stream, [&] { return api_->SynchronizeStream(stream->native); });
  if (error == Api::kSuccess && HidesRecords(*stream)) {
    error = SynchronizeRecords(stream);
  }
  return Take(error, "stream sync", stream->device);
}

template <class Api>
devrt_status Backend<Api>::stream_native(devrt_stream handle, void** native) {
  *native = reinterpret_cast<void*>(Of(handle)->native);
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::stream_wait_event(devrt_stream handle,
                                             devrt_event event_handle) {
  Stream* const stream = Of(handle);
  Event* const event = Of(event_handle);
  const typename Api::Event native =
      event->native.load(std::memory_order_acquire);
  // Never recorded: an empty set of work.
  if (event->records.load(std::memory_order_acquire) == 0 &&
      !event->shared.load(std::memory_order_acquire)) {
    return Fault("wait for an event", stream->device);
  }
  return Take(
      Enqueue(stream,
              [&] {
                // One call less where both are of one context.
                const Error error = event->context_id == stream->context_id
                                        ? Api::kSuccess
                                        : CheckAlive(*event);
                return error != Api::kSuccess ? error
                                              : WaitBare(stream, native);
              }),
      "wait for an event", stream->device);
}

// ---- Host functions ---------------------------------------------------------

template <class Api>
devrt_status Backend<Api>::host_func(devrt_stream handle,
                                     void (*fn)(void*, devrt_status),
                                     void* arg) {
  Stream* const stream = Of(handle);
  struct Call {
    Backend* backend;
    const Device* device;
    void (*fn)(void*, devrt_status);
    void* arg;
  };
  auto call = std::make_unique<Call>(Call{this, stream->device, fn, arg});
  const typename Api::Callback run = [](typename Api::Stream, Error error,
                                        void* closure) {
    const std::unique_ptr<Call> c(static_cast<Call*>(closure));
    c->fn(c->arg, c->backend->Take(error, "host function", c->device));
  };
  const Error error = Enqueue(stream, [&] {
    return api_->AddCallback(stream->native, run, call.get());
  });
  if (error != Api::kSuccess)
    return Take(error, "host function", stream->device);
  call.release();
  return nullptr;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_STREAM_H_
