// SPDX-License-Identifier: Apache-2.0
//
// Events<Api>: the slots of events, and devrt.event_ipc/0. The native event is
// made at the first record, in the context of the stream (C99).
//
// Threads: every member from any thread.

#ifndef DEVRT_BACKENDS_GPU_EVENT_H_
#define DEVRT_BACKENDS_GPU_EVENT_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "backends/gpu/context_scope.h"
#include "backends/gpu/device.h"
#include "backends/gpu/objects.h"
#include "backends/gpu/submit.h"
#include "devrt/backends/abi/devrt_event_ipc.h"

namespace devrt::gpu {

template <class Api>
class Events {
 public:
  using Error = typename Api::Error;
  using Context = typename Api::Context;
  using Device = gpu::Device<Api>;
  using Stream = gpu::Stream<Api>;
  using Event = gpu::Event<Api>;

  explicit Events(Devices<Api>* devices)
      : driver_(devices->driver()), api_(driver_.api()), devices_(*devices) {}
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  devrt_status event_create(uint32_t device, uint32_t flags,
                            devrt_event* event);
  devrt_status event_destroy(devrt_event event);
  devrt_status event_record(devrt_event event, devrt_stream stream);
  devrt_status event_query(devrt_event event, uint32_t* done);
  devrt_status event_sync(devrt_event event);
  devrt_status event_elapsed_ns(devrt_event begin, devrt_event end,
                                int64_t* nanoseconds);
  devrt_status event_native(devrt_event event, void** native);

  // devrt.event_ipc/0 of the plugin whose class is `Backend`; nullptr if the
  // driver lacks a function.
  template <class Backend>
  const devrt_event_ipc_v0* EventIpcTable() const {
    static constexpr devrt_event_ipc_v0 kTable = {
        sizeof(devrt_event_ipc_v0), 0,
        plugin::Thunk<&Events::EventExport, Backend>,
        plugin::Thunk<&Events::EventOpen, Backend>};
    const bool has = (api_.MissingCapabilities() & DEVRT_CAP_EVENT_IPC) == 0;
    return has ? &kTable : nullptr;
  }

 private:
  devrt_status EventExport(devrt_event event, devrt_event_handle_v0* name);
  devrt_status EventOpen(uint32_t device, const devrt_event_handle_v0* name,
                         devrt_event* opened);
  // The error if no time can be measured between the two events.
  devrt_status CheckTimed(devrt_event begin, devrt_event end);
  devrt_status EnsureEvent(Event* event, Context context, uint64_t id);
  static Error RecordFresh(const Api& api, Event* event, Stream* stream);
  static RecordMark LastRecord(Event* event, typename Api::Event* native);

  Driver<Api>& driver_;
  const Api& api_;
  Devices<Api>& devices_;
};

template <class Api>
devrt_status Events<Api>::event_create(uint32_t ordinal, uint32_t flags,
                                       devrt_event* event) {
  Device* device = nullptr;
  if (devrt_status error = devices_.Find(ordinal, &device)) return error;
  if ((flags & DEVRT_EVENT_IPC) != 0 && (flags & DEVRT_EVENT_TIMING) != 0) {
    return driver_.Refuse(DEVRT_INVALID_ARGUMENT,
                          "an interprocess event cannot have timing");
  }
  if (devrt_status error = driver_.EarlierFault("event creation", device)) {
    return error;
  }
  auto made = std::make_unique<Event>();
  made->device = device;
  made->flags = flags;
  *event = reinterpret_cast<devrt_event>(made.release());
  return nullptr;
}

template <class Api>
devrt_status Events<Api>::event_destroy(devrt_event handle) {
  const std::unique_ptr<Event> gone(Event::Of(handle));
  for (auto& other : gone->other_contexts) {
    uint64_t now = 0;
    if (api_.ContextId(other.context, &now) != Api::kSuccess ||
        now != other.context_id) {
      continue;
    }
    other.others.Destroy(api_);
    (void)api_.DestroyEvent(other.native);
  }
  const typename Api::Event native = gone->native.load();
  if (native == typename Api::Event{}) return nullptr;
  if (CheckAlive(api_, *gone) != Api::kSuccess) return nullptr;
  gone->others.Destroy(api_);
  return driver_.ToStatusOfEnd(api_.DestroyEvent(native), "event destruction",
                               gone->device);
}

template <class Api>
devrt_status Events<Api>::EnsureEvent(Event* event, Context context,
                                      uint64_t id) {
  const std::lock_guard<std::mutex> lock(event->mutex);
  const typename Api::Event old = event->native.load(std::memory_order_relaxed);
  if (old != typename Api::Event{} && event->context_id.load() == id) {
    return nullptr;
  }
  if (event->shared.load(std::memory_order_relaxed)) {
    return driver_.Refuse(
        DEVRT_INVALID_ARGUMENT,
        "an interprocess event of %s:%u cannot be recorded on a "
        "stream of another context than its own: use a stream of "
        "devrt's",
        Api::kBackend, event->device->ordinal);
  }
  const ContextScope<Api> scope(api_, context);
  Error error = scope.error();
  typename Api::Event made{};
  if (error == Api::kSuccess) {
    error = api_.CreateEvent((event->flags & DEVRT_EVENT_TIMING) != 0,
                             (event->flags & DEVRT_EVENT_BLOCKING_SYNC) != 0,
                             (event->flags & DEVRT_EVENT_IPC) != 0, &made);
  }
  if (error != Api::kSuccess) {
    return driver_.ToStatus(error, "event creation", event->device);
  }
  // Another thread may have read the old event, and may be about to use it.
  if (old != typename Api::Event{}) {
    event->other_contexts.push_back({event->context.load(),
                                     event->context_id.load(), old,
                                     std::move(event->others)});
    event->others.Forget();
  }
  event->context.store(context);
  event->native.store(made, std::memory_order_release);
  // A thread that sees the number sees the event.
  event->context_id.store(id, std::memory_order_release);
  return nullptr;
}

// ---- Interprocess events ----------------------------------------------------

template <class Api>
devrt_status Events<Api>::EventExport(devrt_event handle,
                                      devrt_event_handle_v0* name) {
  Event* const event = Event::Of(handle);
  if ((event->flags & DEVRT_EVENT_IPC) == 0) {
    return driver_.Refuse(
        DEVRT_INVALID_ARGUMENT,
        "an event of %s:%u that was not created as an interprocess "
        "one cannot be exported",
        Api::kBackend, event->device->ordinal);
  }
  Context context{};
  if (devrt_status error = devices_.Enter(event->device, &context)) {
    return error;
  }
  if (event->native.load(std::memory_order_acquire) == typename Api::Event{}) {
    const uint64_t id = event->device->context_id.load();
    if (devrt_status error = EnsureEvent(event, context, id)) return error;
  }
  // From here on, records use the event that was exported.
  const std::lock_guard<std::mutex> lock(event->mutex);
  const ContextScope<Api> scope(api_, event->context.load());
  Error error = scope.error();
  if (error == Api::kSuccess) {
    error = api_.ExportEvent(event->native.load(), name);
  }
  if (error != Api::kSuccess) {
    return driver_.ToStatus(error, "event export", event->device);
  }
  event->shared.store(true, std::memory_order_release);
  return nullptr;
}

template <class Api>
devrt_status Events<Api>::EventOpen(uint32_t ordinal,
                                    const devrt_event_handle_v0* name,
                                    devrt_event* opened) {
  Device* device = nullptr;
  if (devrt_status error = devices_.Find(ordinal, &device)) return error;
  auto made = std::make_unique<Event>();
  made->device = device;
  made->flags = DEVRT_EVENT_IPC;
  made->shared.store(true, std::memory_order_relaxed);
  Context context{};
  if (devrt_status error = devices_.Enter(device, &context)) return error;
  made->context.store(context);
  made->context_id.store(device->context_id.load(std::memory_order_relaxed));
  const ContextScope<Api> scope(api_, context);
  Error error = scope.error();
  typename Api::Event native{};
  if (error == Api::kSuccess) error = api_.OpenEvent(*name, &native);
  if (error == Api::kMapFailed) {
    return driver_.Refuse(
        DEVRT_INVALID_ARGUMENT,
        "no other process has given out this handle of an "
        "interprocess event of %s:%u, or it has destroyed the event",
        Api::kBackend, ordinal);
  }
  if (error != Api::kSuccess) {
    return driver_.ToStatus(error, "opening of an interprocess event", device);
  }
  made->native.store(native, std::memory_order_release);
  *opened = reinterpret_cast<devrt_event>(made.release());
  return nullptr;
}

template <class Api>
devrt_status Events<Api>::event_record(devrt_event handle,
                                       devrt_stream stream_handle) {
  Event* const event = Event::Of(handle);
  Stream* const stream = Stream::Of(stream_handle);
  if (event->device != stream->device) {
    return driver_.Refuse(
        DEVRT_INVALID_ARGUMENT,
        "an event of %s:%u cannot be recorded on a stream of %s:%u",
        Api::kBackend, event->device->ordinal, Api::kBackend,
        stream->device->ordinal);
  }
  if (event->context_id.load(std::memory_order_acquire) != stream->context_id) {
    if (devrt_status error =
            EnsureEvent(event, stream->context, stream->context_id)) {
      return error;
    }
  }
  // A local copy, so that `this` is not kept over the calls.
  Driver<Api>& driver = driver_;
  const Api& api = driver.api();
  const Error error =
      Enqueue(api, stream, [&] { return RecordFresh(api, event, stream); });
  if (error != Api::kSuccess) {
    return driver.ToStatus(error, "event record", event->device);
  }
  // Counted after the native call: records that are known to be complete are
  // older.
  event->records.fetch_add(1, std::memory_order_acq_rel);
  if (stream->blocking) stream->hidden.Count();
  return nullptr;
}

template <class Api>
typename Api::Error Events<Api>::RecordFresh(const Api& api, Event* event,
                                             Stream* stream) {
  if constexpr (!Api::kPendingRecordsAreFixed) {
    return api.Record(event->native.load(std::memory_order_acquire),
                      stream->native);
  }
  {
    // Held during the record, so that no other thread uses the chosen event.
    const std::lock_guard<std::mutex> lock(event->mutex);
    typename Api::Event native = event->native.load(std::memory_order_relaxed);
    Error error = Api::kSuccess;
    const bool is_shared = event->shared.load(std::memory_order_relaxed);
    if (!is_shared) {
      error = PickFreshEvent(api, &event->others, stream->clock, native,
                             event->flags, &native);
    }
    if (error == Api::kSuccess) error = api.Record(native, stream->native);
    if (error != Api::kSuccess) return error;
    if (!is_shared) FreshEventRecorded(&event->others);
    // Stored after the record, so that queries use the former event until then.
    event->native.store(native, std::memory_order_release);
  }
  return stream->device->edges.Note(api, stream);
}

// Returns the mark of the newest record, and the native event that was
// recorded.
template <class Api>
RecordMark Events<Api>::LastRecord(Event* event, typename Api::Event* native) {
  if constexpr (!Api::kPendingRecordsAreFixed) {
    *native = event->native.load();
    return {};
  }
  const std::lock_guard<std::mutex> lock(event->mutex);
  *native = event->native.load();
  return event->others.last();
}

template <class Api>
devrt_status Events<Api>::event_query(devrt_event handle, uint32_t* done) {
  Event* const event = Event::Of(handle);
  const uint64_t records = event->records.load(std::memory_order_acquire);
  if (event->IsKnownComplete(records)) {
    *done = 1;
    return nullptr;
  }
  typename Api::Event native{};
  const RecordMark last = LastRecord(event, &native);
  Error error = CheckAlive(api_, *event);
  if (error == Api::kSuccess) error = api_.QueryEvent(native);
  if (error == Api::kSuccess) {
    last.SetOver();
    event->complete.store(records, std::memory_order_release);
    *done = 1;
    return nullptr;
  }
  if (error != Api::kNotReady) {
    return driver_.ToStatus(error, "event query", event->device);
  }
  *done = 0;
  return nullptr;
}

template <class Api>
devrt_status Events<Api>::event_sync(devrt_event handle) {
  Event* const event = Event::Of(handle);
  const uint64_t records = event->records.load(std::memory_order_acquire);
  if (event->IsKnownComplete(records)) return nullptr;
  typename Api::Event native{};
  const RecordMark last = LastRecord(event, &native);
  Error error = CheckAlive(api_, *event);
  if (error == Api::kSuccess) error = api_.SynchronizeEvent(native);
  if (error != Api::kSuccess) {
    return driver_.ToStatus(error, "event sync", event->device);
  }
  last.SetOver();
  event->complete.store(records, std::memory_order_release);
  return nullptr;
}

template <class Api>
devrt_status Events<Api>::CheckTimed(devrt_event begin_handle,
                                     devrt_event end_handle) {
  Event* const begin = Event::Of(begin_handle);
  Event* const end = Event::Of(end_handle);
  for (const Event* const event : {begin, end}) {
    if ((event->flags & DEVRT_EVENT_TIMING) == 0) {
      return driver_.Refuse(DEVRT_INVALID_ARGUMENT,
                            "Both events must be created with argument "
                            "'enable_timing=True'");
    }
  }
  for (const Event* const event : {begin, end}) {
    if (event->records.load() == 0) {
      return driver_.Refuse(
          DEVRT_INVALID_ARGUMENT,
          "Both events must be recorded before calculating elapsed time");
    }
  }
  if (begin->device != end->device) {
    return driver_.Refuse(
        DEVRT_INVALID_ARGUMENT,
        "elapsed time between events of %s:%u and %s:%u: both must "
        "be of one device",
        Api::kBackend, begin->device->ordinal, Api::kBackend,
        end->device->ordinal);
  }
  for (const devrt_event event : {begin_handle, end_handle}) {
    uint32_t done = 0;
    if (devrt_status error = event_query(event, &done)) return error;
    if (done == 0) {
      return driver_.Refuse(
          DEVRT_FAILED_PRECONDITION,
          "Both events must be completed before calculating elapsed time");
    }
  }
  return nullptr;
}

template <class Api>
devrt_status Events<Api>::event_elapsed_ns(devrt_event begin_handle,
                                           devrt_event end_handle,
                                           int64_t* nanoseconds) {
  if (devrt_status error = CheckTimed(begin_handle, end_handle)) return error;
  Event* const begin = Event::Of(begin_handle);
  Event* const end = Event::Of(end_handle);
  if (begin == end) {
    *nanoseconds = 0;
    return nullptr;
  }
  Error error = CheckAlive(api_, *begin);
  if (error == Api::kSuccess) error = CheckAlive(api_, *end);
  if (error == Api::kSuccess) {
    error = api_.Elapsed(begin->native.load(), end->native.load(), nanoseconds);
  }
  return driver_.ToStatus(error, "elapsed time", begin->device);
}

template <class Api>
devrt_status Events<Api>::event_native(devrt_event handle, void** native) {
  *native = reinterpret_cast<void*>(Event::Of(handle)->native.load());
  return nullptr;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_EVENT_H_
