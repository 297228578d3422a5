// SPDX-License-Identifier: Apache-2.0
//
// What a BlockPool is asked for, and what it answers.

#ifndef DEVRT_MEMORY_DEVICE_POOL_REQUEST_H_
#define DEVRT_MEMORY_DEVICE_POOL_REQUEST_H_

#include <cstdint>

#include "devrt/streams/stream.h"
#include "memory/common/rounding.h"
#include "memory/device/block.h"

namespace devrt::internal {

// The result of one attempt under the lock of the pool.
enum class PoolAnswer {
  kDone,
  kClosed,   // the device accepts no calls
  kNoBlock,  // no free block fits: see Recovery
  kPending,  // the caller polls the pending frees and asks again
  kUses,     // Free: other streams use the block; it is kClosing now
  kNotLive,  // Free: no live block begins at the address
  kMoved,    // the segment or the stream belongs to another pool now
};

struct PoolRequest {
  uint64_t size;       // bytes, a result of BlockSize
  uint64_t requested;  // bytes that the program asked for
  uint64_t max_split_size;
  uint64_t site;        // index in the history's sites; 0: none
  bool polled = false;  // the pending frees were polled for this request

  // A block of this many bytes or more is too large for the request (oversize
  // blocks, docs/reference/semantics.md 3.3).
  uint64_t limit() const {
    if (size < max_split_size) return max_split_size;
    return size + kLargeSegment;
  }
};

struct PoolReturn {
  Segment* segment;
  void* pointer;
  const StreamRef* stream;  // nullptr: the stream that the block was given to
  uint64_t site;            // PackSite
  uint64_t event_site = 0;  // index in the history's sites
  // kUses is the answer for a block without uses, too: the caller reports the
  // return of the block while the block is kClosing.
  bool claim = false;
  // With the answer kUses the block stays live: the caller frees it later by a
  // call without `plain`.
  bool plain = false;
  bool oversize = false;  // set by the pool: the block was oversize
  // Set by the pool with the answer kUses: open uses get their checkpoint later
  // (PollPace).
  bool defers = false;
  // Set by the pool with the answer kUses: the block has uses, or is freed on
  // another stream.  False with `claim` alone.
  bool has_uses = false;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_POOL_REQUEST_H_
