// SPDX-License-Identifier: Apache-2.0
//
// A query of a stream and a wait of the host for a stream, for callers that
// have resolved the stream already.
//
//   StreamTarget t;
//   DEVRT_RETURN_IF_ERROR(ResolveStreamForWork(stream, "copy", site, &t));
//   DEVRT_RETURN_IF_ERROR(CopyOperands(t, dst, src));
//   return SynchronizeTarget(t);
//
// Both functions note which work of the stream is complete, and run deferred
// deletions.  They ask neither whether the stream lives nor whether the thread
// is inside a host function.

#ifndef DEVRT_STREAMS_OBJECTS_STREAM_WAIT_H_
#define DEVRT_STREAMS_OBJECTS_STREAM_WAIT_H_

#include <atomic>
#include <cstdint>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/status.h"
#include "streams/common/deferred_deletion.h"
#include "streams/objects/stream_target.h"
#include "streams/objects/use_hooks.h"
#include "streams/timelines/timeline.h"

namespace devrt::internal {

// BeginLook, or 0, which completes nothing, if uses are not tracked.
inline uint64_t BeginLookIfTracked(Timeline* timeline) {
  return AreUsesTracked() ? timeline->BeginLook() : 0;
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline absl::StatusOr<bool> QueryTarget(
    const StreamTarget& t) {
  t.record->dirty.store(false, std::memory_order_relaxed);
  const uint64_t epoch = BeginLookIfTracked(t.timeline());
  uint32_t done = 0;
  absl::Status status =
      FromPlugin(t.device, t.ops().stream_query(t.self(), t.handle, &done),
                 "stream query");
  if (!status.ok() || done == 0) {
    t.MarkDirty();
  } else {
    t.timeline()->CompleteHere(epoch);
  }
  if (HasDeferredDeletions()) RunDeferredDeletions();
  if (!status.ok()) return status;
  return done != 0;
}

// Not inside host functions.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline absl::Status SynchronizeTarget(
    const StreamTarget& t) {
  t.record->dirty.store(false, std::memory_order_relaxed);
  const uint64_t epoch = BeginLookIfTracked(t.timeline());
  absl::Status status =
      FromPlugin(t.device, t.ops().stream_sync(t.self(), t.handle),
                 "stream synchronisation");
  if (status.ok()) {
    t.timeline()->CompleteHere(epoch);
  } else {
    t.MarkDirty();
  }
  if (HasDeferredDeletions()) RunDeferredDeletions();
  return status;
}

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_OBJECTS_STREAM_WAIT_H_
