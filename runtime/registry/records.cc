// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/records.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"
#include "runtime/common/text.h"
#include "runtime/plugins/host_table.h"
#include "runtime/registry/memory_hooks.h"
#include "runtime/registry/process_state.h"

namespace devrt::internal {
namespace {

std::atomic<QuarantineHook> quarantine_hook{nullptr};
std::atomic<ReleaseHook> release_hook{nullptr};
std::atomic<SettleHook> settle_hook{nullptr};
std::atomic<SynchronizeHook> synchronize_hook{nullptr};

// Serialises the faults of a backend, so that all its devices have the same
// first fault.
Mutex* QuarantineMutex() {
  static Mutex* const mutex = new Mutex;
  return mutex;
}

// The device that `error` names; `called` if it names none.
DeviceRecord* DeviceAtFault(DeviceRecord* called, const devrt_error& error) {
  const std::vector<DeviceRecord*>& devices = called->backend->devices;
  if (error.device < 0) return called;
  const size_t ordinal = static_cast<size_t>(error.device);
  return ordinal < devices.size() ? devices[ordinal] : called;
}

std::string Describe(const DeviceRecord* called, const devrt_error& error) {
  if (error.missing_slot == nullptr) return DescribeError(error);
  return absl::StrCat("backend \"", called->backend->name,
                      "\" does not implement ", error.missing_slot);
}

std::string MessageOf(const DeviceRecord* called, const DeviceRecord* fault,
                      const devrt_error& error, const char* call) {
  const bool sticky = (error.flags & DEVRT_ERROR_STICKY) != 0;
  const bool process = (error.flags & DEVRT_ERROR_PROCESS) != 0;
  std::string text = absl::StrCat(call, " on ", DeviceName(called));
  if ((error.flags & DEVRT_ERROR_ASYNC) != 0) {
    absl::StrAppend(&text, " reports that earlier work on ", DeviceName(fault));
  }
  absl::StrAppend(&text, " failed: ", Describe(called, error));
  if (sticky && process) {
    absl::StrAppend(&text, "; all ", fault->backend->name,
                    " devices are lost for the rest of this process");
  } else if (sticky) {
    absl::StrAppend(&text, "; ", DeviceName(fault),
                    " is lost for the rest of this process");
  }
  return text;
}

// Returns true if this call closed `device`, false if it had a fault before.
bool StoreFault(DeviceRecord* device, const absl::Status& fault) {
  MutexLock lock(&device->mutex);
  if ((device->state.load(std::memory_order_relaxed) & kQuarantined) != 0) {
    return false;
  }
  device->fault = fault;
  device->state.fetch_or(kQuarantined, std::memory_order_release);
  return true;
}

// Returns true if `device` had no fault before.  A fault from before the last
// reset (`life`) closes nothing.
bool EnterQuarantine(DeviceRecord* device, const absl::Status& fault,
                     bool process, uint64_t life) {
  std::vector<DeviceRecord*> devices = {device};
  if (process) devices = device->backend->devices;
  std::vector<DeviceRecord*> entered;
  {
    MutexLock lock(QuarantineMutex());
    if (life != kPresentLife &&
        life != device->life.load(std::memory_order_relaxed)) {
      return false;
    }
    for (DeviceRecord* d : devices) {
      if (StoreFault(d, fault)) entered.push_back(d);
    }
  }
  if (entered.empty()) return false;
  DEVRT_LOG(kError, std::string(ToStd(fault.message())));
  const QuarantineHook hook = quarantine_hook.load(std::memory_order_acquire);
  for (DeviceRecord* d : entered) {
    if (hook != nullptr) hook(d, fault);
  }
  return std::find(entered.begin(), entered.end(), device) != entered.end();
}

}  // namespace

std::string DeviceName(const DeviceRecord* device) {
  return absl::StrCat(device->backend->name, ":", device->ordinal);
}

absl::Status ClosedError(const DeviceRecord* device) {
  const uint32_t state = device->state.load(std::memory_order_acquire);
  if ((state & (kForkedChild | kShutDown)) != 0) return ProcessClosedError();
  DeviceRecord* record = device->backend->devices[device->ordinal];
  MutexLock lock(&record->mutex);
  if (record->fault.ok()) {
    return absl::AbortedError(
        absl::StrCat("device ", DeviceName(device), " was reset meanwhile"));
  }
  return WithPrefix(
      absl::StrCat("device ", DeviceName(device), " is quarantined: "),
      record->fault);
}

absl::Status RefusedCallError(const DeviceRecord* device, const char* call) {
  const uint32_t state = device->state.load(std::memory_order_acquire);
  const absl::Status closed = ClosedError(device);
  // After Shutdown and in a forked child no device matters.
  if ((state & (kForkedChild | kShutDown)) != 0) return closed;
  return WithSuffix(closed, absl::StrCat("; refused call: ", call));
}

absl::Status TakeError(DeviceRecord* device, devrt_status error,
                       const char* call, uint64_t life) {
  if (error == nullptr) return absl::OkStatus();
  DeviceRecord* fault = DeviceAtFault(device, *error);
  const uint32_t flags = error->flags;
  absl::Status status(ToStatusCode(error->code),
                      MessageOf(device, fault, *error, call));
  ErrorInfo info = InfoOf(*error, device->backend->name);
  info.device = static_cast<int>(fault->ordinal);
  SetErrorInfo(&status, info);
  DestroyError(error);
  if ((flags & DEVRT_ERROR_STICKY) == 0) return status;

  const bool first =
      EnterQuarantine(fault, status, (flags & DEVRT_ERROR_PROCESS) != 0, life);
  // If another thread stored a fault before, all threads report that one.
  const bool closed =
      (device->state.load(std::memory_order_acquire) & kQuarantined) != 0;
  return first || !closed ? status : ClosedError(device);
}

void BeginNewLife(DeviceRecord* device) {
  MutexLock order(QuarantineMutex());
  device->life.fetch_add(1, std::memory_order_relaxed);
  MutexLock lock(&device->mutex);
  device->fault = absl::OkStatus();
  device->state.fetch_and(~kQuarantined, std::memory_order_release);
}

void SetQuarantineHook(QuarantineHook hook) {
  quarantine_hook.store(hook, std::memory_order_release);
}

void SetReleaseHook(ReleaseHook hook) {
  release_hook.store(hook, std::memory_order_release);
}

void RunReleaseHook(DeviceRecord* device) {
  // Allocators come first: they may query streams that still use memory.
  if (const MemoryHooks* hooks = GetMemoryHooks()) hooks->release(device);
  const ReleaseHook hook = release_hook.load(std::memory_order_acquire);
  if (hook != nullptr) hook(device);
}

void SetSettleHook(SettleHook hook) {
  settle_hook.store(hook, std::memory_order_release);
}

void SetSynchronizeHook(SynchronizeHook hook) {
  synchronize_hook.store(hook, std::memory_order_release);
}

absl::Status RunSynchronizeHook(DeviceRecord* device,
                                absl::FunctionRef<absl::Status()> wait) {
  const SynchronizeHook hook = synchronize_hook.load(std::memory_order_acquire);
  return hook != nullptr ? hook(device, wait) : wait();
}

void RunSettleHook(DeviceRecord* device) {
  if (InHostFunction()) return;
  if (const MemoryHooks* hooks = GetMemoryHooks()) hooks->settle(device);
  const SettleHook hook = settle_hook.load(std::memory_order_acquire);
  if (hook != nullptr) hook(device);
}

void RunSettleHooks(const BackendRecord* backend) {
  for (DeviceRecord* device : backend->devices) RunSettleHook(device);
}

}  // namespace devrt::internal
