// SPDX-License-Identifier: Apache-2.0
//
// Reads the file of a memory snapshot (docs/reference/memory-snapshot.md).

#ifndef DEVRT_TOOLS_MEMORY_SNAPSHOT_READER_H_
#define DEVRT_TOOLS_MEMORY_SNAPSHOT_READER_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "devrt/memory/history.h"

namespace devrt::tools {

// By the keys of docs/reference/semantics.md 3.3: "num_ooms".
using SnapshotFigures = std::map<std::string, int64_t>;

struct SnapshotFile {
  MemorySnapshot snapshot;  // its `statistics` are all 0
  SnapshotFigures figures;  // the statistics of the file
};

// INVALID_ARGUMENT if the text is truncated, damaged or of another schema, or
// breaks a rule of docs/reference/memory-snapshot.md.  The message says where,
// as in "segments[1].blocks[0]".  The file may come from anywhere: the reader
// relies on none of its contents.
absl::StatusOr<SnapshotFile> ParseMemorySnapshot(const std::string& json);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_MEMORY_SNAPSHOT_READER_H_
