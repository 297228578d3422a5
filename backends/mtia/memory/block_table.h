// SPDX-License-Identifier: Apache-2.0
//
// The blocks of one window: where they are placed, what they take of the
// capacity, how they are found, and what is known of freed ones.
//
// There are two maps, as in a machine with virtual memory.  The physical map
// covers the capacity.  Requests take the lowest place that fits, so that they
// can fail for fragmentation and for lack of bytes.  The virtual map covers the
// larger window and gives the address.  A freed range waits there in a queue
// and is reused only when no other place is left, so that stale pointers are
// recognised.
//
// A chunk of devrt.virtual_memory is in the physical map only, a reservation in
// the virtual map only.  A mapped chunk is a block in a reservation.
// Operations may cross from a mapped chunk to its neighbour.
//
// A stream-ordered block has an address at once.  Its memory exists from its
// allocation to its free in stream order.  Its capacity may come from blocks
// that its stream has freed before; its addresses may not.
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

#include "backends/mtia/common/call_site.h"
#include "backends/mtia/config/config.h"
#include "backends/mtia/memory/address_window.h"
#include "backends/mtia/memory/free_ranges.h"
#include "backends/mtia/memory/quarantined_ranges.h"
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
  uint64_t chunk = 0;  // number of the chunk that is mapped here; 0: none
  bool live = true;
  // Stream-ordered blocks only.
  bool ordered = false;
  bool is_pending = false;       // its allocation has not run
  uint64_t closed = kNotClosed;  // newest submission at dealloc_async
  uint64_t closed_by = 0;        // number of the stream of dealloc_async
  bool lent = false;             // another block has all but `rest`
  std::vector<PhysicalRange> rest;
  CallSite allocated;
  CallSite freed;
};

// A number for an allocation or a registration, never reused in the process.
uint64_t NextAllocationId();

// The granularity of devrt.virtual_memory, which is CUDA's.
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
    bool is_pending = false;
    uint64_t closed = kNotClosed;
  };

  // What the signal handler can learn of an address.
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
  BlockTable(std::string name, AddressWindow* window);

  // Forgets all blocks.  Costs nothing if there was none.
  void Reset(const Options& options);

  devrt_status Alloc(uint32_t device, uint64_t size, uint64_t alignment,
                     const devrt_call_site_v0& site, void** ptr);
  // `offset` is of the pointer in the window.
  devrt_status Free(uint64_t offset, const devrt_call_site_v0& site);

  // ---- block_table_ordered.cc: stream-ordered ones ----
  // `stream` is the stream's number.  `*id` names the block in the calls below.
  devrt_status AllocOrdered(uint32_t device, uint64_t size, uint64_t alignment,
                            uint64_t stream, const devrt_call_site_v0& site,
                            void** ptr, uint64_t* id);
  // Called when the allocation of the block runs.
  void BeginOrdered(uint64_t offset, uint64_t id);
  // Called by dealloc_async.  Submissions after number `last` may not use the
  // block.
  devrt_status CloseOrdered(uint64_t offset, uint64_t stream, uint64_t last,
                            const devrt_call_site_v0& site, uint64_t* id);
  // Called when the free of the block runs.  Returns false, and does nothing,
  // if the block's allocation has not run.  Without `paint` the bytes stay
  // readable: the stream has failed, and a copy may still run.
  bool EndOrdered(uint64_t offset, uint64_t id, bool paint);

  // ---- block_table_chunks.cc: devrt.virtual_memory ----
  devrt_status Reserve(uint64_t size, uint64_t alignment, void** base);
  devrt_status Release(uint64_t offset, uint64_t size);
  devrt_status CreateChunk(uint32_t device, uint64_t size, uint64_t* chunk);
  devrt_status DestroyChunk(uint64_t chunk);
  bool HasChunk(uint64_t chunk) const;
  devrt_status Map(uint64_t offset, uint64_t size, uint64_t chunk,
                   const devrt_call_site_v0& site);
  devrt_status Unmap(uint64_t offset, uint64_t size,
                     const devrt_call_site_v0& site);

  // Finds the live block that holds the byte at `offset`.
  bool Find(uint64_t offset, Found* found) const;
  // "block #3 of mtia:0 (1024 bytes, allocated at a.cc:7)", "16 bytes into
  // ...", "freed ..."; for messages.
  std::string Describe(uint64_t offset) const;
  // Finds the nearest block at or below `offset`, freed ones included.  Returns
  // false if there is none or another thread holds the lock.
  // Async-signal-safe.
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
  // INVALID_ARGUMENT: no power of two; UNIMPLEMENTED: above kMaxAlignment.
  devrt_status CheckAlignment(uint64_t alignment) const;
  devrt_status Place(Block block, uint64_t alignment,
                     const devrt_call_site_v0& site, void** ptr);
  devrt_status OutOfCapacity(uint64_t size);
  void EndBlock(Block* block, bool paint);
  bool Borrow(Block* block, uint64_t stream);
  void KeepRest(Block* lender, const PhysicalRange& kept, const Block& taker);
  bool IsTooLarge(uint64_t size) const;
  bool AllocateCapacity(Block* block);
  void FreeCapacity(const Block& block);
  bool AllocateAddress(Block* block, uint64_t alignment);
  void FreeAddress(const Block& block);
  QuarantinedRanges& RangesFor(uint64_t offset);
  std::string OutOfMemory(uint64_t size) const;
  devrt_status CheckPart(uint64_t offset, uint64_t size) const;
  devrt_status CheckUnmapped(uint64_t offset, uint64_t size) const;

  const std::string name_;
  AddressWindow* const window_;
  mutable std::shared_mutex mutex_;
  Options options_;
  Blocks blocks_;  // by offset, quarantined ones included
  std::map<uint64_t, Block> reservations_;  // by offset
  std::map<uint64_t, Chunk> chunks_;        // by number
  FreeRanges physical_;
  // Small blocks have addresses of their own: long-lived ones would cut a
  // common range into pieces that are too small for large blocks.
  QuarantinedRanges small_;
  QuarantinedRanges large_;
  uint64_t used_ = 0;
  uint64_t live_ = 0;
  bool pristine_ = false;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_BLOCK_TABLE_H_
