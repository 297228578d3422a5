// SPDX-License-Identifier: Apache-2.0
//
// BlockTable: the blocks that a program allocates and frees at once, and the
// look-ups of all blocks of a window by their addresses.
//
// A chunk that is mapped (ChunkTable) is a block too.  Operations may cross
// from a mapped chunk to its neighbour.
//
// Thread-safe.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_BLOCK_TABLE_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_BLOCK_TABLE_H_

#include <cstdint>
#include <string>

#include "backends/mtia/memory/block_records.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::mtia {

class BlockTable {
 public:
  struct Found {
    uint64_t offset = 0;
    // Up to the end of the last mapping, if further mappings follow without a
    // gap.
    uint64_t size = 0;
    uint64_t own = 0;  // of this block alone
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

  devrt_status Alloc(uint32_t device, uint64_t size, uint64_t alignment,
                     const devrt_call_site_v0& site, void** ptr);
  // `offset` is of the pointer in the window.
  devrt_status Free(uint64_t offset, const devrt_call_site_v0& site);

  // Finds the live block that holds the byte at `offset`.
  bool Find(uint64_t offset, Found* found) const;
  // BlockRecords::Describe, under the lock.
  std::string Describe(uint64_t offset) const;
  // Finds the nearest block at or below `offset`, freed ones included.  Returns
  // false if there is none or another thread holds the lock.
  // Async-signal-safe.
  bool Peek(uint64_t offset, Glimpse* glimpse) const noexcept;

  const std::string& name() const { return records_.name(); }
  uint64_t free_bytes() const;
  uint64_t live() const;

  // For the classes that keep the other kinds of blocks.
  BlockRecords* records() { return &records_; }

 private:
  BlockRecords records_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_BLOCK_TABLE_H_
