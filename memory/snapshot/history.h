// SPDX-License-Identifier: Apache-2.0
//
// What the caching allocator did, and what its memory looks like now.
//
//   devrt::HistoryOptions options;
//   options.stacks = true;
//   DEVRT_RETURN_IF_ERROR(devrt::RecordMemoryHistory(gpu, options));
//   ... run the program ...
//   DEVRT_ASSIGN_OR_RETURN(std::string json, devrt::MemorySnapshotJson(gpu));
//   WriteFile("run.json", json);
//
// The command `devrt memory run.json -o run.html` draws it.
//
// A snapshot has every segment and block with state, stream and size, and, if
// history is on, the last `events` events with their sites or stacks.  Its form
// is docs/memory-snapshot.md, schema "devrt.memory/1".
//
// What it is not: on by default.  With history an allocation costs about twice
// as much, with stacks about 1 us more.
//
// Threads: any.  A snapshot is of one moment: allocation on the device stands
// still while blocks are copied, about 10 ns a block.
// Errors: INVALID_ARGUMENT for a history of no or more than 2^24 events;
// FAILED_PRECONDITION in a forked child.

#ifndef DEVRT_MEMORY_SNAPSHOT_HISTORY_H_
#define DEVRT_MEMORY_SNAPSHOT_HISTORY_H_

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

struct HistoryOptions {
  uint64_t events = 100'000;  // kept; older ones go
  bool stacks = false;        // addresses of up to 32 frames
};

// Begins anew; nullopt ends it and drops what was kept.
DEVRT_EXPORT absl::Status RecordMemoryHistory(
    Device device, std::optional<HistoryOptions> options);

enum class MemoryAction : uint32_t {
  kAlloc = 0,          // handed out
  kFreeRequested = 1,  // FreeMemory
  kFreeCompleted = 2,  // may be used again
  kSegmentAlloc = 3,
  kSegmentFree = 4,
  kSegmentMap = 5,  // expandable segments
  kSegmentUnmap = 6,
  kSnapshot = 7,  // TakeMemorySnapshot: in the one that it is taken for, too
  kOutOfMemory = 8,
};
// "alloc", "free_requested", ...
DEVRT_EXPORT const char* ToString(MemoryAction action);

// Where a call came from.
struct MemorySite {
  std::string file;  // empty: unknown
  int64_t line = 0;
  std::vector<uint64_t> frames;  // innermost first, if stacks were taken
};
inline constexpr uint32_t kNoMemorySite = UINT32_MAX;

struct MemoryEvent {
  MemoryAction action = MemoryAction::kAlloc;
  uint64_t number = 0;  // order of effect on the device, without gaps
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t stream = 0;            // id (C100)
  int64_t time_us = 0;            // since the epoch
  uint32_t site = kNoMemorySite;  // index into MemorySnapshot::sites
};

enum class BlockState : uint32_t {
  kFree = 0,      // "inactive"
  kLive = 1,      // "active_allocated"
  kPending = 2,   // "active_pending_free": freed, with uses that have not ended
  kUnmapped = 3,  // "unmapped": a hole of an expandable segment
};
// The words above.
DEVRT_EXPORT const char* ToString(BlockState state);

struct BlockSnapshot {
  uint64_t address = 0;
  uint64_t size = 0;
  uint64_t requested = 0;  // 0 unless live or pending
  BlockState state = BlockState::kFree;
  uint64_t stream = 0;                    // whose it is
  std::vector<uint64_t> waiting_streams;  // whose uses have not ended
  uint32_t site = kNoMemorySite;          // of the allocation
};

struct SegmentSnapshot {
  uint64_t address = 0;
  uint64_t size = 0;  // of its blocks without the unmapped ones
  uint64_t stream = 0;
  bool large = false;
  bool expandable = false;
  std::vector<BlockSnapshot> blocks;  // by address, without gaps
};

struct MemorySnapshot {
  std::string device;  // "cuda:0"
  uint64_t total_memory = 0;
  std::vector<SegmentSnapshot> segments;  // by address
  std::vector<MemorySite> sites;
  std::vector<MemoryEvent> events;  // oldest first
  MemoryStatistics statistics;      // of the same moment
};

DEVRT_EXPORT absl::StatusOr<MemorySnapshot> TakeMemorySnapshot(Device device);

// JSON in the schema "devrt.memory/1".
DEVRT_EXPORT absl::StatusOr<std::string> MemorySnapshotJson(Device device);
DEVRT_EXPORT std::string ToJson(const MemorySnapshot& snapshot);

}  // namespace devrt

#endif  // DEVRT_MEMORY_SNAPSHOT_HISTORY_H_
