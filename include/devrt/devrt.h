// SPDX-License-Identifier: Apache-2.0
//
// All of devrt's C++ API.  Start at devrt/runtime/device.h; backends for new
// accelerators include devrt/backends/abi/devrt_plugin.h instead.
//
//   absl::Status Example() {
//     DEVRT_ASSIGN_OR_RETURN(devrt::Device gpu1, devrt::GetDevice("mtia:1"));
//     DEVRT_ASSIGN_OR_RETURN(devrt::Stream copy, devrt::Stream::Create(gpu1));
//     devrt::StreamGuard on_copy(copy);
//     DEVRT_ASSIGN_OR_RETURN(devrt::Event done, devrt::Event::Create(gpu1));
//     DEVRT_RETURN_IF_ERROR(done.Record(copy));
//     return devrt::DefaultStream(gpu1).Wait(done);
//   }

#ifndef DEVRT_INCLUDE_DEVRT_DEVRT_H_
#define DEVRT_INCLUDE_DEVRT_DEVRT_H_

#include "devrt/arrays/array.h"
#include "devrt/arrays/copy.h"
#include "devrt/arrays/cuda_array_interface.h"
#include "devrt/arrays/dlpack.h"
#include "devrt/arrays/dlpack_exchange.h"
#include "devrt/arrays/dtype.h"
#include "devrt/arrays/exchange.h"
#include "devrt/arrays/exchange_handle.h"
#include "devrt/arrays/operations.h"
#include "devrt/arrays/place.h"
#include "devrt/arrays/scalar.h"
#include "devrt/guards/device_guard.h"
#include "devrt/guards/multi_stream_guard.h"
#include "devrt/guards/stream_guard.h"
#include "devrt/guards/thread_context.h"
#include "devrt/memory/buffer.h"
#include "devrt/memory/device_memory.h"
#include "devrt/memory/history.h"
#include "devrt/memory/memory_request.h"
#include "devrt/memory/memory_resource.h"
#include "devrt/memory/memory_snapshot.h"
#include "devrt/memory/memory_statistics.h"
#include "devrt/memory/pinned_memory.h"
#include "devrt/memory/resources.h"
#include "devrt/memory/settings.h"
#include "devrt/memory/statistics.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/inspect.h"
#include "devrt/runtime/layer.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/peer.h"
#include "devrt/runtime/raw_memory.h"
#include "devrt/runtime/simulator.h"
#include "devrt/runtime/status.h"
#include "devrt/sim/explore.h"
#include "devrt/sim/faults.h"
#include "devrt/sim/witness.h"
#include "devrt/streams/access.h"
#include "devrt/streams/copy.h"
#include "devrt/streams/event.h"
#include "devrt/streams/external_stream.h"
#include "devrt/streams/host_func.h"
#include "devrt/streams/launch.h"
#include "devrt/streams/probe.h"
#include "devrt/streams/stream.h"
#include "devrt/streams/stream_pool.h"
#include "devrt/streams/sync.h"
#include "devrt/streams/validate.h"

#endif  // DEVRT_INCLUDE_DEVRT_DEVRT_H_
