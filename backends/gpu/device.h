// SPDX-License-Identifier: Apache-2.0
//
// Devices<Api>: the driver, the devices that were counted when the backend was
// opened, their primary contexts, and the thread's current context.
//
// Threads: every member from any thread.

#ifndef DEVRT_BACKENDS_GPU_DEVICE_H_
#define DEVRT_BACKENDS_GPU_DEVICE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "backends/gpu/context_scope.h"
#include "backends/gpu/driver.h"
#include "backends/gpu/objects.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace devrt::gpu {

template <class Api>
class Devices {
 public:
  using Error = typename Api::Error;
  using Context = typename Api::Context;
  using Device = gpu::Device<Api>;

  Devices(const devrt_host_v0* host, const Api& api, uint32_t count)
      : driver_(host, api), count_(count), devices_(count) {
    for (uint32_t i = 0; i < count; ++i) devices_[i].ordinal = i;
  }
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;
  ~Devices();

  // ---- For the parts above

  Driver<Api>& driver() { return driver_; }
  std::vector<Device>& all() { return devices_; }
  Device& operator[](uint32_t ordinal) { return devices_[ordinal]; }

  // Initialises the driver.  Tries again at each call until it succeeds.
  devrt_status Ready() {
    if (is_ready_.load(std::memory_order_acquire)) return nullptr;
    return Init();
  }
  // Returns the device with that ordinal, after Ready.
  devrt_status Find(uint32_t ordinal, Device** device);
  // Returns the device's primary context, and makes it if needed.
  devrt_status Enter(Device* device, Context* context);

  // ---- Slots

  devrt_status device_count(uint32_t* count);
  devrt_status device_props(uint32_t device, devrt_device_props_v0* props);
  devrt_status device_sync(uint32_t device);
  devrt_status context_enter(uint32_t device, devrt_context* previous);
  devrt_status context_exit(const devrt_context* previous);
  devrt_status context_current(uint32_t* device);

 private:
  devrt_status Init();
  // The slow path of context_enter, context_exit and context_current.
  [[gnu::noinline]] devrt_status EnterFirst(uint32_t ordinal,
                                            devrt_context* previous);
  [[gnu::noinline]] devrt_status Switch(Error asked, Device* device,
                                        Context before,
                                        devrt_context* previous);
  [[gnu::noinline]] devrt_status Restore(Error asked, Context before);
  [[gnu::noinline]] devrt_status FindCurrent(Error asked, Context now,
                                             uint32_t* ordinal);

  const Api& api() const { return driver_.api(); }

  Driver<Api> driver_;
  const uint32_t count_;
  std::mutex init_mutex_;  // held while the driver is initialised
  std::atomic<bool> is_ready_{false};
  std::vector<Device> devices_;
};

template <class Api>
Devices<Api>::~Devices() {
  for (const Device& device : devices_) {
    if (device.context.load() != Context{}) (void)api().Release(device.native);
  }
}

// ---- Devices ----------------------------------------------------------------

template <class Api>
devrt_status Devices<Api>::Init() {
  const std::lock_guard<std::mutex> lock(init_mutex_);
  if (is_ready_.load(std::memory_order_relaxed)) return nullptr;
  Error error = api().Init();
  int now = 0;
  if (error == Api::kSuccess) error = api().Count(&now);
  if (error == Api::kSuccess && static_cast<uint32_t>(now) != count_) {
    return driver_.Refuse(
        DEVRT_UNAVAILABLE,
        "%u devices were counted when the backend was opened, but "
        "the driver has %d: set the variables that choose devices "
        "before the program starts, and not later",
        count_, now);
  }
  for (uint32_t i = 0; i < count_ && error == Api::kSuccess; ++i) {
    error = api().GetDevice(static_cast<int>(i), &devices_[i].native);
  }
  if (error != Api::kSuccess)
    return driver_.ToStatus(error, "driver initialisation");
  is_ready_.store(true, std::memory_order_release);
  return nullptr;
}

template <class Api>
devrt_status Devices<Api>::Find(uint32_t ordinal, Device** device) {
  if (ordinal >= count_) {
    return driver_.Refuse(DEVRT_INVALID_ARGUMENT,
                          "Device index value %u is out of index range [0, %u)",
                          ordinal, count_);
  }
  if (devrt_status error = Ready()) return error;
  *device = &devices_[ordinal];
  return nullptr;
}

template <class Api>
devrt_status Devices<Api>::Enter(Device* device, Context* context) {
  *context = device->context.load(std::memory_order_acquire);
  if (*context != Context{}) {
    return driver_.ToStatus(
        CheckAlive(api(), *context, device->context_id.load()),
        "primary context", device);
  }
  const std::lock_guard<std::mutex> lock(device->mutex);
  *context = device->context.load(std::memory_order_relaxed);
  if (*context != Context{}) return nullptr;
  uint64_t id = 0;
  Error error = api().Retain(device->native, context);
  if (error == Api::kSuccess) error = api().ContextId(*context, &id);
  if (error != Api::kSuccess)
    return driver_.ToStatus(error, "primary context", device);
  device->context_id.store(id, std::memory_order_relaxed);
  device->context.store(*context, std::memory_order_release);
  return nullptr;
}

template <class Api>
devrt_status Devices<Api>::device_count(uint32_t* count) {
  *count = count_;
  return nullptr;
}

template <class Api>
devrt_status Devices<Api>::device_props(uint32_t ordinal,
                                        devrt_device_props_v0* props) {
  Device* device = nullptr;
  if (devrt_status error = Find(ordinal, &device)) return error;
  const std::lock_guard<std::mutex> lock(device->mutex);
  if (!device->has_props) {
    devrt_device_props_v0 mine = {};
    mine.ordinal = ordinal;
    if (devrt_status error =
            driver_.ToStatus(api().Describe(device->native, &mine),
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
devrt_status Devices<Api>::device_sync(uint32_t ordinal) {
  Device* device = nullptr;
  if (devrt_status error = Find(ordinal, &device)) return error;
  const auto foreign = device->foreign.Natives();
  // A device without a context has no work.
  const Context context = device->context.load(std::memory_order_acquire);
  if (context != Context{} || api().HasContext(device->native)) {
    Context named{};
    if (devrt_status error = Enter(device, &named)) return error;
    const ContextScope<Api> scope(api(), named);
    Error error = scope.error();
    if (error == Api::kSuccess) error = api().SynchronizeContext();
    if (error != Api::kSuccess)
      return driver_.ToStatus(error, "device sync", device);
  }
  device->ending.DestroyEnded(api());
  for (const typename Api::Stream stream : foreign) {
    if (devrt_status error =
            driver_.ToStatus(api().SynchronizeStream(stream),
                             "sync of a foreign context", device)) {
      return error;
    }
  }
  return nullptr;
}

// Finds a device and makes its primary context current until the scope's end.
//
//   PrimaryContextScope<Api> scope(&devices_, ordinal);
//   if (scope.failed()) return scope.error();
template <class Api>
class PrimaryContextScope {
 public:
  PrimaryContextScope(Devices<Api>* devices, uint32_t ordinal) {
    typename Api::Context context{};
    error_ = devices->Find(ordinal, &device_);
    if (!failed()) error_ = devices->Enter(device_, &context);
    if (failed()) return;
    Driver<Api>& driver = devices->driver();
    scope_.emplace(driver.api(), context);
    error_ = driver.ToStatus(scope_->error(), "context", device_);
  }

  bool failed() const { return error_ != nullptr; }
  // The error, which the caller returns to the host, or nullptr.
  devrt_status error() const { return error_; }
  Device<Api>* device() const { return device_; }

 private:
  Device<Api>* device_ = nullptr;
  devrt_status error_ = nullptr;
  std::optional<ContextScope<Api>> scope_;
};

// ---- The thread's context ---------------------------------------------------

// The content of the two words of a devrt_context after context_enter.
template <class Context>
struct FormerContext {
  Context before;  // none, or the context of another library
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

// These three run for every guard.  In the usual case the device is known and
// current already: then they make one call of the driver and no other.

template <class Api>
devrt_status Devices<Api>::context_enter(uint32_t ordinal,
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
  const Error error = api().Current(&before);
  if (error != Api::kSuccess || before != context) {
    return Switch(error, device, before, previous);
  }
  FormerContext<Context>{before, false}.StoreTo(previous);
  return nullptr;
}

template <class Api>
devrt_status Devices<Api>::EnterFirst(uint32_t ordinal,
                                      devrt_context* previous) {
  Device* device = nullptr;
  if (devrt_status error = Find(ordinal, &device)) return error;
  Context context{};
  if (devrt_status error = Enter(device, &context)) return error;
  Context before{};
  const Error error = api().Current(&before);
  return Switch(error, device, before, previous);
}

template <class Api>
devrt_status Devices<Api>::Switch(Error asked, Device* device, Context before,
                                  devrt_context* previous) {
  if (devrt_status error = driver_.ToStatus(asked, "current context"))
    return error;
  const Context context = device->context.load(std::memory_order_relaxed);
  if (before != context) {
    if (devrt_status error = driver_.ToStatus(api().SetCurrent(context),
                                              "context switch", device)) {
      return error;
    }
  }
  FormerContext<Context>{before, before != context}.StoreTo(previous);
  return nullptr;
}

template <class Api>
devrt_status Devices<Api>::context_exit(const devrt_context* previous) {
  const auto former = FormerContext<Context>::Of(*previous);
  Error error = Api::kSuccess;
  if (!former.switched) {
    // Asking costs half as much as setting, and usually nothing has changed.
    Context now{};
    error = api().Current(&now);
    if (error == Api::kSuccess && now == former.before) return nullptr;
  }
  return Restore(error, former.before);
}

template <class Api>
devrt_status Devices<Api>::Restore(Error asked, Context before) {
  if (devrt_status error = driver_.ToStatus(asked, "current context"))
    return error;
  return driver_.ToStatus(api().SetCurrent(before), "context switch");
}

template <class Api>
devrt_status Devices<Api>::context_current(uint32_t* ordinal) {
  Context now{};
  const Error error = api().Current(&now);
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
devrt_status Devices<Api>::FindCurrent(Error asked, Context now,
                                       uint32_t* ordinal) {
  *ordinal = 0;
  // No thread has a context until the driver is initialised.
  if (asked != Api::kSuccess || now == Context{}) return nullptr;
  if (devrt_status failed = Ready()) return failed;
  typename Api::Device native{};
  if (devrt_status failed = driver_.ToStatus(api().CurrentDevice(&native),
                                             "device of the context")) {
    return failed;
  }
  for (const Device& device : devices_) {
    if (device.native == native) *ordinal = device.ordinal;
  }
  return nullptr;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_DEVICE_H_
