// SPDX-License-Identifier: Apache-2.0
//
// GraphPool: memory for the graphs of another library, apart from the device's
// cache.
//
//   auto pool = GraphPool::Make(device);
//   DEVRT_ASSIGN_OR_RETURN(void* x, pool->Allocate(stream, bytes, site));
//   FreeMemory(x);  // for the pool's next request of that stream
//   pool.reset();   // the captures that asked the pool for memory hold it too
//
// Unlike the device's cache a pool takes memory from the driver while a stream
// captures.  Its blocks go back to it at their free, in a capture too: within
// one capture they are used again in the order of their stream, and between
// captures as the program has promised who lets them share a pool.
//
// No memory leaves the pool while somebody holds it.  Behind that its cache
// serves the device's next pool, or goes back to the driver (EmptyCache).  A
// capture that holds it counts as an allocation: Shutdown is refused.  For a
// capture that uses a block and does not hold the pool the block is kept by
// itself (captured_blocks.h).
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
#include "streams/internal/captures.h"

namespace devrt::internal {

class DeviceAllocator;

class GraphPool : public std::enable_shared_from_this<GraphPool> {
 public:
  static absl::StatusOr<std::shared_ptr<GraphPool>> Make(Device device);
  GraphPool(const GraphPool&) = delete;
  GraphPool& operator=(const GraphPool&) = delete;
  ~GraphPool();

  Device device() const;
  // `stream` is of the pool's device.  RESOURCE_EXHAUSTED without room.
  absl::StatusOr<void*> Allocate(StreamRef stream, uint64_t bytes,
                                 CallSite site);

 private:
  explicit GraphPool(DeviceAllocator* allocator) : allocator_(allocator) {}
  // `capture` holds the pool to its end.
  void HoldBy(CaptureNumber capture);

  DeviceAllocator* const allocator_;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_EXTERNAL_GRAPH_POOL_H_
