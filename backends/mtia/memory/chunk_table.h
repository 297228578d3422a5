// SPDX-License-Identifier: Apache-2.0
//
// ChunkTable: the chunks and reservations of devrt.virtual_memory on one
// device.  A chunk has capacity and no address, a reservation has addresses and
// no capacity.  A chunk that is mapped is a block in a reservation.
//
// Thread-safe, but for Clear.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_CHUNK_TABLE_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_CHUNK_TABLE_H_

#include <cstdint>
#include <map>

#include "backends/mtia/memory/block_records.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::mtia {

// The granularity of devrt.virtual_memory, which is CUDA's.
inline constexpr uint64_t kChunkGranularity = 2ull << 20;

class ChunkTable {
 public:
  // `records` outlives the table.
  explicit ChunkTable(BlockRecords* records) : records_(*records) {}

  // Forgets all.  The caller holds the lock of the records and resets them.
  void Clear();

  devrt_status Reserve(uint64_t size, uint64_t alignment, void** base);
  devrt_status Release(uint64_t offset, uint64_t size);
  devrt_status Create(uint32_t device, uint64_t size, uint64_t* chunk);
  devrt_status Destroy(uint64_t chunk);
  bool Has(uint64_t chunk) const;
  devrt_status Map(uint64_t offset, uint64_t size, uint64_t chunk,
                   const devrt_call_site_v0& site);
  devrt_status Unmap(uint64_t offset, uint64_t size,
                     const devrt_call_site_v0& site);

 private:
  struct Chunk {
    Block memory;  // its part of the capacity
    bool mapped = false;
  };

  devrt_status CheckPart(uint64_t offset, uint64_t size) const;
  devrt_status CheckUnmapped(uint64_t offset, uint64_t size) const;

  BlockRecords& records_;
  // Both are guarded by the lock of the records.
  std::map<uint64_t, Block> reservations_;  // by offset
  std::map<uint64_t, Chunk> chunks_;        // by number
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_CHUNK_TABLE_H_
