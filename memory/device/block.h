// SPDX-License-Identifier: Apache-2.0
//
// Segment: a piece of memory from the driver.  Block: a part of a segment.
//
// Blocks lie in the table of their segment, at the place of their first byte.
// So address -> block -> neighbours is arithmetic, and cutting a block in two
// allocates no host memory:
//
//   small  512 bytes a slot: 4,096 slots for each 2 MiB
//   large  1 MiB a slot.  Blocks are larger than a slot, so no two begin in
//          one; `offset` tells whether a pointer is the beginning of the block
//
// The table is a piece of address space.  The kernel gives memory to a page of
// the table when a block begins there.  A slot where no block begins is kNone:
// this tells interior pointers and pointers to freed blocks from live ones
// (C63).  A bit for each slot says where blocks begin.  The nearest bit below
// an interior pointer belongs to the block of that pointer (F17).
//
// Lock: that of the segment's BlockPool, for all members but those that never
// change.

#ifndef DEVRT_MEMORY_DEVICE_BLOCK_H_
#define DEVRT_MEMORY_DEVICE_BLOCK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "devrt/runtime/call_site.h"
#include "memory/common/rounding.h"
#include "memory/device/block_uses.h"

namespace devrt::internal {

class BlockPool;
class DeviceAllocator;
struct PageTable;
struct Segment;

enum class BlockUse : uint8_t {
  kNone = 0,     // no block begins here
  kFree = 1,     // in the free blocks of its pool
  kLive = 2,     // a program or a resource has it
  kClosing = 3,  // freed; one thread is closing its open uses
  kPending = 4,  // freed, and still in use; PendingFrees has it
};

// Invariants
//   B1. The blocks of a segment cover it without gap or overlap: behind the
//       block at offset o comes the one at o + size, whose `previous` is
//       `size`.
//   B2. Two neighbours are both kFree only if a hole of an expandable segment
//       lies between them.
//   B3. A kFree block may be used by its pool's stream at once.  Other streams
//       may use it behind `released`, the newest point at which any part of it
//       was freed (F18: a merge keeps the newer).
struct alignas(64) Block {
  uint32_t size = 0;      // granules
  uint32_t previous = 0;  // size of the block before; 0: there is none
  uint32_t offset = 0;    // granules from the segment's base
  BlockUse use = BlockUse::kNone;
  bool lent = false;           // given to another stream than its pool's
  bool oversize = false;       // counted as oversize when it was handed out
  uint64_t id_or_site = 0;     // kLive: its id; else PackSite of its last free
  Segment* segment = nullptr;  // set where a block begins

  struct Free {    // kFree
    Block* child;  // FreeBlocks: a heap by address
    Block* sibling;
    Block* back;
    uint64_t released;  // epoch of the pool's timeline
  };
  struct Held {              // kLive, kClosing, kPending
    BlockUses* uses;         // by other streams; nullptr: none
    uint64_t stream_serial;  // if `lent`: the stream that it was given to
    uint64_t requested;      // bytes
    uint64_t site;           // index in the history's sites; 0: none
  };
  union {
    Free free;
    Held held;
  };

  Block() : held{nullptr, 0, 0, 0} {}
  uint64_t bytes() const { return uint64_t{size} * kGranule; }
  inline char* address() const;
};
static_assert(sizeof(Block) == 64, "one line of the cache");

// A pointer that threads may read without the lock, and may read too late.
template <typename T>
class RelaxedPointer {
 public:
  RelaxedPointer& operator=(T* pointer) {
    pointer_.store(pointer, std::memory_order_relaxed);
    return *this;
  }
  operator T*() const { return pointer_.load(std::memory_order_relaxed); }
  T* operator->() const { return *this; }

 private:
  std::atomic<T*> pointer_{nullptr};
};

// Segment objects are reused and never destroyed.  A thread that still has the
// pointer of an ended segment finds `pool` null, or a range that does not hold
// its address.  Each has lines of the cache of its own, because each allocation
// of its pool writes to it.
struct alignas(64) Segment {
  // They change only while the segment is in no map.  Atomic, because threads
  // read them without the lock, and again under it.
  std::atomic<uintptr_t> base{0};
  std::atomic<uint64_t> size{0};  // if expandable: of the addresses
  bool small = false;
  RelaxedPointer<DeviceAllocator> allocator;
  // The pool that has the segment (PoolSegments::List, Unlist).  It changes
  // only while no block of the segment is live, or when the device's memory is
  // gone.
  std::atomic<BlockPool*> pool{nullptr};

  Block* table = nullptr;
  uint64_t* begins = nullptr;  // a bit for each slot
  uint64_t table_bytes = 0;    // of `table` and `begins`
  uint64_t table_id = 0;       // in the AllocationTable
  bool oversize = false;       // counted as oversize
  uint64_t mapped = 0;         // bytes behind the addresses
  PageTable* pages = nullptr;  // if expandable; owned
  uint64_t last_use = 0;       // PoolSegments::allocations at the last use
  size_t place = 0;            // in its pool's list

  // A segment of `bytes` at `address` without a block, in no map and no pool;
  // nullptr if the host has no memory for its table.
  static Segment* Make(DeviceAllocator* allocator, void* address,
                       uint64_t bytes, bool small);
  // Ends a segment that is in no map and no pool.
  static void Recycle(Segment* segment);

  bool Holds(uintptr_t address) const {
    return address - base.load(std::memory_order_relaxed) <
           size.load(std::memory_order_relaxed);
  }
  char* address() const {
    return reinterpret_cast<char*>(base.load(std::memory_order_relaxed));
  }
  uint64_t bytes() const { return size.load(std::memory_order_relaxed); }
  bool expandable() const { return pages != nullptr; }
  uint32_t SlotBits() const { return small ? 0 : 11; }  // granules a slot
  Block* At(uint32_t granule) const { return table + (granule >> SlotBits()); }

  // Lets a block begin at `granule`, and returns its slot.
  Block* Begin(uint32_t granule) {
    const uint32_t slot = granule >> SlotBits();
    begins[slot / 64] |= uint64_t{1} << (slot % 64);
    Block* block = table + slot;
    block->offset = granule;
    block->segment = this;
    return block;
  }
  // Ends the block: no block begins in its slot any more.
  void End(Block* block) {
    const size_t slot = static_cast<size_t>(block - table);
    begins[slot / 64] &= ~(uint64_t{1} << (slot % 64));
    block->use = BlockUse::kNone;
  }
  // The block that begins at `address`, which lies in the segment, or nullptr.
  Block* Beginning(uintptr_t address) const {
    const uint64_t at = address - base.load(std::memory_order_relaxed);
    Block* block = At(static_cast<uint32_t>(at / kGranule));
    return block->use != BlockUse::kNone &&
                   uint64_t{block->offset} * kGranule == at
               ? block
               : nullptr;
  }
  // The block that holds `address`, which lies in the segment; nullptr in a
  // hole.
  Block* Find(uintptr_t address) const;
  // The neighbours of a block; nullptr at the ends and at holes.
  Block* Next(const Block* block) const {
    const uint32_t end = block->offset + block->size;
    if (uint64_t{end} * kGranule >= bytes()) return nullptr;
    Block* next = At(end);
    return next->use != BlockUse::kNone ? next : nullptr;
  }
  Block* Previous(const Block* block) const {
    return block->previous == 0 ? nullptr : At(block->offset - block->previous);
  }
};

inline char* Block::address() const {
  return segment->address() + uint64_t{offset} * kGranule;
}

// A call site in one word, for Block::id_or_site of blocks that are not live.
inline uint64_t PackSite(CallSite site) {
  constexpr uint64_t kFile = (uint64_t{1} << 48) - 1;
  const uint64_t line = site.line < 0 || site.line > 0xffff
                            ? 0xffff
                            : static_cast<uint64_t>(site.line);
  return (reinterpret_cast<uintptr_t>(site.file) & kFile) | line << 48;
}
inline CallSite UnpackSite(uint64_t word) {
  constexpr uint64_t kFile = (uint64_t{1} << 48) - 1;
  return {reinterpret_cast<const char*>(word & kFile),
          static_cast<int>(word >> 48)};
}

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_BLOCK_H_
