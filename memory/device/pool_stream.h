// SPDX-License-Identifier: Apache-2.0
//
// PoolStream: the stream that a pool serves, and the timeline on which the
// pool's free blocks were released.
//
// The stream may end before the pool does.  Blocks that come back later count
// as released at the end of the stream.
//
// Not synchronised: guarded by the lock of the pool.  Only serial() may be
// called without the lock.

#ifndef DEVRT_MEMORY_DEVICE_POOL_STREAM_H_
#define DEVRT_MEMORY_DEVICE_POOL_STREAM_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "devrt/streams/stream.h"
#include "memory/device/block.h"
#include "runtime/registry/records.h"
#include "streams/objects/stream_record.h"
#include "streams/timelines/timeline.h"

namespace devrt::internal {

class PoolStream {
 public:
  explicit PoolStream(DeviceRecord* device) : device_(device) {}
  PoolStream(const PoolStream&) = delete;
  PoolStream& operator=(const PoolStream&) = delete;

  void Begin(StreamRef stream, Timeline* timeline) {
    serial_.store(stream.serial(), std::memory_order_relaxed);
    record_ = stream.record();
    timeline_ = timeline;
    end_epoch_ = 0;
  }
  // Notes that the stream has ended.  `epoch` of the timeline covers all of its
  // work.
  void End(uint64_t serial, uint64_t epoch) {
    if (this->serial() == serial && end_epoch_ == 0) end_epoch_ = epoch;
  }

  bool IsLive() const { return serial() != 0 && end_epoch_ == 0; }
  bool Is(StreamRef stream) const {
    return serial() == stream.serial() && end_epoch_ == 0;
  }
  std::optional<StreamRef> ref() const {
    if (!IsLive()) return std::nullopt;
    return StreamRef(record_, serial());
  }
  // The stream that the pool serves, or the last one that it served.
  uint64_t serial() const { return serial_.load(std::memory_order_relaxed); }
  Timeline* timeline() const { return timeline_; }
  DeviceRecord* device() const { return device_; }
  // The epoch at which a block that comes back now is released.
  uint64_t Now() const {
    return end_epoch_ != 0 ? end_epoch_ : timeline_->Now();
  }

  // The serial of the stream that the block was given to.
  uint64_t HolderOf(const Block* block) const {
    return block->lent ? block->held.stream_serial : serial();
  }
  // Default streams of all devices have one serial.
  bool IsHolder(const Block* block, StreamRef stream) const {
    return HolderOf(block) == stream.serial() &&
           stream.record()->device == device_;
  }

 private:
  std::atomic<uint64_t> serial_{0};
  Timeline* timeline_ = nullptr;
  StreamRecord* record_ = nullptr;
  uint64_t end_epoch_ = 0;  // 0: the stream lives
  DeviceRecord* const device_;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_POOL_STREAM_H_
