// SPDX-License-Identifier: Apache-2.0

#include "memory/device/block.h"

#include <sys/mman.h>

#include <utility>
#include <vector>

#include "devrt/runtime/mutex.h"
#include "memory/device/pages.h"

namespace devrt::internal {

namespace {

// Segment objects that are not in use; they are never destroyed (block.h).
struct Spare {
  Mutex mutex;
  std::vector<Segment*> segments DEVRT_GUARDED_BY(mutex);

  static Spare& Get() {
    static Spare* const spare = new Spare;
    return *spare;
  }
};

Segment* TakeSpare() {
  Spare& spare = Spare::Get();
  MutexLock lock(&spare.mutex);
  if (spare.segments.empty()) return new Segment;
  Segment* segment = spare.segments.back();
  spare.segments.pop_back();
  return segment;
}

void PutSpare(Segment* segment) {
  Spare& spare = Spare::Get();
  MutexLock lock(&spare.mutex);
  spare.segments.push_back(segment);
}

}  // namespace

Segment* Segment::Make(DeviceAllocator* allocator, void* address,
                       uint64_t bytes, bool small) {
  const uint64_t slot = small ? kGranule : kMiB;
  const uint64_t slots = RoundUp(bytes, slot) / slot;
  const uint64_t words = RoundUp(slots, 64) / 64;
  const uint64_t table_bytes = slots * sizeof(Block) + words * sizeof(uint64_t);
  // Zeroed pages, so every slot is kNone; a page takes memory when it is
  // touched.
  void* table = mmap(nullptr, table_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (table == MAP_FAILED) return nullptr;
  Segment* segment = TakeSpare();
  segment->base.store(reinterpret_cast<uintptr_t>(address),
                      std::memory_order_relaxed);
  segment->size.store(bytes, std::memory_order_relaxed);
  segment->small = small;
  segment->allocator = allocator;
  segment->table = static_cast<Block*>(table);
  segment->begins = reinterpret_cast<uint64_t*>(static_cast<char*>(table) +
                                                slots * sizeof(Block));
  segment->table_bytes = table_bytes;
  segment->mapped = bytes;
  segment->last_use = 0;
  return segment;
}

void Segment::Recycle(Segment* segment) {
  munmap(segment->table, segment->table_bytes);
  delete std::exchange(segment->pages, nullptr);
  segment->table = nullptr;
  segment->begins = nullptr;
  PutSpare(segment);
}

Block* Segment::Find(uintptr_t address) const {
  const uint64_t at = address - base.load(std::memory_order_relaxed);
  const uint32_t granule = static_cast<uint32_t>(at / kGranule);
  uint32_t slot = granule >> SlotBits();
  // In the large pool the block of the slot may begin behind the address.
  if (table[slot].use != BlockUse::kNone && table[slot].offset > granule) {
    if (slot == 0) return nullptr;
    --slot;
  }
  uint32_t word = slot / 64;
  uint64_t bits = begins[word] & (~uint64_t{0} >> (63 - slot % 64));
  while (bits == 0) {
    if (word == 0) return nullptr;
    bits = begins[--word];
  }
  const uint32_t begin =
      word * 64 + 63 - static_cast<uint32_t>(__builtin_clzll(bits));
  Block* block = table + begin;
  return granule - block->offset < block->size ? block : nullptr;
}

}  // namespace devrt::internal
