// SPDX-License-Identifier: Apache-2.0
//
// The history and the snapshots of a device's caching allocator.
//
//   devrt::HistoryOptions options;
//   options.stacks = true;
//   DEVRT_RETURN_IF_ERROR(devrt::RecordMemoryHistory(gpu, options));
//   ... run the program ...
//   DEVRT_ASSIGN_OR_RETURN(std::string json, devrt::MemorySnapshotJson(gpu));
//   WriteFile("run.json", json);
//
// `devrt memory run.json -o run.html` makes a page with pictures of the file.
//
// A snapshot has every segment and block with state, stream and size.  While
// history is recorded it also has the last `events` events with their sites or
// stacks.  docs/reference/memory-snapshot.md describes its form, schema
// "devrt.memory/1".
//
// History is off by default.  With history an allocation takes about twice the
// time, with stacks about 1 us more.
//
// Threads: any.  A snapshot shows one moment: allocations on the device wait
// while blocks are copied, about 10 ns for each block.
// Errors: INVALID_ARGUMENT for a history of 0 or more than 2^24 events;
// FAILED_PRECONDITION in a forked child.

#ifndef DEVRT_MEMORY_COMMON_HISTORY_H_
#define DEVRT_MEMORY_COMMON_HISTORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/memory/statistics.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"

namespace devrt {

// How much a history keeps.
struct HistoryOptions {
  uint64_t events = 100'000;  // the last ones are kept
  bool stacks = false;        // record addresses of up to 32 frames
};

// Begins a new history; nullopt ends it.  Both drop the events so far.
// HistoryOptions() begins one with the defaults, while `{}` is nullopt.
DEVRT_EXPORT absl::Status RecordMemoryHistory(
    Device device, std::optional<HistoryOptions> options);

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

// The segments, blocks and history of the device's caching allocator.
DEVRT_EXPORT absl::StatusOr<MemorySnapshot> TakeMemorySnapshot(Device device);

// A snapshot as JSON, in the schema "devrt.memory/1":
DEVRT_EXPORT absl::StatusOr<std::string> MemorySnapshotJson(Device device);
DEVRT_EXPORT std::string ToJson(const MemorySnapshot& snapshot);

}  // namespace devrt

#endif  // DEVRT_MEMORY_COMMON_HISTORY_H_
