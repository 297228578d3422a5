// SPDX-License-Identifier: Apache-2.0
//
// The records behind Backend and Device.  They are made once, when a backend is
// opened, and never freed, so that a Device stays valid until the end of the
// process.

#ifndef DEVRT_RUNTIME_REGISTRY_RECORDS_H_
#define DEVRT_RUNTIME_REGISTRY_RECORDS_H_

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
#include "runtime/registry/layer_chain.h"

namespace devrt::internal {

class DeviceAllocator;  // memory/device/device_allocator.h
class PinnedAllocator;  // memory/pinned/pinned_allocator.h
struct DeviceStreams;   // streams/objects/device_streams.h
struct EventRecord;     // streams/objects/event_record.h

// One device.  `backend` does not change.
struct DeviceRecord : DeviceGate {
  BackendRecord* backend = nullptr;

  std::atomic<DeviceStreams*> streams{nullptr};  // made by streams/
  // Made by memory/.
  std::atomic<DeviceAllocator*> allocator{nullptr};
  std::atomic<PinnedAllocator*> pinned{nullptr};
  // True if requests must look for a memory resource, because a program has set
  // one or may have.
  std::atomic<bool> has_resource{false};

  // The number of resets of a simulator.  A reset ends all native handles.
  std::atomic<uint64_t> life{0};

  // The numbers of live objects of the program, for Shutdown (C98).  On another
  // line of the cache than what every call reads.
  alignas(64) std::atomic<int64_t> live_streams{0};
  std::atomic<int64_t> live_events{0};  // with the spare one
  std::atomic<int64_t> live_allocations{0};
  // An idle record of an event without options, which streams/ hands out first.
  std::atomic<EventRecord*> spare_event{nullptr};

  Mutex mutex;
  absl::Status fault DEVRT_GUARDED_BY(mutex);  // the first sticky error
  DeviceProperties properties DEVRT_GUARDED_BY(mutex);
  bool has_properties DEVRT_GUARDED_BY(mutex) = false;
};

// Returns the record of a gate: every DeviceGate is the base class of a
// DeviceRecord.
inline DeviceRecord* RecordOf(DeviceGate* gate) {
  return static_cast<DeviceRecord*>(gate);
}
inline const DeviceRecord* RecordOf(const DeviceGate* gate) {
  return static_cast<const DeviceRecord*>(gate);
}

// The program's rules of the layer `faults`, while a simulator repeats a token
// that leaves some of them out; else empty.
struct LeftFaults {
  Mutex mutex;
  std::string rules DEVRT_GUARDED_BY(mutex);
};

// One opened backend.  The record does not change after it is published, but
// for `left_faults`.
struct BackendRecord {
  std::string name;
  std::string path;  // empty if linked in
  devrt_manifest_v0 manifest{};
  // The table of the outermost layer, or of the plugin if there is no layer.
  // Slots that the plugin leaves NULL have stubs.
  devrt_ops_v0 ops{};
  void* self = nullptr;
  uint64_t capabilities = 0;
  std::unique_ptr<LayerChain> chain;
  std::vector<DeviceRecord*> devices;
  mutable LeftFaults left_faults;

  static Backend Wrap(BackendRecord* record) { return Backend(record); }
  static BackendRecord* Of(Backend backend) { return backend.record_; }
};

// All backends that are open now, in order of opening.  Takes no lock.  The
// list stays valid and unchanged; a later call may return a longer list.
absl::Span<BackendRecord* const> OpenedBackends();

// "mtia:1".  Does not call the backend.
std::string DeviceName(const DeviceRecord* device);

// ---- The gate every call passes -------------------------------------------

// The error for a call on `device`, whose state is not 0.
absl::Status ClosedError(const DeviceRecord* device);
// As ClosedError, with the name of the function `call` that was refused.
[[gnu::cold]] absl::Status RefusedCallError(const DeviceRecord* device,
                                            const char* call);

inline bool IsOpen(const DeviceRecord* device) {
  return ABSL_PREDICT_TRUE(device->IsOpen());
}

// Returns true if handles may still be destroyed.  Shutdown destroys them after
// it has closed the gate.
inline bool TakesHandlesBack(const DeviceRecord* device) {
  return (device->state.load(std::memory_order_acquire) & ~kShutDown) == 0;
}

// ---- Errors from plugins ---------------------------------------------------

inline constexpr uint64_t kPresentLife = UINT64_MAX;

// Consumes `error` and returns its status.  `call` names what the program did
// ("event record").  A sticky error puts its device into quarantine, unless the
// error belongs to work of a `life` that a simulator's reset has ended.
absl::Status TakeError(DeviceRecord* device, devrt_status error,
                       const char* call, uint64_t life = kPresentLife);

inline absl::Status FromPlugin(DeviceRecord* device, devrt_status error,
                               const char* call) {
  if (ABSL_PREDICT_TRUE(error == nullptr)) return absl::OkStatus();
  return TakeError(device, error, call);
}

// Ends a quarantine, after the reset of a simulator.
void BeginNewLife(DeviceRecord* device);

// Called once for each device that enters quarantine, with no lock held.
// streams/ runs pending host functions with `fault` there.
using QuarantineHook = void (*)(DeviceRecord* device,
                                const absl::Status& fault);
void SetQuarantineHook(QuarantineHook hook);

// Called for each device before the plugin's shutdown and before a simulator's
// reset.  streams/ destroys idle pooled objects there.
using ReleaseHook = void (*)(DeviceRecord* device);
void SetReleaseHook(ReleaseHook hook);
void RunReleaseHook(DeviceRecord* device);

// Called for a device with no lock held: after a wait for the device, and
// before and after its live objects are counted.  streams/ runs deferred
// deletions there, which run code of the program, and destroys surplus idle
// streams.
using SettleHook = void (*)(DeviceRecord* device);
void SetSettleHook(SettleHook hook);
// Does nothing inside a host function.
void RunSettleHook(DeviceRecord* device);
// Runs the hook for each device of `backend`.
void RunSettleHooks(const BackendRecord* backend);

// Waits for a device by calling `wait`.  streams/ then completes the work that
// each stream got before.
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

#endif  // DEVRT_RUNTIME_REGISTRY_RECORDS_H_
