// SPDX-License-Identifier: Apache-2.0
//
// Backend<Api>: opening, errors, devices and contexts.

#ifndef DEVRT_BACKENDS_GPU_DEVICE_H_
#define DEVRT_BACKENDS_GPU_DEVICE_H_

#include <cstdarg>
#include <cstdio>

#include "backends/gpu/backend.h"
#include "backends/gpu/errors.h"

namespace devrt::gpu {

template <class Api>
std::unique_ptr<Backend<Api>> Backend<Api>::Open(const devrt_host_v0* host,
                                                 devrt_status* error,
                                                 uint64_t* capabilities) {
  std::string why;
  std::unique_ptr<Api> api = Api::Load(&why);
  if (api == nullptr) {
    *error = plugin::Error(host, DEVRT_UNAVAILABLE, 0, why);
    return nullptr;
  }
  *capabilities &= ~api->MissingCapabilities();
  int count = api->CountWithoutInit();
  if (count < 0) {
    Error native = api->Init();
    if (native == Api::kSuccess) native = api->Count(&count);
    if (native != Api::kSuccess) {
      *error = plugin::ErrorF(host, DEVRT_UNAVAILABLE,
                              static_cast<int64_t>(native), "%s: %s",
                              api->ErrorName(native), api->ErrorText(native));
      return nullptr;
    }
  }
  if (count == 0) {
    *error =
        plugin::Error(host, DEVRT_UNAVAILABLE, 0, "the driver finds no device");
    return nullptr;
  }
  return std::unique_ptr<Backend>(
      new Backend(host, std::move(api), static_cast<uint32_t>(count)));
}

template <class Api>
Backend<Api>::~Backend() {
  for (const Device& device : devices_) {
    if constexpr (Api::kHasPools) {
      const auto pool = device.pool.load();
      if (pool != typename Api::Pool{}) (void)api_->DestroyPool(pool);
    }
    if (device.context.load() != Context{}) {
      (void)api_->Release(device.native);
    }
  }
}

// ---- Errors -----------------------------------------------------------------

template <class Api>
devrt_status Backend<Api>::Refuse(devrt_code code, const char* format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return plugin::Error(host_, code, 0, text);
}

template <class Api>
devrt_status Backend<Api>::Take(Error native, const char* entry_point,
                                const Device* device) {
  if (native == Api::kSuccess) return nullptr;
  const ErrorMeaning& meaning = Api::MeaningOf(native);
  bool sticky = meaning.error_class == ErrorClass::kSticky;
  if (meaning.error_class == ErrorClass::kSuspect) {
    sticky = ComesAgain(native, device);
  }
  // A device that worked before and is unavailable now is lost, it alone.
  const bool lost = meaning.status == DEVRT_UNAVAILABLE && device != nullptr &&
                    device->context.load() != Context{};
  const char* const name = api_->ErrorName(native);
  devrt_status error =
      plugin::ErrorF(host_, meaning.status, static_cast<int64_t>(native),
                     "%s%s: %s (%s)", lost ? "the device is lost: " : "",
                     entry_point, api_->ErrorText(native), name);
  devrt_error_origin_v0 origin = {};
  origin.struct_size = sizeof origin;
  // A fault takes every context of the process with it (C95).
  if (sticky) {
    origin.flags = DEVRT_ERROR_STICKY | DEVRT_ERROR_ASYNC | DEVRT_ERROR_PROCESS;
    fault_.store(native, std::memory_order_relaxed);
  } else if (lost) {
    origin.flags = DEVRT_ERROR_STICKY;
  }
  origin.native_code = static_cast<int64_t>(native);
  origin.device =
      device != nullptr ? static_cast<int32_t>(device->ordinal) : -1;
  origin.native_name = name;
  origin.entry_point = entry_point;
  host_->error_set_origin(host_->host, error, &origin);
  return error;
}

template <class Api>
devrt_status Backend<Api>::TakeEnd(Error native, const char* entry_point,
                                   const Device* device) {
  if (Api::MeaningOf(native).error_class == ErrorClass::kSticky) return nullptr;
  return Take(native, entry_point, device);
}

// Asks once more, with what never waits.
template <class Api>
bool Backend<Api>::ComesAgain(Error native, const Device* device) {
  if (device == nullptr) return false;
  const Context context = device->context.load(std::memory_order_acquire);
  if (context == Context{}) return false;
  const ContextScope scope(*api_, context);
  return scope.error() == Api::kSuccess &&
         api_->QueryStream(Api::LegacyStream()) == native;
}

// ---- Devices ----------------------------------------------------------------

template <class Api>
devrt_status Backend<Api>::Init() {
  const std::lock_guard<std::mutex> lock(init_mutex_);
  if (is_ready_.load(std::memory_order_relaxed)) return nullptr;
  Error error = api_->Init();
  int now = 0;
  if (error == Api::kSuccess) error = api_->Count(&now);
  if (error == Api::kSuccess && static_cast<uint32_t>(now) != count_) {
    return Refuse(DEVRT_UNAVAILABLE,
                  "%u devices were counted when the backend was opened, but "
                  "the driver has %d: set the variables that choose devices "
                  "before the program starts, and not later",
                  count_, now);
  }
  for (uint32_t i = 0; i < count_ && error == Api::kSuccess; ++i) {
    error = api_->GetDevice(static_cast<int>(i), &devices_[i].native);
  }
  if (error != Api::kSuccess) return Take(error, "driver initialisation");
  is_ready_.store(true, std::memory_order_release);
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::Find(uint32_t ordinal, Device** device) {
  if (ordinal >= count_) {
    return Refuse(DEVRT_INVALID_ARGUMENT,
                  "Device index value %u is out of index range [0, %u)",
                  ordinal, count_);
  }
  if (devrt_status error = Ready()) return error;
  *device = &devices_[ordinal];
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::Enter(Device* device, Context* context) {
  *context = device->context.load(std::memory_order_acquire);
  if (*context != Context{}) {
    return Take(CheckAlive(*context, device->context_id.load()),
                "primary context", device);
  }
  const std::lock_guard<std::mutex> lock(device->mutex);
  *context = device->context.load(std::memory_order_relaxed);
  if (*context != Context{}) return nullptr;
  uint64_t id = 0;
  Error error = api_->Retain(device->native, context);
  if (error == Api::kSuccess) error = api_->ContextId(*context, &id);
  if (error != Api::kSuccess) return Take(error, "primary context", device);
  device->context_id.store(id, std::memory_order_relaxed);
  device->context.store(*context, std::memory_order_release);
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::device_count(uint32_t* count) {
  *count = count_;
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::device_props(uint32_t ordinal,
                                        devrt_device_props_v0* props) {
  Device* device = nullptr;
  if (devrt_status error = Find(ordinal, &device)) return error;
  const std::lock_guard<std::mutex> lock(device->mutex);
  if (!device->has_props) {
    devrt_device_props_v0 mine = {};
    mine.ordinal = ordinal;
    if (devrt_status error = Take(api_->Describe(device->native, &mine),
                                  "device properties", device)) {
      return error;
    }
    mine.alloc_alignment = 256;
    mine.queue_depth = kQueueDepth;
    mine.pageable_async = Api::kPageableAsync;
    mine.raw_free_syncs = 1;
    mine.fault_delivery = Api::kFaultDelivery;
    mine.fault_scope = DEVRT_FAULT_SCOPE_PROCESS;
    device->props = mine;
    device->has_props = true;
  }
  plugin::WriteStruct(props, device->props);
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::mem_info(uint32_t ordinal, uint64_t* free_bytes,
                                    uint64_t* total_bytes) {
  Device* device = nullptr;
  if (devrt_status error = Find(ordinal, &device)) return error;
  Context context{};
  if (devrt_status error = Enter(device, &context)) return error;
  const ContextScope scope(*api_, context);
  if (devrt_status error = Take(scope.error(), "context", device)) return error;
  size_t free = 0, total = 0;
  if (devrt_status error =
          Take(api_->MemoryInfo(&free, &total), "memory information", device)) {
    return error;
  }
  *free_bytes = free;
  *total_bytes = total;
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::device_sync(uint32_t ordinal) {
  Device* device = nullptr;
  if (devrt_status error = Find(ordinal, &device)) return error;
  std::vector<typename Api::Stream> foreign;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Stream* stream : foreign_) {
      if (stream->device == device) foreign.push_back(stream->native);
    }
  }
  // A device that nobody has named has nothing to do.
  const Context context = device->context.load(std::memory_order_acquire);
  if (context != Context{} || api_->HasContext(device->native)) {
    Context named{};
    if (devrt_status error = Enter(device, &named)) return error;
    const ContextScope scope(*api_, named);
    Error error = scope.error();
    if (error == Api::kSuccess) error = api_->SynchronizeContext();
    if (error != Api::kSuccess) return Take(error, "device sync", device);
  }
  DestroyEnded();
  for (const typename Api::Stream stream : foreign) {
    if (devrt_status error = Take(api_->SynchronizeStream(stream),
                                  "sync of a foreign context", device)) {
      return error;
    }
  }
  return nullptr;
}

// ---- The thread's context ---------------------------------------------------

// What context_enter leaves in the two words of a devrt_context.
template <class Context>
struct FormerContext {
  Context before;  // which may be none, or one of another library
  bool switched;   // context_enter made another one current

  // `words` may be nullptr: the caller restores nothing.
  void StoreTo(devrt_context* words) const {
    if (words == nullptr) return;
    words->state[0] = reinterpret_cast<uintptr_t>(before);
    words->state[1] = switched ? 1 : 0;
  }
  static FormerContext Of(const devrt_context& words) {
    return {reinterpret_cast<Context>(static_cast<uintptr_t>(words.state[0])),
            words.state[1] != 0};
  }
};

// The three of them are called for every guard: what mostly happens (the device
// is known, and current already) asks the driver once and calls nothing else.

template <class Api>
devrt_status Backend<Api>::context_enter(uint32_t ordinal,
                                         devrt_context* previous) {
  if (__builtin_expect(ordinal >= count_, 0)) {
    return EnterFirst(ordinal, previous);
  }
  Device* const device = &devices_[ordinal];
  const Context context = device->context.load(std::memory_order_acquire);
  if (__builtin_expect(context == Context{}, 0)) {
    return EnterFirst(ordinal, previous);
  }
  Context before{};
  const Error error = api_->Current(&before);
  if (error != Api::kSuccess || before != context) {
    return Switch(error, device, before, previous);
  }
  FormerContext<Context>{before, false}.StoreTo(previous);
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::EnterFirst(uint32_t ordinal,
                                      devrt_context* previous) {
  Device* device = nullptr;
  if (devrt_status error = Find(ordinal, &device)) return error;
  Context context{};
  if (devrt_status error = Enter(device, &context)) return error;
  Context before{};
  const Error error = api_->Current(&before);
  return Switch(error, device, before, previous);
}

template <class Api>
devrt_status Backend<Api>::Switch(Error asked, Device* device, Context before,
                                  devrt_context* previous) {
  if (devrt_status error = Take(asked, "current context")) return error;
  const Context context = device->context.load(std::memory_order_relaxed);
  if (before != context) {
    if (devrt_status error =
            Take(api_->SetCurrent(context), "context switch", device)) {
      return error;
    }
  }
  FormerContext<Context>{before, before != context}.StoreTo(previous);
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::context_exit(const devrt_context* previous) {
  const auto former = FormerContext<Context>::Of(*previous);
  Error error = Api::kSuccess;
  if (!former.switched) {
    // Asking costs half of setting, and mostly nobody has switched.
    Context now{};
    error = api_->Current(&now);
    if (error == Api::kSuccess && now == former.before) return nullptr;
  }
  return Restore(error, former.before);
}

template <class Api>
devrt_status Backend<Api>::Restore(Error asked, Context before) {
  if (devrt_status error = Take(asked, "current context")) return error;
  return Take(api_->SetCurrent(before), "context switch");
}

template <class Api>
devrt_status Backend<Api>::context_current(uint32_t* ordinal) {
  Context now{};
  const Error error = api_->Current(&now);
  if (error == Api::kSuccess && now != Context{}) {
    for (const Device& device : devices_) {
      if (device.context.load(std::memory_order_relaxed) == now) {
        *ordinal = device.ordinal;
        return nullptr;
      }
    }
  }
  return FindCurrent(error, now, ordinal);
}

template <class Api>
devrt_status Backend<Api>::FindCurrent(Error asked, Context now,
                                       uint32_t* ordinal) {
  *ordinal = 0;
  // Before anybody has initialised the driver no thread has a context.
  if (asked != Api::kSuccess || now == Context{}) return nullptr;
  if (devrt_status failed = Ready()) return failed;
  typename Api::Device native{};
  if (devrt_status failed =
          Take(api_->CurrentDevice(&native), "device of the context")) {
    return failed;
  }
  for (const Device& device : devices_) {
    if (device.native == native) *ordinal = device.ordinal;
  }
  return nullptr;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_DEVICE_H_
