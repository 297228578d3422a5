// SPDX-License-Identifier: Apache-2.0
//
// What the ends of storages keep until uses of the memory are complete: owners
// of borrowed memory, and memory that its resource cannot take back yet.
//
// Nothing waits on the host: later calls of devrt ask whether the uses are
// complete, and release what is.  What is kept at the end of the process is
// leaked.
//
// Threads: any.

#ifndef DEVRT_ARRAYS_STORAGE_STORAGE_KEPT_H_
#define DEVRT_ARRAYS_STORAGE_STORAGE_KEPT_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/types/span.h"
#include "arrays/storage/storage_uses.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt::internal {

// Calls `release` when the uses are complete, with no lock held and outside
// host functions.
void KeepUntilComplete(absl::Span<const StorageUse> uses,
                       std::function<void()> release);

// Releases objects whose uses on one stream are complete, and objects that
// other libraries have handed back since the last call.  Every operation on
// arrays calls one of these two.  They never make a capture invalid
// (Timeline::Poll), and the call site of the thread stays.

// For callers that know that the thread is outside host functions, and whether
// the stream of their call is `capturing`; the driver is asked nothing then.
void PollPendingReleases(bool capturing);
// For callers that have not asked.  `beside` is the stream of their call.
void RunPendingReleases(std::optional<StreamRef> beside = std::nullopt);

// Releases everything whose uses are complete, for callers that have just
// waited.
DEVRT_EXPORT void RunAllPendingReleases();

// Returns true if the two functions above may have something to release.
DEVRT_EXPORT bool HasPendingReleases();

// The number of things that are kept.
int64_t CountPendingReleases();

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_STORAGE_STORAGE_KEPT_H_
