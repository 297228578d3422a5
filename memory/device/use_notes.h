// SPDX-License-Identifier: Apache-2.0
//
// Notes on live blocks of the caching allocators that a stream uses them.  The
// free of a block waits for the uses that were noted.
//
// Threads: any.  No lock of an allocator may be held by the caller.

#ifndef DEVRT_MEMORY_DEVICE_USE_NOTES_H_
#define DEVRT_MEMORY_DEVICE_USE_NOTES_H_

#include "absl/status/status.h"
#include "devrt/streams/stream.h"
#include "memory/device/block.h"
#include "streams/timelines/order.h"

namespace devrt::internal {

// RecordStream, for a block of `segment`.
absl::Status RecordUse(Segment* segment, const void* pointer, StreamRef stream);
// An operation of devrt on `stream`, enqueued before `point`, uses the block of
// `segment` that holds `pointer`, if there is one.  All blocks of one operation
// take one point, so that one checkpoint covers them.
void NoteUse(Segment* segment, const void* pointer, StreamRef stream,
             const OrderPoint& point);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_USE_NOTES_H_
