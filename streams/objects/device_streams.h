// SPDX-License-Identifier: Apache-2.0
//
// DeviceStreams: what streams/ keeps for one device.  It is made at the first
// use and never freed.
//
// Threads: any.  Each part has its own lock; the tables of extensions do not
// change after the construction.

#ifndef DEVRT_STREAMS_OBJECTS_DEVICE_STREAMS_H_
#define DEVRT_STREAMS_OBJECTS_DEVICE_STREAMS_H_

#include "absl/base/optimization.h"
#include "devrt/backends/abi/devrt_capture.h"
#include "devrt/backends/abi/devrt_dlpack.h"
#include "devrt/backends/abi/devrt_event_ipc.h"
#include "devrt/backends/abi/devrt_launch.h"
#include "devrt/backends/abi/devrt_probe.h"
#include "devrt/backends/abi/devrt_race.h"
#include "devrt/backends/abi/devrt_tensor.h"
#include "runtime/registry/records.h"
#include "streams/common/capture_extension.h"
#include "streams/common/extension.h"
#include "streams/objects/event_pool.h"
#include "streams/objects/host_calls.h"
#include "streams/objects/stream_record.h"
#include "streams/objects/stream_recycler.h"
#include "streams/timelines/checkpoint_pool.h"
#include "streams/timelines/timelines.h"

namespace devrt::internal {

struct DeviceStreams {
  explicit DeviceStreams(DeviceRecord* record);

  DeviceRecord* const device;
  StreamRecord legacy;  // the default stream
  StreamRecycler streams;
  EventPool events;
  CheckpointPool checkpoints;
  Timelines timelines;
  HostCalls host_calls;
  ExtensionOf<devrt_launch_v0> launch;
  ExtensionOf<devrt_probe_v0> probe;
  ExtensionOf<devrt_event_ipc_v0> event_ipc;
  ExtensionOf<devrt_capture_v0> capture;
  devrt_dlpack_v0 dlpack;  // defaults if the backend lacks the extension
  ExtensionOf<devrt_elementwise_v0> elementwise;
  ExtensionOf<devrt_reduce_v0> reduce;
  ExtensionOf<devrt_race_v0> race;  // of a race detector, if there is one

  // Tell a race detector of a stream or an event of the program, DEVRT_RACE_*.
  void TellMade(uint32_t kind, const void* object, CallSite site) const {
    if (ABSL_PREDICT_FALSE(race.table != nullptr)) Tell(kind, object, site);
  }
  void TellEnded(const void* object) const {
    if (ABSL_PREDICT_FALSE(race.table != nullptr)) TellEnd(object);
  }

  static DeviceStreams* Of(DeviceRecord* device) {
    DeviceStreams* s = device->streams.load(std::memory_order_acquire);
    return ABSL_PREDICT_TRUE(s != nullptr) ? s : Make(device);
  }

 private:
  static DeviceStreams* Make(DeviceRecord* device);
  void Tell(uint32_t kind, const void* object, CallSite site) const;
  void TellEnd(const void* object) const;
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_OBJECTS_DEVICE_STREAMS_H_
