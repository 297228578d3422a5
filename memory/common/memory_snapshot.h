// SPDX-License-Identifier: Apache-2.0
//
// What a history records, and what a snapshot of a device's allocator has.
// history.h has the functions that begin a history and take a snapshot.

#ifndef DEVRT_MEMORY_COMMON_MEMORY_SNAPSHOT_H_
#define DEVRT_MEMORY_COMMON_MEMORY_SNAPSHOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "devrt/memory/memory_statistics.h"
#include "devrt/runtime/export.h"

namespace devrt {

// How much a history keeps.
struct HistoryOptions {
  uint64_t events = 100'000;  // the last ones are kept
  bool stacks = false;        // record addresses of up to 32 frames
};

// What an event of the history tells of.
enum class MemoryAction : uint32_t {
  kAlloc = 0,          // a program got a block
  kFreeRequested = 1,  // FreeMemory
  kFreeCompleted = 2,  // the block can be used again
  kSegmentAlloc = 3,
  kSegmentFree = 4,
  kSegmentMap = 5,  // expandable segments
  kSegmentUnmap = 6,
  kSnapshot = 7,  // TakeMemorySnapshot; a snapshot has its own event, too
  kOutOfMemory = 8,
};
// "alloc", "free_requested", ...
DEVRT_EXPORT const char* ToString(MemoryAction action);

// The place of a call in the program.
struct MemorySite {
  std::string file;  // empty: unknown
  int64_t line = 0;
  std::vector<uint64_t> frames;  // innermost first, if stacks were taken
};
// The index for an unknown place.
inline constexpr uint32_t kNoMemorySite = UINT32_MAX;

// One event of the history.
struct MemoryEvent {
  MemoryAction action = MemoryAction::kAlloc;
  uint64_t number = 0;   // counts the events of the device in their order
  uint64_t address = 0;  // of the block or the segment
  uint64_t bytes = 0;
  uint64_t stream = 0;            // its id (C100)
  int64_t time_us = 0;            // since the epoch
  uint32_t site = kNoMemorySite;  // index into MemorySnapshot::sites
};

// Who may use a block.
enum class BlockState : uint32_t {
  kFree = 0,      // "inactive"
  kLive = 1,      // "active_allocated"
  kPending = 2,   // "active_pending_free": freed, but still used by streams
  kUnmapped = 3,  // "unmapped": a hole in an expandable segment
};
// The words in the comments above.
DEVRT_EXPORT const char* ToString(BlockState state);

// A block of a segment; its sizes are bytes.
struct BlockSnapshot {
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t requested = 0;  // 0 unless the block is live or pending
  BlockState state = BlockState::kFree;
  uint64_t stream = 0;                    // the stream that owns the block
  std::vector<uint64_t> waiting_streams;  // streams that still use it
  uint32_t site = kNoMemorySite;          // of the allocation
};

// Memory from the driver, cut into blocks; its size is in bytes.
struct SegmentSnapshot {
  uint64_t address = 0;
  uint64_t size = 0;  // the sum of its blocks, without unmapped ones
  uint64_t stream = 0;
  bool large = false;                 // of the large pool
  bool expandable = false;            // has more addresses than memory
  std::vector<BlockSnapshot> blocks;  // by address, without gaps
};

// The memory of a device at one moment.
struct MemorySnapshot {
  std::string device;                     // "cuda:0"
  uint64_t total_memory = 0;              // bytes of the device
  std::vector<SegmentSnapshot> segments;  // by address
  std::vector<MemorySite> sites;          // those that blocks and events name
  std::vector<MemoryEvent> events;        // oldest first
  MemoryStatistics statistics;            // at the moment of the snapshot
};

}  // namespace devrt

#endif  // DEVRT_MEMORY_COMMON_MEMORY_SNAPSHOT_H_
