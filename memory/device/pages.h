// SPDX-License-Identifier: Apache-2.0
//
// What an expandable segment has behind its addresses: pages, each one chunk of
// devrt.virtual_memory/0, or nothing.
//
//   pages      0    1    2    3    4    5    6  ...
//            [mem][mem][ - ][mem][busy][ - ][ - ]
//   blocks   aaaaa.....      bbb..
//
// Blocks cover the mapped pages and nothing else; a block may span any number
// of neighbours.  A busy page is one thread's, which is putting memory behind
// it or taking it away without a lock; its chunk is that thread's to write.
// Everything else is under the lock of the segment's pool.
//
// Segments are reserved for a pool, never pass to another one, and end with
// their last page (BlockPool::AddPages, TakePages, EndPages).

#ifndef DEVRT_MEMORY_DEVICE_PAGES_H_
#define DEVRT_MEMORY_DEVICE_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "devrt/backends/abi/devrt_virtual_memory.h"
#include "memory/device/block.h"

namespace devrt::internal {

struct Page {
  enum State : uint8_t { kHole, kBusy, kMapped };
  State state = kHole;
  devrt_chunk chunk = nullptr;
};

struct PageTable {
  uint64_t page_bytes = 0;
  uint32_t used = 0;  // pages that are no holes
  std::vector<Page> pages;

  uint32_t count() const { return static_cast<uint32_t>(pages.size()); }
  bool Is(uint32_t page, Page::State state) const {
    return page < count() && pages[page].state == state;
  }
  // From `page` on the first that is not in `state`.
  uint32_t EndOf(uint32_t page, Page::State state) const {
    while (Is(page, state)) ++page;
    return page;
  }
};

// Neighbouring pages, busy: the holder's.
struct PageRun {
  Segment* segment = nullptr;
  uint32_t first = 0;
  uint32_t count = 0;

  uint64_t page_bytes() const { return segment->pages->page_bytes; }
  uint64_t bytes() const { return count * page_bytes(); }
  char* address() const { return segment->address() + first * page_bytes(); }
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_PAGES_H_
