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
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/gate.h"
#include "devrt/runtime/mutex.h"
#include "devrt/runtime/thread_state.h"
#include "runtime/internal/layer_chain.h"

namespace devrt::internal {

class DeviceAllocator;  // memory/internal: the device's caching allocator
class PinnedAllocator;  // memory/internal: the backend's
struct DeviceStreams;   // streams/internal: pools and the default stream

// One device.  `backend`, like the gate's members, never changes.
struct DeviceRecord : DeviceGate {
  BackendRecord* backend = nullptr;

  std::atomic<DeviceStreams*> streams{nullptr};  // made by streams/
  // Made by memory/.
  std::atomic<DeviceAllocator*> allocator{nullptr};
  std::atomic<PinnedAllocator*> pinned{nullptr};
  // Whether requests must ask for the resource: one was set, or may have been.
  std::atomic<bool> has_resource{false};

  // Grows when a simulator is reset: native handles of before are dead.
  std::atomic<uint64_t> life{0};  // counts a simulator's resets

  // Live objects of users, for Shutdown (C98).
  std::atomic<int64_t> live_streams{0};
  std::atomic<int64_t> live_events{0};
  std::atomic<int64_t> live_allocations{0};

  Mutex mutex;
  absl::Status fault DEVRT_GUARDED_BY(mutex);  // the first sticky error
  DeviceProperties properties DEVRT_GUARDED_BY(mutex);
  bool has_properties DEVRT_GUARDED_BY(mutex) = false;
};

// Every DeviceGate is the base of a record.
inline DeviceRecord* RecordOf(DeviceGate* gate) {
  return static_cast<DeviceRecord*>(gate);
}
inline const DeviceRecord* RecordOf(const DeviceGate* gate) {
  return static_cast<const DeviceRecord*>(gate);
}

// One opened backend.  Nothing changes after it is published.
struct BackendRecord {
  std::string name;
  std::string path;  // empty if linked in
  devrt_manifest_v0 manifest{};
  // The front of the chain.  Complete: stubs where the plugin had NULL.
  devrt_ops_v0 ops{};
  void* self = nullptr;
  uint64_t capabilities = 0;
  std::unique_ptr<LayerChain> chain;
  std::vector<DeviceRecord*> devices;

  static Backend Wrap(BackendRecord* record) { return Backend(record); }
  static BackendRecord* Of(Backend backend) { return backend.record_; }
};

// All backends that are open now, in order of opening.  Takes no lock; the list
// never changes, a later one may be longer.
absl::Span<BackendRecord* const> OpenedBackends();

// "mtia:1", without asking anything.
std::string DeviceName(const DeviceRecord* device);

// ---- The gate every call passes -------------------------------------------

// Why `device` takes no calls; state is not 0.
absl::Status ClosedError(const DeviceRecord* device);

inline bool IsOpen(const DeviceRecord* device) {
  return ABSL_PREDICT_TRUE(device->IsOpen());
}

// Whether the plugin still takes handles back: Shutdown does so behind the
// closed gate.
inline bool TakesHandlesBack(const DeviceRecord* device) {
  return (device->state.load(std::memory_order_acquire) & ~kShutDown) == 0;
}

// ---- Errors from plugins ---------------------------------------------------

inline constexpr uint64_t kPresentLife = UINT64_MAX;

// The status for `error`, which it consumes; `call` names what the user did
// ("event record").  A sticky error puts its device into quarantine, unless it
// is about work of a `life` that a simulator's reset has ended.
absl::Status TakeError(DeviceRecord* device, devrt_status error,
                       const char* call, uint64_t life = kPresentLife);

inline absl::Status FromPlugin(DeviceRecord* device, devrt_status error,
                               const char* call) {
  if (ABSL_PREDICT_TRUE(error == nullptr)) return absl::OkStatus();
  return TakeError(device, error, call);
}

// Undoes a quarantine: only for simulators, which can be reset.
void BeginNewLife(DeviceRecord* device);

// Called once for each device that enters quarantine, outside all locks: the
// streams/ claims pending host functions there.
using QuarantineHook = void (*)(DeviceRecord* device,
                                const absl::Status& fault);
void SetQuarantineHook(QuarantineHook hook);

// Called for each device before the plugin's shutdown and before a simulator's
// reset: streams/ destroys idle pooled objects there.
using ReleaseHook = void (*)(DeviceRecord* device);
void SetReleaseHook(ReleaseHook hook);
void RunReleaseHook(DeviceRecord* device);

// Called for a device after it was waited for, and before and after its live
// objects are counted, with no lock held: streams/ releases what
// finished host functions own, which runs code of the program, and idle pooled
// objects beyond their number.
using SettleHook = void (*)(DeviceRecord* device);
void SetSettleHook(SettleHook hook);
// Nothing inside a host function.
void RunSettleHook(DeviceRecord* device);
// The same for each device of `backend`.
void RunSettleHooks(const BackendRecord* backend);

// Waits for a device by calling `wait`: streams/ notes how far each
// stream has come by then.
using SynchronizeHook = absl::Status (*)(
    DeviceRecord* device, absl::FunctionRef<absl::Status()> wait);
void SetSynchronizeHook(SynchronizeHook hook);
absl::Status RunSynchronizeHook(DeviceRecord* device,
                                absl::FunctionRef<absl::Status()> wait);

}  // namespace devrt::internal

namespace devrt {

inline internal::DeviceRecord* Device::record() const {
  return internal::RecordOf(gate_);
}

}  // namespace devrt

#endif  // DEVRT_RUNTIME_INTERNAL_RECORDS_H_
