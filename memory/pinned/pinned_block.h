// SPDX-License-Identifier: Apache-2.0
//
// A block of the pinned allocator, and the sizes that there are.

#ifndef DEVRT_MEMORY_PINNED_PINNED_BLOCK_H_
#define DEVRT_MEMORY_PINNED_PINNED_BLOCK_H_

#include <atomic>
#include <cstdint>

#include "devrt/runtime/call_site.h"
#include "memory/device/block.h"
#include "memory/device/rounding.h"
#include "runtime/internal/records.h"

namespace devrt::internal {

class PinnedAllocator;

// How a block was obtained, and so how it is released, for its whole life (F9).
enum class PinnedOrigin : uint8_t { kHostAlloc, kRegistered };

// Of one native block after another; never freed.  `base` and `size` change
// while the block is in no map; readers check them again under the class lock,
// to which the rest belongs.
struct PinnedBlock {
  std::atomic<void*> base{nullptr};
  std::atomic<uint64_t> size{0};             // of the class, or pages
  std::atomic<PinnedBlock*> chain{nullptr};  // of PinnedMap
  PinnedAllocator* allocator = nullptr;
  PinnedOrigin origin = PinnedOrigin::kHostAlloc;
  DeviceRecord* native_device = nullptr;  // the native block's
  BlockUse use = BlockUse::kNone;
  uint64_t requested = 0;
  DeviceRecord* device = nullptr;  // attributed to
  PinnedBlock* next = nullptr;     // free ones of its class
  uint64_t id = 0;                 // of the handing out, never reused
  CallSite site;                   // of the allocation, then of the free
  BlockUses uses;
};

// Bytes that a request counts as (docs/semantics.md 3.3): 40960 is 65536.
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
