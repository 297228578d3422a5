// SPDX-License-Identifier: Apache-2.0

#include "devrt/streams/host_func.h"

#include <atomic>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"
#include "runtime/internal/thread_end.h"
#include "streams/internal/device_streams.h"
#include "streams/internal/finished.h"
#include "streams/internal/stream_record.h"

namespace devrt::internal {

// One submitted host function.  Held by the backend, until it calls, and by
// the device's list, until it is claimed; whoever claims it runs it.
struct HostCall : Finished {
  HostCall(DeviceRecord* d, HostFunc f, CallSite s)
      : device(d),
        site(s),
        life(d->life.load(std::memory_order_relaxed)),
        function(std::move(f)) {}
  DeviceRecord* const device;
  const CallSite site;
  const uint64_t life;  // of the device: a backend may call late
  HostFunc function;
  std::atomic<bool> claimed{false};
  std::atomic<int> holders{1};
  HostCall* previous = nullptr;  // HostCalls' lock
  HostCall* next = nullptr;
};

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

std::vector<HostCall*> HostCalls::TakeAll() {
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

namespace {

// What the function owns is released outside of it, where frees work (C42).
void Drop(HostCall* call) {
  if (call->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    AddFinished(call);
  }
}

// `what`: how the function ended, other than by returning.
void Report(const HostCall& call, const std::string& what) {
  std::string text =
      absl::StrCat("a host function of ", Device(call.device).name());
  if (call.site.file != nullptr) {
    absl::StrAppend(&text, ", launched at ", call.site.file, ":",
                    call.site.line, ",");
  }
  DEVRT_LOG(kError, absl::StrCat(text, " ", what));
}

// The thread has other work to do: neither an exception (R5) nor pthread_exit
// may leave the function.
void Run(HostCall* call, absl::Status status) {
  const HostFunctionScope inside;
  const NoCancel no_cancel;
  try {
    if (RunToItsEnd([&] { std::move(call->function)(std::move(status)); })) {
      return;
    }
    Report(*call,
           "called pthread_exit: it has ended there, and the stream goes on; "
           "return from the function instead");
  } catch (const std::exception& e) {
    Report(*call, absl::StrCat("threw: ", e.what()));
  } catch (...) {
    Report(*call, "threw an exception");
  }
}

// Called by the backend, exactly once.
void HostCallThunk(void* arg, devrt_status error) {
  HostCall* call = static_cast<HostCall*>(arg);
  DeviceRecord* device = call->device;
  if (!call->claimed.exchange(true, std::memory_order_acq_rel)) {
    DeviceStreams::Of(device)->host_calls.Remove(call);
    Run(call, TakeError(device, error, "host function", call->life));
    // The thread is the backend's.  Without it later host functions would not
    // run.
    if (error == nullptr) DropCancellation();
  } else {
    (void)TakeError(device, error, "host function", call->life);
  }
  Drop(call);
}

}  // namespace

void RunHostCallsWithFault(DeviceRecord* device, const absl::Status& fault) {
  DeviceStreams* streams = device->streams.load(std::memory_order_acquire);
  if (streams == nullptr) return;
  for (HostCall* call : streams->host_calls.TakeAll()) {
    Run(call, fault);
    Drop(call);
  }
}

}  // namespace devrt::internal

namespace devrt {

absl::Status LaunchHostFunc(StreamRef stream, HostFunc function,
                            CallSite site) {
  internal::StreamTarget t;
  DEVRT_RETURN_IF_ERROR(
      internal::UseStream(stream, "LaunchHostFunc", site, &t));
  if (!function) {
    return absl::InvalidArgumentError(
        absl::StrCat("LaunchHostFunc on ", stream.device().name(),
                     " got an empty function: give it one that can be called"));
  }
  auto* call = new internal::HostCall(t.device, std::move(function), site);
  internal::HostCalls& calls =
      internal::DeviceStreams::Of(t.device)->host_calls;
  calls.Add(call);
  devrt_status error =
      t.ops().host_func(t.self(), t.handle, &internal::HostCallThunk, call);
  t.MarkDirty();
  if (ABSL_PREDICT_TRUE(error == nullptr)) return absl::OkStatus();
  // The backend will not call.  Claimed before the error is looked at, which
  // may put the device into quarantine and call what is pending there; so an
  // error means that the function was not called.
  const bool called = call->claimed.exchange(true, std::memory_order_acq_rel);
  calls.Remove(call);
  absl::Status status = TakeError(t.device, error, "host function");
  internal::Drop(call);
  return called ? absl::OkStatus() : status;
}

}  // namespace devrt
