// SPDX-License-Identifier: Apache-2.0
//
// The hooks by which memory/ learns of uses of memory and of the ends of
// streams.
//
// Programs that use no memory/ set no hook and pay nothing: until
// SetStreamEndHook, records and looks of the program leave timelines alone.
// SetStreamEndHook comes before the first use is tracked, and is not undone.

#ifndef DEVRT_STREAMS_OBJECTS_USE_HOOKS_H_
#define DEVRT_STREAMS_OBJECTS_USE_HOOKS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "devrt/streams/stream.h"

namespace devrt::internal {

// One range of memory that an operation touched.
struct UsedRange {
  const void* pointer;
  uint64_t bytes;
};

// Called after an operation was enqueued, with no lock held.  Costs little if
// all ranges belong to the stream's own blocks.
using UseHook = void (*)(StreamRef stream, const UsedRange* ranges,
                         size_t count);
void SetUseHook(UseHook hook);

// Called at the end of `stream`, before its record gets another serial.  The
// hook closes open uses by a checkpoint and gives the stream's free blocks to
// others.  No lock is held, and the thread is outside host functions.  If the
// program destroyed the Stream inside a host function, the call comes later:
// other calls with `stream` are refused by then, but Timeline::Checkpoint
// works.
using StreamEndHook = void (*)(StreamRef stream);
void SetStreamEndHook(StreamEndHook hook);

extern std::atomic<UseHook> g_use_hook;
extern std::atomic<StreamEndHook> g_stream_end_hook;

inline void NoteUses(StreamRef stream, const UsedRange* ranges, size_t count) {
  const UseHook hook = g_use_hook.load(std::memory_order_acquire);
  if (hook != nullptr) hook(stream, ranges, count);
}
inline void NoteStreamEnd(StreamRef stream) {
  const StreamEndHook hook = g_stream_end_hook.load(std::memory_order_acquire);
  if (hook != nullptr) hook(stream);
}

// Returns true once somebody may keep points of streams.
inline bool AreUsesTracked() {
  return g_stream_end_hook.load(std::memory_order_acquire) != nullptr;
}

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_OBJECTS_USE_HOOKS_H_
