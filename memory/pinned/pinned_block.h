// SPDX-License-Identifier: Apache-2.0
//
// PinnedBlock: a block of pinned memory.  PinnedSize: the size of such a block.

#ifndef DEVRT_MEMORY_PINNED_PINNED_BLOCK_H_
#define DEVRT_MEMORY_PINNED_PINNED_BLOCK_H_

#include <atomic>
#include <cstdint>

#include "devrt/runtime/call_site.h"
#include "memory/common/rounding.h"
#include "memory/device/block.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

class PinnedAllocator;
struct PinnedPool;

// How a block was obtained, which says how it is released (F9).
enum class PinnedOrigin : uint8_t { kHostAlloc, kRegistered };

// The record of a native block; reused for others and never destroyed.  `base`
// and `size` change only while the block is in no map.  `pool` changes under
// the lock of the pool that it names, which guards the members from `use` on.
struct alignas(64) PinnedBlock {
  std::atomic<void*> base{nullptr};
  std::atomic<uint64_t> size{0};             // a result of PinnedSize
  std::atomic<PinnedBlock*> chain{nullptr};  // the next one in PinnedMap
  std::atomic<PinnedPool*> pool{nullptr};    // nullptr: the record is new
  PinnedAllocator* allocator = nullptr;
  DeviceRecord* native_device = nullptr;  // that the driver was called for
  PinnedOrigin origin = PinnedOrigin::kHostAlloc;
  BlockUse use = BlockUse::kNone;
  uint64_t requested = 0;
  DeviceRecord* device = nullptr;  // of the request
  PinnedBlock* next = nullptr;     // the next free one of its size
  uint64_t id = 0;                 // new for each request, never reused
  CallSite site;                   // of the allocation, then of the free
  BlockUses uses;
};

// The size of a block for `bytes` (docs/reference/semantics.md 3.3): 40960
// gives 65536.
constexpr uint64_t PinnedSize(uint64_t bytes, uint64_t class_limit,
                              uint64_t page) {
  if (bytes > class_limit) return RoundUp(bytes, page);
  uint64_t size = kGranule;
  if (bytes > size) size = uint64_t{1} << (64 - __builtin_clzll(bytes - 1));
  return size;
}
static_assert(PinnedSize(1, kMiB, 4096) == 512);
static_assert(PinnedSize(512, kMiB, 4096) == 512);
static_assert(PinnedSize(513, kMiB, 4096) == 1024);
static_assert(PinnedSize(40960, kMiB, 4096) == 65536);
static_assert(PinnedSize(81920, kMiB, 4096) == 131072);
static_assert(PinnedSize(kMiB + 1, kMiB, 4096) == kMiB + 4096);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_PINNED_PINNED_BLOCK_H_
