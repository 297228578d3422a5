// SPDX-License-Identifier: Apache-2.0
//
// StreamPool: a fixed number of streams, handed out in turn.
//
//   DEVRT_ASSIGN_OR_RETURN(devrt::StreamPool pool,
//                          devrt::StreamPool::Create(gpu, 4));
//   devrt::StreamRef s = pool.Next();
//
// Unlike Stream::Create, a pool shares its streams: of 4 streams the first and
// the fifth request get one stream, so two users may order each other by
// accident (F19).  Use a pool where the number of streams matters more than
// their independence.
//
// Ownership: the pool owns its streams; references are valid while the pool
// lives.  Movable; a moved-from pool may only be destroyed or assigned to.
// Threads: Next may be called from any thread.

#ifndef DEVRT_STREAMS_OBJECTS_STREAM_POOL_H_
#define DEVRT_STREAMS_OBJECTS_STREAM_POOL_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt {

// A fixed number of streams of one device.
class DEVRT_EXPORT StreamPool {
 public:
  // INVALID_ARGUMENT if `size` is 0 or more than 65,536.  `site` is for reports
  // of leaks.
  static absl::StatusOr<StreamPool> Create(Device device, size_t size,
                                           StreamOptions options = {},
                                           CallSite site = CallSite::Here());

  // The next stream; the first one follows the last one.
  StreamRef Next() {
    return streams_[next_->fetch_add(1, std::memory_order_relaxed) %
                    streams_.size()];
  }
  // The number of streams.
  size_t size() const { return streams_.size(); }

 private:
  explicit StreamPool(std::vector<Stream> streams)
      : streams_(std::move(streams)),
        next_(std::make_unique<std::atomic<size_t>>(0)) {}
  std::vector<Stream> streams_;
  std::unique_ptr<std::atomic<size_t>> next_;
};

}  // namespace devrt

#endif  // DEVRT_STREAMS_OBJECTS_STREAM_POOL_H_
