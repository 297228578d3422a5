// SPDX-License-Identifier: Apache-2.0
//
// The blocks of one window: placement, capacity, lookup, and what is known of
// freed blocks.
//
// Two maps, as in a machine with virtual memory.  The physical one covers the
// capacity and is filled first fit, so that requests fail for fragmentation as
// well as for lack of bytes.  The virtual one covers the larger window and
// decides the address; a freed range waits there in a queue and is reused only
// when no other place is left, so that stale pointers stay recognisable.
//
// Chunks take part in the first map only, reservations in the second; a mapped
// chunk is a block in a reservation.  Neighbouring ones are one range for
// operations.
//
// A stream-ordered block has an address at once.  Its memory is there from its
// ALLOC in stream order to its FREE, and what its stream freed before it may be
// its own: the capacity is lent, the addresses are not.
//
// Thread-safe.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_BLOCK_TABLE_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_BLOCK_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <shared_mutex>
#include <string>
#include <vector>

#include "backends/mtia/config/config.h"
#include "backends/mtia/memory/free_ranges.h"
#include "backends/mtia/memory/window.h"
#include "backends/mtia/memory/zone.h"
#include "backends/mtia/table/call_site.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::mtia {

inline constexpr uint64_t kNotClosed = UINT64_MAX;

// Bytes of the capacity.
struct PhysicalRange {
  uint64_t begin;
  uint64_t size;
};

struct Block {
  uint64_t offset = 0;    // in the window
  uint64_t size = 0;      // as asked for
  uint64_t span = 0;      // of the window, with rounding and gap
  uint64_t physical = 0;  // place in the capacity
  uint64_t rounded = 0;   // bytes of the capacity
  uint64_t id = 0;
  uint32_t device = 0;
  uint64_t chunk = 0;  // number of the one that is mapped here; 0: none
  bool live = true;
  // Of stream-ordered blocks.
  bool ordered = false;
  bool unborn = false;           // its ALLOC has not run
  uint64_t closed = kNotClosed;  // the last submission before dealloc_async
  uint64_t closed_by = 0;        // the number of that call's stream
  bool lent = false;             // `rest` is what it still has
  std::vector<PhysicalRange> rest;
  CallSite allocated;
  CallSite freed;
};

// A number for an allocation or a registration, never reused in the process.
uint64_t NextAllocationId();

// Of devrt.virtual_memory, as CUDA's.
inline constexpr uint64_t kChunkGranularity = 2ull << 20;

class BlockTable {
 public:
  struct Options {
    uint64_t total = 0;     // for messages
    uint64_t capacity = 0;  // bytes that rounded blocks may have together
    uint64_t granularity = 1;
    uint64_t gap = 0;
    bool contiguous = true;  // a block needs one physical range
    Poison poison = Poison::kOff;

    bool operator==(const Options& other) const;
  };

  struct Found {
    uint64_t offset = 0;
    uint64_t size = 0;  // up to the end, mapped neighbours included
    uint64_t own = 0;   // without them
    uint64_t id = 0;
    uint32_t device = 0;
    bool ordered = false;
    bool unborn = false;
    uint64_t closed = kNotClosed;
  };

  // What a signal handler learns of an address.
  struct Glimpse {
    uint64_t offset = 0;  // of the block's first byte
    uint64_t size = 0;
    uint64_t id = 0;
    bool live = false;
    const char* allocated_file = nullptr;
    int32_t allocated_line = 0;
    const char* freed_file = nullptr;
    int32_t freed_line = 0;
  };

  // `name` is for messages: "mtia:0".  `window` outlives the table.
  BlockTable(std::string name, Window* window);

  // Forgets all blocks.  Free of cost when there was none.
  void Reset(const Options& options);

  devrt_status Alloc(uint32_t device, uint64_t size, uint64_t alignment,
                     const devrt_call_site_v0& site, void** ptr);
  // `offset` is of the pointer in the window.
  devrt_status Free(uint64_t offset, const devrt_call_site_v0& site);

  // ---- ordered_blocks.cc: stream-ordered ones ----
  // `stream` is a number; `id` names the block to what follows.
  devrt_status AllocOrdered(uint32_t device, uint64_t size, uint64_t alignment,
                            uint64_t stream, const devrt_call_site_v0& site,
                            void** ptr, uint64_t* id);
  // Its ALLOC runs.
  void BeginOrdered(uint64_t offset, uint64_t id);
  // It is nobody's from submission `last` on, but for earlier ones.
  devrt_status CloseOrdered(uint64_t offset, uint64_t stream, uint64_t last,
                            const devrt_call_site_v0& site, uint64_t* id);
  // Its FREE runs: false if the ALLOC did not come before it, and then nothing
  // happens.  Without `paint` what it held stays readable: its stream failed,
  // and a copy may still run.
  bool EndOrdered(uint64_t offset, uint64_t id, bool paint);

  // ---- chunks.cc: devrt.virtual_memory ----
  devrt_status Reserve(uint64_t size, uint64_t alignment, void** base);
  devrt_status Release(uint64_t offset, uint64_t size);
  devrt_status CreateChunk(uint32_t device, uint64_t size, uint64_t* chunk);
  devrt_status DestroyChunk(uint64_t chunk);
  bool HasChunk(uint64_t chunk) const;
  devrt_status Map(uint64_t offset, uint64_t size, uint64_t chunk,
                   const devrt_call_site_v0& site);
  devrt_status Unmap(uint64_t offset, uint64_t size,
                     const devrt_call_site_v0& site);

  // The live block that holds the byte at `offset`.
  bool Find(uint64_t offset, Found* found) const;
  // "block #3 of mtia:0 (1024 bytes, allocated at a.cc:7)", "16 bytes into
  // ...", "freed ..."; for messages.
  std::string Describe(uint64_t offset) const;
  // The nearest block at or below `offset`, freed ones included.  False when
  // there is none or it cannot be seen now.  Async-signal-safe.
  bool Peek(uint64_t offset, Glimpse* glimpse) const noexcept;

  const std::string& name() const { return name_; }
  uint64_t free_bytes() const;
  uint64_t live() const;

 private:
  using Blocks = std::map<uint64_t, Block>;
  struct Chunk {
    Block memory;  // its part of the capacity
    bool mapped = false;
  };

  Blocks::const_iterator Nearest(uint64_t offset) const;
  std::string DescribeLocked(uint64_t offset) const;
  devrt_status CheckRequest(uint64_t size, uint64_t alignment) const;
  devrt_status Place(Block block, uint64_t alignment,
                     const devrt_call_site_v0& site, void** ptr);
  devrt_status OutOfCapacity(uint64_t size);
  void Bury(Block* block, bool paint);
  bool Borrow(Block* block, uint64_t stream);
  void TakeBack(Block* lender, const PhysicalRange& kept, const Block& taker);
  bool IsTooLarge(uint64_t size) const;
  bool TakeCapacity(Block* block);
  void GiveCapacity(const Block& block);
  bool TakePlace(Block* block, uint64_t alignment);
  void GivePlace(const Block& block);
  Zone& ZoneOf(uint64_t offset);
  std::string OutOfMemory(uint64_t size) const;
  devrt_status CheckPart(uint64_t offset, uint64_t size) const;
  devrt_status CheckUnmapped(uint64_t offset, uint64_t size) const;

  const std::string name_;
  Window* const window_;
  mutable std::shared_mutex mutex_;
  Options options_;
  Blocks blocks_;  // by offset, quarantined ones included
  std::map<uint64_t, Block> reservations_;  // by offset
  std::map<uint64_t, Chunk> chunks_;        // by number
  FreeRanges physical_;
  // Small blocks that live on would cut a common range into pieces too small
  // for large blocks.
  Zone small_;
  Zone large_;
  uint64_t used_ = 0;
  uint64_t live_ = 0;
  bool pristine_ = false;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_BLOCK_TABLE_H_
