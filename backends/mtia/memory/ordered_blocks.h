// SPDX-License-Identifier: Apache-2.0
//
// OrderedBlocks: the stream-ordered blocks of a window.  Such a block has an
// address at once.  Its memory exists from its allocation to its free in stream
// order.  Its capacity may come from blocks that its stream has freed before;
// its addresses may not.
//
// Thread-safe.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_ORDERED_BLOCKS_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_ORDERED_BLOCKS_H_

#include <cstdint>

#include "backends/mtia/memory/block_records.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::mtia {

class OrderedBlocks {
 public:
  // `records` outlives the object.
  explicit OrderedBlocks(BlockRecords* records) : records_(*records) {}

  // `stream` is the stream's number.  `*id` names the block in the calls below.
  devrt_status Alloc(uint32_t device, uint64_t size, uint64_t alignment,
                     uint64_t stream, const devrt_call_site_v0& site,
                     void** ptr, uint64_t* id);
  // Called when the allocation of the block runs.
  void Begin(uint64_t offset, uint64_t id);
  // Called by dealloc_async.  Submissions after number `last` may not use the
  // block.
  devrt_status Close(uint64_t offset, uint64_t stream, uint64_t last,
                     const devrt_call_site_v0& site, uint64_t* id);
  // Called when the free of the block runs.  Returns false, and does nothing,
  // if the block's allocation has not run.  Without `paint` the bytes stay
  // readable: the stream has failed, and a copy may still run.
  bool End(uint64_t offset, uint64_t id, bool paint);

 private:
  bool Borrow(Block* block, uint64_t stream);
  void KeepRest(Block* lender, const PhysicalRange& kept, const Block& taker);

  BlockRecords& records_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_ORDERED_BLOCKS_H_
