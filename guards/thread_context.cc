// SPDX-License-Identifier: Apache-2.0

#include "devrt/guards/thread_context.h"

#include "devrt/runtime/internal/records.h"

namespace devrt {

ThreadContext ThreadContext::Capture() {
  ThreadContext context;
  for (internal::BackendRecord* backend : internal::OpenedBackends()) {
    auto current = CurrentDevice(internal::BackendRecord::Wrap(backend));
    if (!current.ok()) continue;  // shut down, forked or without devices
    context.devices_.push_back(*current);
    for (internal::DeviceRecord* device : backend->devices) {
      if (!internal::IsOpen(device)) continue;
      context.streams_.push_back(CurrentStream(Device(device)));
    }
  }
  return context;
}

ThreadContextScope::ThreadContextScope(const ThreadContext& context)
    : streams_(context.streams()) {
  for (Device device : context.devices()) {
    devices_.push_back(std::make_unique<DeviceGuard>(device));
  }
}

ThreadContextScope::~ThreadContextScope() {
  while (!devices_.empty()) devices_.pop_back();
}

absl::Status ThreadContextScope::status() const {
  if (!streams_.status().ok()) return streams_.status();
  for (const auto& guard : devices_) {
    absl::Status status = guard->status();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace devrt
