// SPDX-License-Identifier: Apache-2.0
//
// Segment: a piece of memory from the driver.  Block: a part of one.
//
// Blocks lie in tables of their segment, at the place of their first byte, so
// that address -> block -> neighbours is arithmetic and cutting a block in two
// allocates nothing:
//
//   small  512 bytes a slot: 4,096 slots for each 2 MiB
//   large  1 MiB a slot: blocks are larger than that, so that no two begin in
//          one slot; the offset tells whether a pointer is the beginning
//
// Tables are made for each 2 MiB (small) or whole (large), and of an expandable
// segment for each piece when memory is put behind it.  A slot where no block
// begins is kNone: so interior pointers and pointers that were freed before are
// told from live ones, whatever they are (C63).
//
// Locks: everything but what is said to never change belongs to the lock of
// the segment's BlockPool.

#ifndef DEVRT_MEMORY_INTERNAL_BLOCK_H_
#define DEVRT_MEMORY_INTERNAL_BLOCK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "devrt/memory/internal/rounding.h"
#include "devrt/runtime/call_site.h"
#include "devrt/streams/internal/timeline.h"
#include "devrt/streams/stream.h"

namespace devrt::internal {

class BlockPool;
class DeviceAllocator;
struct Segment;

enum class BlockUse : uint8_t {
  kNone = 0,     // no block begins here
  kFree = 1,     // in the free blocks of its pool
  kLive = 2,     // somebody's
  kClosing = 3,  // freed; its open marks are being closed, by one thread
  kPending = 4,  // freed, uses have not ended; PendingFrees has it
};

// Uses of a block off its stream.  Rare, hence apart from the block.
struct BlockUses {
  struct Open {  // by RecordStream: closed at the free
    StreamRef stream;
    Timeline* timeline;
  };
  absl::InlinedVector<OrderPoint, 4> points;  // newest for each timeline
  absl::InlinedVector<Open, 2> open;
};

// Invariants
//   B1. Blocks of a segment cover it without gap or overlap: `next` of the one
//       at o is at o + size, and its `previous` is `size`.
//   B2. Two neighbours are never both kFree, unless a hole of an expandable
//       segment lies between.
//   B3. kFree means: a use of its pool's stream may begin.  `released` is the
//       newest point at which anything in it was freed there (F18: a merge
//       keeps the newer), for other streams.
struct alignas(64) Block {
  uint32_t size = 0;      // granules
  uint32_t previous = 0;  // size of the block before; 0: first, or a hole
  BlockUse use = BlockUse::kNone;
  bool lent = false;   // held on another stream than its pool's
  uint32_t slack = 0;  // size in bytes less what was asked for
  Segment* segment = nullptr;
  union {
    struct {         // kFree
      Block* child;  // FreeBlocks: a heap by address
      Block* sibling;
      Block* back;
      uint64_t released;  // epoch of the pool's timeline
    } free;
    struct {                 // the others
      BlockUses* uses;       // nullptr: none off its stream
      StreamRecord* stream;  // where it was handed out, if `lent`
      uint64_t stream_serial;
      uint64_t site;  // index in the history's table of sites; 0: none
    } held;
  };

  Block() : held{nullptr, nullptr, 0, 0} {}
  uint64_t bytes() const { return uint64_t{size} * kGranule; }
};
static_assert(sizeof(Block) == 64, "one line of the cache");

// Made once, used again, never freed: a stale pointer from the AddressMap finds
// `pool` null or a range that does not hold the address.
struct Segment {
  // Set while the segment is out of every map, else constant.
  char* base = nullptr;
  uint64_t size = 0;  // of an expandable one: what is reserved
  bool small = false;
  bool expandable = false;
  DeviceAllocator* allocator = nullptr;
  // Changes only while the segment is wholly free (BlockPool::TakeSegment).
  std::atomic<BlockPool*> pool{nullptr};

  std::vector<Block*> tables;  // by 2 MiB; nullptr: nothing behind it
  uint64_t mapped = 0;         // bytes
  uint64_t last_use = 0;       // for garbage collection: the pool's clock

  bool Holds(uintptr_t address) const {
    return address - reinterpret_cast<uintptr_t>(base) < size;
  }
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_INTERNAL_BLOCK_H_
