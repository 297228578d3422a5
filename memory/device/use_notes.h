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

namespace devrt::internal {

// RecordStream, for a block of `segment`.
absl::Status RecordUse(Segment* segment, const void* pointer, StreamRef stream);
// An operation of devrt that was just enqueued on `stream` uses the block of
// `segment` that holds `pointer`, if there is one.
void NoteUse(Segment* segment, const void* pointer, StreamRef stream);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_USE_NOTES_H_
