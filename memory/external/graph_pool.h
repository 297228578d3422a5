// SPDX-License-Identifier: Apache-2.0
//
// GraphPool: memory for the graphs of another library, apart from the device's
// cache.
//
//   auto pool = GraphPool::Make(device);
//   DEVRT_ASSIGN_OR_RETURN(void* x, pool->Allocate(stream, bytes, site));
//   FreeMemory(x);  // free for the pool's next request of that stream
//   pool.reset();   // captures that asked the pool for memory keep it, too
//
// Unlike the device's cache, a pool takes memory from the driver while a stream
// captures.  A block goes back to the pool at its free, in a capture too.
// Within one capture a block is reused in the order of its stream.  Captures
// that share a pool reuse blocks because the program has promised to launch
// their graphs one after the other.
//
// No memory leaves the pool while a program or a capture keeps it.  Afterwards
// its cache serves the device's next pool, or goes back to the driver
// (EmptyCache).  A capture that keeps the pool counts as a live allocation, so
// Shutdown fails.  If a capture uses a block and does not keep the pool, the
// block is kept by itself (captured_blocks.h).
//
// Threads: any.

#ifndef DEVRT_MEMORY_EXTERNAL_GRAPH_POOL_H_
#define DEVRT_MEMORY_EXTERNAL_GRAPH_POOL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/mutex.h"
#include "devrt/streams/stream.h"
#include "streams/captures/captures.h"

namespace devrt::internal {

class DeviceAllocator;

class GraphPool : public std::enable_shared_from_this<GraphPool> {
 public:
  static absl::StatusOr<std::shared_ptr<GraphPool>> Make(Device device);
  GraphPool(const GraphPool&) = delete;
  GraphPool& operator=(const GraphPool&) = delete;
  ~GraphPool();

  Device device() const;
  // `stream` belongs to the pool's device.  RESOURCE_EXHAUSTED: no room.
  absl::StatusOr<void*> Allocate(StreamRef stream, uint64_t bytes,
                                 CallSite site);

 private:
  explicit GraphPool(DeviceAllocator* allocator) : allocator_(allocator) {}
  // Makes `capture` keep the pool until the capture is over.
  void HoldBy(CaptureNumber capture);

  DeviceAllocator* const allocator_;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_EXTERNAL_GRAPH_POOL_H_
