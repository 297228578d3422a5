// SPDX-License-Identifier: Apache-2.0

#include "devrt/guards/thread_context.h"

#include <utility>

#include "devrt/guards/multi_stream_guard.h"
#include "devrt/streams/gate.h"
#include "runtime/registry/records.h"

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
    : status_(internal::CheckGuard("ThreadContextScope")) {
  if (!status_.ok()) return;
  std::vector<StreamRef> usable;
  for (StreamRef stream : context.streams()) {
    absl::Status status = internal::CheckStream(stream, "ThreadContextScope");
    if (status.ok()) usable.push_back(stream);
    status_.Update(std::move(status));
  }
  previous_ = MultiStreamGuard::Exchange(usable);
  entered_.reserve(context.devices().size());
  for (Device device : context.devices()) {
    internal::SavedContext saved;
    internal::GuardError error;
    if (internal::EnterDevice(device.gate(), &saved, &error,
                              "ThreadContextScope")) {
      entered_.push_back(saved);
      continue;
    }
    status_.Update(internal::EnterError(saved.device, error));
    internal::DropGuardError(error);
  }
  number_ = internal::OpenGuard();
}

ThreadContextScope::~ThreadContextScope() {
  if (number_ == 0) return;
  if (!internal::CloseGuard(number_, "ThreadContextScope")) return;
  for (; !entered_.empty(); entered_.pop_back()) {
    internal::LeaveDevice(entered_.back(), "ThreadContextScope");
  }
  MultiStreamGuard::Restore(previous_);
}

}  // namespace devrt
