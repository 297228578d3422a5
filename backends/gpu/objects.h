// SPDX-License-Identifier: Apache-2.0
//
// The objects behind handles: Device<Api>, Stream<Api> and Event<Api>. They
// are data; the parts of the backend that backend.h lists work on them.

#ifndef DEVRT_BACKENDS_GPU_OBJECTS_H_
#define DEVRT_BACKENDS_GPU_OBJECTS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "backends/gpu/ending_streams.h"
#include "backends/gpu/foreign_streams.h"
#include "backends/gpu/fresh_events.h"
#include "backends/gpu/legacy_edges.h"
#include "backends/gpu/queue_window.h"
#include "backends/gpu/records.h"
#include "backends/gpu/slot_leases.h"
#include "backends/gpu/tensor_args.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::gpu {

// The kernels of one device, once they are loaded (kernels.h).
template <class Api>
struct LoadedKernels {
  using Function = typename Api::Function;

  std::mutex mutex;  // held while the kernels are loaded and tried out
  struct Probe {
    Function spin{}, wait{}, set{}, fault{};
  } probe;
  std::atomic<bool> has_probe{false};
  struct Tensors {
    Function fill{}, convert{}, bytes{}, shift{};
    Function apply[kKernelDtypeCount] = {};
    Function rows[kKernelDtypeCount] = {};
    Function cast[kCastDtypeCount] = {};
    Function tiles[kTileKernelCount] = {};
    // Of each family of reductions, the kernels of each dtype.
    struct Reductions {
      Function claim{};
      Function run[kKernelDtypeCount] = {};
    } reduce, columns;
    // These have a kernel for each operation.
    struct Adjacent {
      Function claim{};
      Function run[kFoldCount][kKernelDtypeCount] = {};
      Function run_short[kFoldCount][kKernelDtypeCount] = {};
    } adjacent;
  } tensors;
  std::atomic<bool> has_tensors{false};
};

template <class Api>
struct Device {
  using Context = typename Api::Context;

  uint32_t ordinal = 0;
  typename Api::Device native{};
  std::atomic<Context> context{};  // the primary one, retained at first use
  std::atomic<uint64_t> context_id{0};
  std::mutex mutex;  // guards the creation of the context, and the next two
  devrt_device_props_v0 props{};
  bool has_props = false;
  std::atomic<typename Api::Pool> pool{};  // devrt's own; Pools makes it
  ForeignStreams<Api> foreign;
  EndingStreams<Api> ending;
  LegacyEdges<Api> edges;
  LoadedKernels<Api> kernels;
  SlotLeases leases;
};

template <class Api>
struct Stream {
  static Stream* Of(devrt_stream handle) {
    return reinterpret_cast<Stream*>(handle);
  }
  devrt_stream handle() { return reinterpret_cast<devrt_stream>(this); }
  bool IsDefault() const {
    return kind == DEVRT_STREAM_LEGACY || kind == DEVRT_STREAM_PER_THREAD;
  }

  Device<Api>* device;
  typename Api::Stream native;
  uint32_t kind;
  bool blocking;
  // For a per-thread stream: its thread, and whether that thread has ended.
  std::thread::id thread;
  std::shared_ptr<std::atomic<bool>> ended;
  typename Api::Context context;  // the context that it was made in
  uint64_t context_id;
  // Only for vendors that need fresh events.
  std::shared_ptr<RecordClock> clock =
      Api::kPendingRecordsAreFixed ? std::make_shared<RecordClock>() : nullptr;
  HiddenRecords<Api> hidden;
  Fence<Api> fence;
  QueueWindow<Api> window;
  BareWork<Api> bare;
  SlotLease lease;
};

template <class Api>
struct Event {
  using Context = typename Api::Context;
  using Native = typename Api::Event;

  static Event* Of(devrt_event handle) {
    return reinterpret_cast<Event*>(handle);
  }
  // Returns true if the newest of `count` records is known to be complete, so
  // that the driver need not be asked.  Does not count records by other
  // processes.
  bool IsKnownComplete(uint64_t count) const {
    return complete.load(std::memory_order_acquire) == count &&
           !shared.load(std::memory_order_acquire);
  }

  Device<Api>* device;
  uint32_t flags;
  std::mutex mutex;  // held while the native event is made or exchanged
  std::atomic<Native> native{};
  FreshEvents<Api> others;         // earlier native events
  std::atomic<Context> context{};  // the context of the native event
  // The number of that context.  No context has the first value.
  std::atomic<uint64_t> context_id{UINT64_MAX};
  // Native events in other contexts, made for records on streams of these.
  struct InContext {
    Context context;
    uint64_t context_id;
    Native native;
    FreshEvents<Api> others;
  };
  std::vector<InContext> other_contexts;
  // The number of records, and the newest one known to be complete: the
  // driver's query is slowest for a finished event.
  std::atomic<uint64_t> records{0};
  std::atomic<uint64_t> complete{0};
  std::atomic<bool> shared{false};  // another process may record it
};

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_OBJECTS_H_
