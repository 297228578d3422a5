// SPDX-License-Identifier: Apache-2.0
//
// Driver<Api>: the host's functions, the vendor's functions, and the fault that
// has ended the process's devices. It turns a vendor's error code into a
// devrt_status.
//
// Threads: every member from any thread, without a lock.

#ifndef DEVRT_BACKENDS_GPU_DRIVER_H_
#define DEVRT_BACKENDS_GPU_DRIVER_H_

#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>

#include "backends/gpu/context_scope.h"
#include "backends/gpu/errors.h"
#include "backends/gpu/objects.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace devrt::gpu {

template <class Api>
class Driver {
 public:
  using Error = typename Api::Error;
  using Device = gpu::Device<Api>;

  Driver(const devrt_host_v0* host, const Api& api) : host_(host), api_(api) {}
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  const Api& api() const { return api_; }

  // Makes an error for a call that was not passed to the driver.
  [[gnu::cold]] devrt_status Refuse(devrt_code code, const char* format, ...)
      __attribute__((format(printf, 3, 4)));

  // Turns the driver's answer to `entry_point` into a status: nullptr for
  // success.  `device` is the device of the call, nullptr if it has none.
  devrt_status ToStatus(Error error, const char* entry_point,
                        const Device* device = nullptr) {
    if (error == Api::kSuccess) return nullptr;
    return Report(error, entry_point, device);
  }

  // ToStatus for the destruction of an object.  Ignores a fault from before the
  // call, which did not cause it (C94).
  devrt_status ToStatusOfEnd(Error error, const char* entry_point,
                             const Device* device = nullptr);

  // Returns the fault that has ended the process's devices, for calls that do
  // not ask the driver. nullptr if there was none.
  devrt_status EarlierFault(const char* entry_point, const Device* device) {
    return ToStatus(fault_.load(std::memory_order_relaxed), entry_point,
                    device);
  }

 private:
  [[gnu::cold]] devrt_status Report(Error error, const char* entry_point,
                                    const Device* device);
  bool ComesAgain(Error error, const Device* device) const;

  const devrt_host_v0* const host_;
  const Api api_;
  std::atomic<Error> fault_{Api::kSuccess};
};

template <class Api>
devrt_status Driver<Api>::Refuse(devrt_code code, const char* format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return plugin::Error(host_, code, 0, text);
}

template <class Api>
devrt_status Driver<Api>::ToStatusOfEnd(Error error, const char* entry_point,
                                        const Device* device) {
  if (error == Api::kSuccess) return nullptr;
  if (Api::MeaningOf(error).error_class == ErrorClass::kSticky) return nullptr;
  return Report(error, entry_point, device);
}

template <class Api>
devrt_status Driver<Api>::Report(Error native, const char* entry_point,
                                 const Device* device) {
  const ErrorMeaning& meaning = Api::MeaningOf(native);
  bool sticky = meaning.error_class == ErrorClass::kSticky;
  if (meaning.error_class == ErrorClass::kSuspect) {
    sticky = ComesAgain(native, device);
  }
  // A device that worked before and is unavailable now is lost, without the
  // others.
  const bool lost = meaning.status == DEVRT_UNAVAILABLE && device != nullptr &&
                    device->context.load() != typename Api::Context{};
  const char* const name = api_.ErrorName(native);
  devrt_status error =
      plugin::ErrorF(host_, meaning.status, static_cast<int64_t>(native),
                     "%s%s: %s (%s)", lost ? "the device is lost: " : "",
                     entry_point, api_.ErrorText(native), name);
  devrt_error_origin_v0 origin = {};
  origin.struct_size = sizeof origin;
  // A fault ends every context of the process (C95).
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

// Asks the driver once more, with a query that never waits.
template <class Api>
bool Driver<Api>::ComesAgain(Error error, const Device* device) const {
  if (device == nullptr) return false;
  const auto context = device->context.load(std::memory_order_acquire);
  if (context == typename Api::Context{}) return false;
  const ContextScope<Api> scope(api_, context);
  return scope.error() == Api::kSuccess &&
         api_.QueryStream(Api::LegacyStream()) == error;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_DRIVER_H_
