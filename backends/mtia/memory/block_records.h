// SPDX-License-Identifier: Apache-2.0
//
// BlockRecords: what is known of the blocks of one window, live and freed, and
// which addresses they have.  Three classes work on the records of a window,
// each with one kind of blocks: BlockTable, OrderedBlocks and ChunkTable.
//
// There are two maps, as in a machine with virtual memory.  The physical one is
// Capacity.  The virtual one, here, covers the larger window and gives the
// address.  A freed range waits there in a queue and is reused only when no
// other place is left, so that stale pointers are recognised.
//
// Lock: mutex().  The caller holds the lock in every method but name(),
// window(), CheckRequest and CheckAlignment.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_BLOCK_RECORDS_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_BLOCK_RECORDS_H_

#include <cstdint>
#include <iterator>
#include <map>
#include <shared_mutex>
#include <string>

#include "backends/mtia/config/config.h"
#include "backends/mtia/memory/address_window.h"
#include "backends/mtia/memory/block.h"
#include "backends/mtia/memory/capacity.h"
#include "backends/mtia/memory/quarantined_ranges.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::mtia {

class BlockRecords {
 public:
  using Blocks = std::map<uint64_t, Block>;
  struct Options {
    Capacity::Options capacity;
    uint64_t gap = 0;  // addresses behind each block that stay unused
    Poison poison = Poison::kOff;

    bool operator==(const Options& other) const;
  };

  // `name` is for messages: "mtia:0".  `window` outlives the records.
  BlockRecords(std::string name, AddressWindow* window);

  std::shared_mutex& mutex() const { return mutex_; }

  // Forgets all blocks.  Returns false, and does nothing, if nothing was placed
  // since the last reset and the options are equal.
  bool Reset(const Options& options);

  // Finds an address for a block that has its capacity, and adds the block.  If
  // there is none, gives the capacity back.
  devrt_status Place(Block&& block, uint64_t alignment,
                     const devrt_call_site_v0& site, void** ptr);
  // Ends a live block.  Without `paint` its bytes stay readable.
  void End(Block* block, bool paint);

  // The nearest block at or below `offset`, freed ones included.
  Blocks::const_iterator Nearest(uint64_t offset) const {
    const auto above = blocks_.upper_bound(offset);
    return above == blocks_.begin() ? blocks_.end() : std::prev(above);
  }
  // "block #3 of mtia:0 (1024 bytes, allocated at a.cc:7)", "16 bytes into
  // ...", "freed ..."; for messages.
  std::string Describe(uint64_t offset) const;

  // INVALID_ARGUMENT: 0 bytes, or an alignment that is no power of two;
  // UNIMPLEMENTED: an alignment above kMaxAlignment.
  devrt_status CheckRequest(uint64_t size, uint64_t alignment) const;
  devrt_status CheckAlignment(uint64_t alignment) const;

  // Takes addresses for block->rounded bytes and the gap.  Returns false if
  // there are none.
  bool AllocateAddress(Block* block, uint64_t alignment);
  void FreeAddress(const Block& block);

  // Counts live blocks and chunks: `count` is +1 or -1.
  void CountLive(int64_t count);

  const std::string& name() const { return name_; }
  AddressWindow* window() const { return window_; }
  const Options& options() const { return options_; }
  Capacity& capacity() { return capacity_; }
  const Capacity& capacity() const { return capacity_; }
  // By offset, quarantined ones included.
  Blocks& blocks() { return blocks_; }
  const Blocks& blocks() const { return blocks_; }
  uint64_t live() const { return live_; }

 private:
  QuarantinedRanges& RangesFor(uint64_t offset);

  const std::string name_;
  AddressWindow* const window_;
  mutable std::shared_mutex mutex_;
  Options options_;
  Capacity capacity_;
  Blocks blocks_;
  // Small blocks have addresses of their own: long-lived ones would cut a
  // common range into pieces that are too small for large blocks.
  QuarantinedRanges small_;
  QuarantinedRanges large_;
  uint64_t live_ = 0;
  bool pristine_ = false;  // nothing was placed since the reset
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_BLOCK_RECORDS_H_
