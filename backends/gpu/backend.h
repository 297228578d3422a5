// SPDX-License-Identifier: Apache-2.0
//
// A backend over a vendor's driver, as a template: what differs between vendors
// is the Api (backends/cuda/api.h says what an Api has), and nothing here asks
// which vendor it is. A plugin includes this header and instantiates
// Backend<Api> once.
//
// Backend<Api> is made of parts. Each part is a class with its own file, its
// own lock if it needs one, and pointers to the parts that it uses, all of
// which are above it in this table. The slots of devrt_ops_v0 are public
// members of the parts.
//
//   Part            File              What it owns
//   Driver          driver.h          host, vendor's functions, errors, fault
//   Devices         device.h          devices, contexts, what is current
//   Streams         stream.h          streams and host functions
//   Events          event.h           events, devrt.event_ipc/0
//   Copies          copy.h            copies and fills
//   Pools           pool.h            pools of stream-ordered memory
//   VirtualMemory   virtual_memory.h  devrt.virtual_memory/0
//   Peers           peers.h           access to the memory of peers
//   Memory          memory.h          device, pinned and registered memory
//   Captures        captures.h        devrt.capture/0
//   Kernels         kernels.h         devrt's kernels: loading and launches
//   Probe           probe.h           devrt.probe/0
//   Elementwise     elementwise.h     devrt.elementwise/0
//   Reductions      reduce.h          devrt.reduce/0
//
// Parts of parts:
//   objects.h          Device, Stream, Event: what handles point to
//   context_scope.h    a context that is current for a while
//   submit.h           how a call gets to a stream
//   foreign_streams.h  a device's streams of other contexts
//   ending_streams.h   a device's streams that end with their work
//   legacy_edges.h     the legacy stream's rules for records and waits
//   records.h          records that the driver hides; fences
//   fresh_events.h     native events that take turns
//   queue_window.h     a stream's submissions, below the driver's queue
//   default_streams.h  legacy and per-thread streams
//   aligned.h          allocations with a larger alignment than the driver's
//   kernel_image.h     the compiled kernels of the plugin
//   memory_readers.h   which device may use the memory of which other
//   errors.h           what a vendor's error codes mean
//   pointer_info.h     the answer to a question for a pointer
//
// Threads: every slot from any thread, as its tag says. No lock that other
// objects' calls need is held across a native call that may wait, but for a
// device's first kernel (kernels.h), and where Api asks for edges of the legacy
// rules (legacy_edges.h).

#ifndef DEVRT_BACKENDS_GPU_BACKEND_H_
#define DEVRT_BACKENDS_GPU_BACKEND_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "backends/gpu/captures.h"
#include "backends/gpu/copy.h"
#include "backends/gpu/device.h"
#include "backends/gpu/driver.h"
#include "backends/gpu/elementwise.h"
#include "backends/gpu/event.h"
#include "backends/gpu/kernels.h"
#include "backends/gpu/memory.h"
#include "backends/gpu/peers.h"
#include "backends/gpu/pool.h"
#include "backends/gpu/probe.h"
#include "backends/gpu/reduce.h"
#include "backends/gpu/stream.h"
#include "backends/gpu/virtual_memory.h"
#include "devrt/backends/abi/devrt_dlpack.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace devrt::gpu {

// The parts are bases, so that the plugin helper finds their slots. A base is
// made before all bases behind it.
template <class Api>
class Backend : public Devices<Api>,
                public Streams<Api>,
                public Events<Api>,
                public Copies<Api>,
                public Pools<Api>,
                public VirtualMemory<Api>,
                public Peers<Api>,
                public Memory<Api>,
                public Captures<Api>,
                public Kernels<Api>,
                public Probe<Api>,
                public Elementwise<Api>,
                public Reductions<Api> {
 public:
  static constexpr uint64_t kCapabilities =
      DEVRT_CAP_EVENT_TIMING | DEVRT_CAP_EVENT_IPC | DEVRT_CAP_HOST_FUNC |
      DEVRT_CAP_STREAM_PRIORITY | DEVRT_CAP_STREAM_EXTERNAL |
      DEVRT_CAP_PINNED_HOST | DEVRT_CAP_HOST_REGISTER | DEVRT_CAP_POINTER_INFO |
      DEVRT_CAP_PEER_COPY | DEVRT_CAP_PEER_ACCESS |
      (Api::kHasPools ? DEVRT_CAP_ASYNC_ALLOC : 0);

  // Loads the driver and counts devices; initialises nothing else.
  static std::unique_ptr<Backend> Open(const devrt_host_v0* host,
                                       devrt_status* error,
                                       uint64_t* capabilities);

  const void* get_extension(const char* name);

 private:
  Backend(const devrt_host_v0* host, const Api& api, uint32_t count)
      : Devices<Api>(host, api, count),
        Streams<Api>(this),
        Events<Api>(this),
        Copies<Api>(this, this),
        Pools<Api>(this),
        VirtualMemory<Api>(this, this),
        Peers<Api>(this, this, this),
        Memory<Api>(this, this, this),
        Captures<Api>(&this->driver()),
        Kernels<Api>(this),
        Probe<Api>(this, this, this),
        Elementwise<Api>(&this->driver(), this),
        Reductions<Api>(&this->driver(), this) {}
};

template <class Api>
std::unique_ptr<Backend<Api>> Backend<Api>::Open(const devrt_host_v0* host,
                                                 devrt_status* error,
                                                 uint64_t* capabilities) {
  using Error = typename Api::Error;
  std::string why;
  const std::unique_ptr<Api> api = Api::Load(&why);
  if (api == nullptr) {
    *error = plugin::Error(host, DEVRT_UNAVAILABLE, 0, why);
    return nullptr;
  }
  *capabilities &= ~api->MissingCapabilities();
  int count = api->CountWithoutInit();
  if (count < 0) {
    Error native = api->Init();
    if (native == Api::kSuccess) native = api->Count(&count);
    if (native != Api::kSuccess) {
      *error = plugin::ErrorF(host, DEVRT_UNAVAILABLE,
                              static_cast<int64_t>(native), "%s: %s",
                              api->ErrorName(native), api->ErrorText(native));
      return nullptr;
    }
  }
  if (count == 0) {
    *error =
        plugin::Error(host, DEVRT_UNAVAILABLE, 0, "the driver finds no device");
    return nullptr;
  }
  return std::unique_ptr<Backend>(
      new Backend(host, *api, static_cast<uint32_t>(count)));
}

template <class Api>
const void* Backend<Api>::get_extension(const char* name) {
  static constexpr devrt_dlpack_v0 kDlpack = Api::kDlpack;
  const auto is = [name](const char* extension) {
    return std::strcmp(name, extension) == 0;
  };
  if (is(DEVRT_DLPACK_EXTENSION)) return &kDlpack;
  if (is(DEVRT_EVENT_IPC_EXTENSION)) {
    return this->template EventIpcTable<Backend>();
  }
  if constexpr (Api::kHasCaptures) {
    if (is(DEVRT_CAPTURE_EXTENSION)) {
      return this->template CaptureTable<Backend>();
    }
  }
  if constexpr (Api::kHasVirtualMemory) {
    if (is(DEVRT_VIRTUAL_MEMORY_EXTENSION)) {
      return this->template VirtualMemoryTable<Backend>();
    }
  }
  if (!Kernels<Api>::HasKernels()) return nullptr;
  if (is(DEVRT_PROBE_EXTENSION)) return this->template ProbeTable<Backend>();
  if (is(DEVRT_ELEMENTWISE_EXTENSION)) {
    return this->template ElementwiseTable<Backend>();
  }
  if (is(DEVRT_REDUCE_EXTENSION)) return this->template ReduceTable<Backend>();
  return nullptr;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_BACKEND_H_
