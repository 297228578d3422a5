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

#ifndef DEVRT_MEMORY_SNAPSHOT_HISTORY_H_
#define DEVRT_MEMORY_SNAPSHOT_HISTORY_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/memory/memory_snapshot.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"

namespace devrt {

// Begins a new history; nullopt ends it.  Both drop the events so far.
// HistoryOptions() begins one with the defaults, while `{}` is nullopt.
DEVRT_EXPORT absl::Status RecordMemoryHistory(
    Device device, std::optional<HistoryOptions> options);

// The segments, blocks and history of the device's caching allocator.
DEVRT_EXPORT absl::StatusOr<MemorySnapshot> TakeMemorySnapshot(Device device);

// A snapshot as JSON, in the schema "devrt.memory/1":
DEVRT_EXPORT absl::StatusOr<std::string> MemorySnapshotJson(Device device);
DEVRT_EXPORT std::string ToJson(const MemorySnapshot& snapshot);

}  // namespace devrt

#endif  // DEVRT_MEMORY_SNAPSHOT_HISTORY_H_
