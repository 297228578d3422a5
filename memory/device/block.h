// SPDX-License-Identifier: Apache-2.0
//
// Segment: a piece of memory from the driver.  Block: a part of one.
//
// Blocks lie in the table of their segment, at the place of their first byte,
// so that address -> block -> neighbours is arithmetic and cutting a block in
// two allocates nothing:
//
//   small  512 bytes a slot: 4,096 slots for each 2 MiB
//   large  1 MiB a slot: blocks are larger than that, so that no two begin in
//          one slot; `offset` tells whether a pointer is the beginning
//
// The table is one piece of address space; pages of it take memory when blocks
// begin there.  A slot where no block begins is kNone: so interior pointers and
// pointers that were freed before are told from live ones, whatever they are
// (C63).  A bit for each slot tells where blocks begin: the way from an
// interior pointer to its block (F17).
//
// Locks: everything but what is said to never change belongs to the lock of
// the segment's BlockPool.

#ifndef DEVRT_MEMORY_DEVICE_BLOCK_H_
#define DEVRT_MEMORY_DEVICE_BLOCK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "devrt/runtime/call_site.h"
#include "memory/device/block_uses.h"
#include "memory/device/rounding.h"

namespace devrt::internal {

class BlockPool;
class DeviceAllocator;
struct PageTable;
struct Segment;

enum class BlockUse : uint8_t {
  kNone = 0,     // no block begins here
  kFree = 1,     // in the free blocks of its pool
  kLive = 2,     // somebody's
  kClosing = 3,  // freed; its open marks are being closed, by one thread
  kPending = 4,  // freed, uses have not ended; PendingFrees has it
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
  uint32_t offset = 0;    // granules from the segment's base
  BlockUse use = BlockUse::kNone;
  bool lent = false;           // held on another stream than its pool's
  bool oversize = false;       // counted as such when it was handed out
  uint64_t mark = 0;           // kLive: its id; else where it was freed last
  Segment* segment = nullptr;  // set where a block begins

  struct Free {    // kFree
    Block* child;  // FreeBlocks: a heap by address
    Block* sibling;
    Block* back;
    uint64_t released;  // epoch of the pool's timeline
  };
  struct Held {              // the others
    BlockUses* uses;         // nullptr: none off its stream
    uint64_t stream_serial;  // where it was handed out, if `lent`
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

// For stale readers: any value that was ever there will do.
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

// Made once, used again, never freed: a stale pointer from the AddressMap finds
// `pool` null or a range that does not hold the address.
struct Segment {
  // Set while the segment is out of every map, else constant.  Atomic for the
  // sake of stale readers, who look again under the pool's lock.
  std::atomic<uintptr_t> base{0};
  std::atomic<uint64_t> size{0};  // of an expandable one: what is reserved
  bool small = false;
  RelaxedPointer<DeviceAllocator> allocator;
  // Set by Adopt and AdoptAddresses; changes while the segment is wholly free
  // (TakeSegment, Take), while it is only addresses (EndPages), and when all
  // memory of the device is gone (Drop).
  std::atomic<BlockPool*> pool{nullptr};

  Block* table = nullptr;
  uint64_t* begins = nullptr;  // a bit for each slot
  uint64_t table_bytes = 0;    // of both
  uint64_t table_id = 0;       // in the AllocationTable
  bool oversize = false;       // counted as such
  uint64_t mapped = 0;         // bytes behind the addresses
  PageTable* pages = nullptr;  // of an expandable one, its own
  uint64_t last_use = 0;       // for garbage collection: the pool's clock
  size_t place = 0;            // in its pool's list

  // An unused one, with a table for `bytes` at `address`; nullptr when the host
  // has no memory for it.  No block yet, and in no map.
  static Segment* Make(DeviceAllocator* allocator, void* address,
                       uint64_t bytes, bool small);
  // The end: out of the map and of its pool before.
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

  // A block begins at `granule`: its slot, with the bit set.
  Block* Begin(uint32_t granule) {
    const uint32_t slot = granule >> SlotBits();
    begins[slot / 64] |= uint64_t{1} << (slot % 64);
    Block* block = table + slot;
    block->offset = granule;
    block->segment = this;
    return block;
  }
  // No block begins there any more.
  void End(Block* block) {
    const size_t slot = static_cast<size_t>(block - table);
    begins[slot / 64] &= ~(uint64_t{1} << (slot % 64));
    block->use = BlockUse::kNone;
  }
  // The block that begins at `address`, in the segment; nullptr: none does.
  Block* Beginning(uintptr_t address) const {
    const uint64_t at = address - base.load(std::memory_order_relaxed);
    Block* block = At(static_cast<uint32_t>(at / kGranule));
    return block->use != BlockUse::kNone &&
                   uint64_t{block->offset} * kGranule == at
               ? block
               : nullptr;
  }
  // The block that holds `address`, which is in the segment; nullptr: a hole.
  Block* Find(uintptr_t address) const;
  // Neighbours; nullptr at the ends and at holes.
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

// "a.cc:12" in a word, for Block::mark of blocks that are not live.
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
