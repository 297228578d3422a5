// SPDX-License-Identifier: Apache-2.0
//
// The records behind Backend and Device.  They are made once, when a backend
// is opened, and never freed, so that a Device stays valid for ever.

#ifndef DEVRT_RUNTIME_INTERNAL_RECORDS_H_
#define DEVRT_RUNTIME_INTERNAL_RECORDS_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/mutex.h"

namespace devrt::internal {

struct DeviceStreams;  // streams/internal: pools and the default stream

// Bits of DeviceRecord::state; 0 means that calls may go to the backend.
inline constexpr uint32_t kQuarantined = 1;
inline constexpr uint32_t kForkedChild = 2;
inline constexpr uint32_t kShutDown = 4;

// One device.  `ops`, `self`, `backend`, `ordinal` and `index` never change.
struct DeviceRecord {
  const devrt_ops_v0* ops = nullptr;
  void* self = nullptr;
  std::atomic<uint32_t> state{0};
  uint32_t ordinal = 0;
  uint32_t index = 0;  // dense over all devices of the process
  BackendRecord* backend = nullptr;

  std::atomic<DeviceStreams*> streams{nullptr};  // made by the streams layer

  // Grows when a simulator is reset: native handles of before are dead.
  std::atomic<uint64_t> reset_epoch{0};

  // Live objects of users, for Shutdown (C98).
  std::atomic<int64_t> live_streams{0};
  std::atomic<int64_t> live_events{0};
  std::atomic<int64_t> live_allocations{0};

  Mutex mutex;
  absl::Status fault DEVRT_GUARDED_BY(mutex);  // the first sticky error
  DeviceProperties properties DEVRT_GUARDED_BY(mutex);
  bool has_properties DEVRT_GUARDED_BY(mutex) = false;
};

// One opened backend.  Nothing changes after it is published.
struct BackendRecord {
  std::string name;
  std::string path;  // empty if linked in
  devrt_manifest_v0 manifest{};
  devrt_ops_v0 ops{};  // complete: stubs where the plugin had NULL
  void* self = nullptr;
  uint64_t capabilities = 0;
  std::vector<DeviceRecord*> devices;

  static Backend Wrap(BackendRecord* record) { return Backend(record); }
  static BackendRecord* Of(Backend backend) { return backend.record_; }
};

// All backends that are open now, in order of opening.  Takes no lock; the list
// never changes, a later one may be longer.
const std::vector<BackendRecord*>& OpenedBackends();

// "mtia:1", without asking anything.
std::string DeviceName(const DeviceRecord* device);

// ---- The gate every call passes -------------------------------------------

// Why `device` takes no calls; state is not 0.
absl::Status ClosedError(const DeviceRecord* device);

inline bool IsOpen(const DeviceRecord* device) {
  return ABSL_PREDICT_TRUE(device->state.load(std::memory_order_acquire) == 0);
}

// ---- Errors from plugins ---------------------------------------------------

// The status for `error`, which it consumes; `call` names what the user did
// ("event record").  A sticky error puts its device into quarantine.
absl::Status TakeError(DeviceRecord* device, devrt_status error,
                       const char* call);

inline absl::Status FromPlugin(DeviceRecord* device, devrt_status error,
                               const char* call) {
  if (ABSL_PREDICT_TRUE(error == nullptr)) return absl::OkStatus();
  return TakeError(device, error, call);
}

// Stores the device's first fault and closes it (semantics 2.5); with
// `process` all devices of the backend.  Later calls do nothing.
void Quarantine(DeviceRecord* device, const absl::Status& fault, bool process);

// Undoes Quarantine: only for simulators, which can be reset.
void ClearQuarantine(DeviceRecord* device);

// Called once for each device that enters quarantine, outside all locks: the
// streams layer claims pending host functions there.
using QuarantineHook = void (*)(DeviceRecord* device,
                                const absl::Status& fault);
void SetQuarantineHook(QuarantineHook hook);

// Called for each device before the plugin's shutdown and before a simulator's
// reset: the streams layer destroys idle pooled objects there.
using ReleaseHook = void (*)(DeviceRecord* device);
void SetReleaseHook(ReleaseHook hook);
void RunReleaseHook(DeviceRecord* device);

// ---- The calling thread's call site ----------------------------------------

// What host->call_site answers in this thread.
devrt_call_site_v0* ThreadCallSite();

inline void SetCallSite(CallSite site, const char* label = nullptr) {
  devrt_call_site_v0* s = ThreadCallSite();
  s->file = site.file;
  s->line = site.line;
  s->label = label;
}

// ---- Host functions -------------------------------------------------------

// True while the calling thread runs a host function of any backend: calls
// that enqueue, wait, create, destroy or allocate are refused (C42).
bool InHostFunction();
// Logs and returns FAILED_PRECONDITION; `call` is what the user did.
absl::Status HostFunctionError(const char* call);

// Around the body of a host function; nests.
class HostFunctionScope {
 public:
  HostFunctionScope();
  ~HostFunctionScope();
  HostFunctionScope(const HostFunctionScope&) = delete;
  HostFunctionScope& operator=(const HostFunctionScope&) = delete;
};

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_RECORDS_H_
