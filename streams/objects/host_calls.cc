// SPDX-License-Identifier: Apache-2.0

#include "streams/objects/host_calls.h"

#include <exception>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/log.h"
#include "runtime/common/thread_end.h"
#include "streams/objects/device_streams.h"

namespace devrt::internal {

namespace {

// `how` the function ended, other than by returning.
void LogEnd(const HostCall& call, std::string_view how) {
  std::string text =
      absl::StrCat("a host function of ", DeviceName(call.device));
  if (call.site.file != nullptr) {
    absl::StrAppend(&text, ", launched at ", call.site.file, ":",
                    call.site.line, ",");
  }
  absl::StrAppend(&text, " ", absl::string_view(how.data(), how.size()));
  DEVRT_LOG(kError, text);
}

}  // namespace

// The thread has other work to do: neither an exception (R5) nor pthread_exit
// may leave the function.
void HostCall::Run(absl::Status status) {
  const HostFunctionScope inside;
  const NoCancel no_cancel;
  try {
    if (RunToItsEnd([&] { std::move(function)(std::move(status)); })) return;
    LogEnd(*this,
           "called pthread_exit: it has ended there, and the stream goes on; "
           "return from the function instead");
  } catch (const std::exception& e) {
    LogEnd(*this, std::string("threw: ") + e.what());
  } catch (...) {
    LogEnd(*this, "threw an exception");
  }
}

void HostCall::ReleaseReference() {
  if (holders.fetch_sub(1, std::memory_order_acq_rel) == 1) DeferDeletion(this);
}

void HostCalls::Add(HostCall* call) {
  MutexLock lock(&mutex_);
  call->next = first_;
  if (first_ != nullptr) first_->previous = call;
  first_ = call;
}

void HostCalls::Remove(HostCall* call) {
  MutexLock lock(&mutex_);
  if (call->previous != nullptr) {
    call->previous->next = call->next;
  } else if (first_ == call) {
    first_ = call->next;
  }
  if (call->next != nullptr) call->next->previous = call->previous;
  call->previous = call->next = nullptr;
}

std::vector<HostCall*> HostCalls::ClaimAll() {
  MutexLock lock(&mutex_);
  std::vector<HostCall*> calls;
  while (first_ != nullptr) {
    HostCall* call = first_;
    first_ = call->next;
    call->previous = call->next = nullptr;
    if (call->claimed.exchange(true, std::memory_order_acq_rel)) continue;
    call->holders.fetch_add(1, std::memory_order_relaxed);
    calls.push_back(call);
  }
  return {calls.rbegin(), calls.rend()};  // in order of submission
}

void RunHostCallsWithFault(DeviceRecord* device, const absl::Status& fault) {
  DeviceStreams* streams = device->streams.load(std::memory_order_acquire);
  if (streams == nullptr) return;
  for (HostCall* call : streams->host_calls.ClaimAll()) {
    call->Run(fault);
    call->ReleaseReference();
  }
}

}  // namespace devrt::internal
