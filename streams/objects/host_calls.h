// SPDX-License-Identifier: Apache-2.0
//
// HostCalls: the host functions of one device that were submitted and have not
// run.
//
// Threads: any.  Lock: `mutex_`, a leaf; no host function runs while it is
// held.

#ifndef DEVRT_STREAMS_OBJECTS_HOST_CALLS_H_
#define DEVRT_STREAMS_OBJECTS_HOST_CALLS_H_

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/mutex.h"
#include "devrt/streams/host_func.h"
#include "runtime/registry/records.h"
#include "streams/common/deferred_deletion.h"

namespace devrt::internal {

// One submitted host function.  The backend holds a reference until the backend
// has made its call.  The device's list holds one until a thread claims the
// function.  The thread that claims the function runs it.
struct HostCall : DeferredObject {
  HostCall(DeviceRecord* d, HostFunc f, CallSite s)
      : device(d),
        site(s),
        life(d->life.load(std::memory_order_relaxed)),
        function(std::move(f)) {}

  // Runs the function in the calling thread, which has claimed it.
  void Run(absl::Status status);
  // Drops one reference.  After the last one the function object is destroyed
  // outside of host functions, where frees work (C42).
  void ReleaseReference();

  DeviceRecord* const device;
  const CallSite site;
  const uint64_t life;  // the device's; a backend may call after a reset
  HostFunc function;
  std::atomic<bool> claimed{false};
  std::atomic<int> holders{1};
  // The lock of HostCalls guards both.
  HostCall* previous = nullptr;
  HostCall* next = nullptr;
};

class HostCalls {
 public:
  void Add(HostCall* call) DEVRT_EXCLUDES(mutex_);
  void Remove(HostCall* call) DEVRT_EXCLUDES(mutex_);
  // Takes out and claims all calls, in order of submission, with a reference to
  // each.
  std::vector<HostCall*> ClaimAll() DEVRT_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  HostCall* first_ DEVRT_GUARDED_BY(mutex_) = nullptr;  // the newest
};

// Runs the host functions of a device that is lost with `fault` (C45).
void RunHostCallsWithFault(DeviceRecord* device, const absl::Status& fault);

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_OBJECTS_HOST_CALLS_H_
