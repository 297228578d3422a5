// SPDX-License-Identifier: Apache-2.0
//
// Streams<Api>: the slots of streams of all kinds, and of host functions.
//
// Threads: every member from any thread.

#ifndef DEVRT_BACKENDS_GPU_STREAM_H_
#define DEVRT_BACKENDS_GPU_STREAM_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "backends/gpu/context_scope.h"
#include "backends/gpu/default_streams.h"
#include "backends/gpu/device.h"
#include "backends/gpu/objects.h"
#include "backends/gpu/relaxed_thread.h"
#include "backends/gpu/submit.h"

namespace devrt::gpu {

template <class Api>
class Streams {
 public:
  using Error = typename Api::Error;
  using Context = typename Api::Context;
  using Device = gpu::Device<Api>;
  using Stream = gpu::Stream<Api>;
  using Event = gpu::Event<Api>;

  explicit Streams(Devices<Api>* devices)
      : driver_(devices->driver()), api_(driver_.api()), devices_(*devices) {}
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  devrt_status stream_create(uint32_t device, const devrt_stream_desc_v0* desc,
                             devrt_stream* stream);
  devrt_status stream_destroy(devrt_stream stream);
  devrt_status stream_query(devrt_stream stream, uint32_t* done);
  devrt_status stream_sync(devrt_stream stream);
  devrt_status stream_native(devrt_stream stream, void** native);
  devrt_status stream_wait_event(devrt_stream stream, devrt_event event);
  devrt_status host_func(devrt_stream stream,
                         void (*fn)(void* arg, devrt_status error), void* arg);

 private:
  devrt_status FindDefault(Device* device, uint32_t kind, devrt_stream* stream);
  devrt_status Adopt(Device* device, void* native, devrt_stream* stream);
  // Sets `stream->blocking`.  Sets `*is_unknown` if the stream captures, so
  // that the driver cannot be asked, and may be blocking.
  Error FindBlocking(Stream* stream, bool* is_unknown);
  Error FindDevice(Context context, typename Api::Device* device);
  // The error for the native stream `native` of `owner`, not of `device`.
  devrt_status RefuseForeign(void* native, typename Api::Device owner,
                             const Device& device);

  Driver<Api>& driver_;
  const Api& api_;
  Devices<Api>& devices_;
  DefaultStreams<Api> defaults_;
};

template <class Api>
devrt_status Streams<Api>::stream_create(uint32_t ordinal,
                                         const devrt_stream_desc_v0* desc,
                                         devrt_stream* stream) {
  Device* device = nullptr;
  if (devrt_status error = devices_.Find(ordinal, &device)) return error;
  if (desc->kind == DEVRT_STREAM_ADOPT) {
    return Adopt(device, desc->native, stream);
  }
  if (desc->kind == DEVRT_STREAM_LEGACY ||
      desc->kind == DEVRT_STREAM_PER_THREAD) {
    return FindDefault(device, desc->kind, stream);
  }
  if (desc->kind != DEVRT_STREAM_CREATE) {
    return driver_.Refuse(DEVRT_INVALID_ARGUMENT,
                          "stream kind %u does not exist", desc->kind);
  }
  Context context{};
  if (devrt_status error = devices_.Enter(device, &context)) return error;
  auto made = std::make_unique<Stream>();
  made->device = device;
  made->kind = desc->kind;
  made->blocking = (desc->flags & DEVRT_STREAM_BLOCKING) != 0;
  made->context = context;
  made->context_id = device->context_id.load(std::memory_order_relaxed);
  device->ending.DestroyEnded(api_);
  const ContextScope<Api> scope(api_, context);
  Error error = scope.error();
  if (error == Api::kSuccess) {
    error = api_.CreateStream(made->blocking, desc->priority, &made->native);
  }
  if (error != Api::kSuccess) {
    return driver_.ToStatus(error, "stream creation", device);
  }
  device->edges.Add(made.get());
  *stream = made.release()->handle();
  return nullptr;
}

template <class Api>
devrt_status Streams<Api>::FindDefault(Device* device, uint32_t kind,
                                       devrt_stream* stream) {
  Context context{};
  if (devrt_status error = devices_.Enter(device, &context)) return error;
  *stream =
      (kind == DEVRT_STREAM_LEGACY ? defaults_.Legacy(device, context)
                                   : defaults_.PerThread(api_, device, context))
          ->handle();
  return nullptr;
}

template <class Api>
devrt_status Streams<Api>::Adopt(Device* device, void* native,
                                 devrt_stream* stream) {
  if (reinterpret_cast<uintptr_t>(native) <= Api::kLastMagicStream) {
    return driver_.Refuse(
        DEVRT_INVALID_ARGUMENT,
        "native stream %p is a default stream's number: ask for the "
        "legacy or the per-thread stream by its kind",
        native);
  }
  auto made = std::make_unique<Stream>();
  made->device = device;
  made->kind = DEVRT_STREAM_ADOPT;
  made->native = reinterpret_cast<typename Api::Stream>(native);
  Error error = api_.ContextOf(made->native, &made->context);
  if (error == Api::kSuccess) {
    error = api_.ContextId(made->context, &made->context_id);
  }
  bool is_unknown = false;
  if (error == Api::kSuccess) error = FindBlocking(made.get(), &is_unknown);
  if (error == Api::kSuccess && is_unknown) {
    return driver_.Refuse(
        DEVRT_FAILED_PRECONDITION,
        "native stream %p of %s:%u is capturing, and it or another "
        "stream that captures is blocking: adopt it before the "
        "capture begins",
        native, Api::kBackend, device->ordinal);
  }
  typename Api::Device owner{};
  if (error == Api::kSuccess) error = FindDevice(made->context, &owner);
  if (error != Api::kSuccess) {
    return driver_.ToStatus(error, "adoption of a stream", device);
  }
  if (owner != device->native) {
    return RefuseForeign(native, owner, *device);
  }
  if (made->context != device->context.load()) {
    device->foreign.Add(made.get());
  }
  device->edges.Add(made.get());
  *stream = made.release()->handle();
  return nullptr;
}

// A question for the flags would invalidate the stream's capture.  But the
// capture of a blocking stream shows in the legacy stream (C83).
template <class Api>
typename Api::Error Streams<Api>::FindBlocking(Stream* stream,
                                               bool* is_unknown) {
  if constexpr (Api::kHasCaptures) {
    bool captures = false;
    if (api_.CanTellCaptures()) {
      const Error error = api_.IsCapturing(stream->native, &captures);
      if (error != Api::kSuccess) return error;
    }
    if (captures) {
      const ContextScope<Api> scope(api_, stream->context);
      if (scope.error() != Api::kSuccess) return scope.error();
      return api_.IsCapturing(Api::LegacyStream(), is_unknown);
    }
  }
  return api_.IsBlocking(stream->native, &stream->blocking);
}

template <class Api>
typename Api::Error Streams<Api>::FindDevice(Context context,
                                             typename Api::Device* device) {
  const ContextScope<Api> scope(api_, context);
  return scope.error() == Api::kSuccess ? api_.CurrentDevice(device)
                                        : scope.error();
}

template <class Api>
devrt_status Streams<Api>::RefuseForeign(void* native,
                                         typename Api::Device owner,
                                         const Device& device) {
  uint32_t actual = 0;
  for (const Device& d : devices_.all()) {
    if (d.native == owner) actual = d.ordinal;
  }
  return driver_.Refuse(
      DEVRT_INVALID_ARGUMENT, "native stream %p belongs to %s:%u, not to %s:%u",
      native, Api::kBackend, actual, Api::kBackend, device.ordinal);
}

template <class Api>
devrt_status Streams<Api>::stream_destroy(devrt_stream handle) {
  Stream* const stream = Stream::Of(handle);
  if (stream->IsDefault()) {
    return driver_.Refuse(DEVRT_INVALID_ARGUMENT,
                          "a default stream of %s:%u cannot be destroyed",
                          Api::kBackend, stream->device->ordinal);
  }
  std::unique_ptr<Stream> gone(stream);
  stream->device->edges.Remove(api_, stream);
  const bool is_alive = CheckAlive(api_, *stream) == Api::kSuccess;
  if (Api::kDestroyedStreamsLoseWork && is_alive &&
      gone->kind != DEVRT_STREAM_ADOPT) {
    Device* const device = gone->device;
    device->ending.DestroyEnded(api_);
    return driver_.ToStatusOfEnd(device->ending.Add(api_, std::move(gone)),
                                 "stream destruction", device);
  }
  if (is_alive && gone->lease.IsTaken()) {
    // A slot must not reach another stream while work may use it.
    const RelaxedThread<Api> relaxed(api_);
    if (api_.QueryStream(gone->native) == Api::kSuccess) {
      gone->lease.End(&gone->device->leases);
    }
  }
  if (is_alive) DestroyEventsOf(api_, stream);
  if (gone->kind == DEVRT_STREAM_ADOPT) {
    gone->device->foreign.Remove(stream);
    return nullptr;
  }
  if (!is_alive) return nullptr;  // the native stream ended with its context
  return driver_.ToStatusOfEnd(api_.DestroyStream(gone->native),
                               "stream destruction", gone->device);
}

template <class Api>
devrt_status Streams<Api>::stream_query(devrt_stream handle, uint32_t* done) {
  // A local copy, so that `this` is not kept over the calls.
  Driver<Api>& driver = driver_;
  const Api& api = driver.api();
  Stream* const stream = Stream::Of(handle);
  Error error =
      On(api, *stream, [&] { return api.QueryStream(stream->native); });
  if (error == Api::kSuccess && stream->hidden.MayExist(*stream)) {
    error = stream->hidden.Query(api, *stream);
  }
  if (error == Api::kSuccess || error == Api::kNotReady) {
    *done = error == Api::kSuccess ? 1 : 0;
    return nullptr;
  }
  return driver.ToStatus(error, "stream query", stream->device);
}

template <class Api>
devrt_status Streams<Api>::stream_sync(devrt_stream handle) {
  Stream* const stream = Stream::Of(handle);
  Error error =
      On(api_, *stream, [&] { return api_.SynchronizeStream(stream->native); });
  if (error == Api::kSuccess && stream->hidden.MayExist(*stream)) {
    error = stream->hidden.Synchronize(api_, *stream);
  }
  return driver_.ToStatus(error, "stream sync", stream->device);
}

template <class Api>
devrt_status Streams<Api>::stream_native(devrt_stream handle, void** native) {
  *native = reinterpret_cast<void*>(Stream::Of(handle)->native);
  return nullptr;
}

template <class Api>
devrt_status Streams<Api>::stream_wait_event(devrt_stream handle,
                                             devrt_event event_handle) {
  Stream* const stream = Stream::Of(handle);
  Event* const event = Event::Of(event_handle);
  const typename Api::Event native =
      event->native.load(std::memory_order_acquire);
  // The event was never recorded, so there is nothing to wait for.
  if (event->records.load(std::memory_order_acquire) == 0 &&
      !event->shared.load(std::memory_order_acquire)) {
    return driver_.EarlierFault("wait for an event", stream->device);
  }
  return driver_.ToStatus(
      Enqueue(api_, stream,
              [&] {
                // Saves a call if both belong to one context.
                const Error error = event->context_id == stream->context_id
                                        ? Api::kSuccess
                                        : CheckAlive(api_, *event);
                return error != Api::kSuccess
                           ? error
                           : stream->device->edges.Wait(api_, stream, native);
              }),
      "wait for an event", stream->device);
}

// ---- Host functions ---------------------------------------------------------

template <class Api>
devrt_status Streams<Api>::host_func(devrt_stream handle,
                                     void (*fn)(void*, devrt_status),
                                     void* arg) {
  Stream* const stream = Stream::Of(handle);
  struct Call {
    Driver<Api>* driver;
    const Device* device;
    void (*fn)(void*, devrt_status);
    void* arg;
  };
  Driver<Api>& driver = driver_;
  const Api& api = driver.api();
  auto call = std::make_unique<Call>(Call{&driver, stream->device, fn, arg});
  const typename Api::Callback run = [](typename Api::Stream, Error error,
                                        void* closure) {
    const std::unique_ptr<Call> c(static_cast<Call*>(closure));
    c->fn(c->arg, c->driver->ToStatus(error, "host function", c->device));
  };
  const Error error = Enqueue(api, stream, [&] {
    return api.AddCallback(stream->native, run, call.get());
  });
  if (error != Api::kSuccess) {
    return driver.ToStatus(error, "host function", stream->device);
  }
  call.release();
  return nullptr;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_STREAM_H_
