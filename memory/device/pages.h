// SPDX-License-Identifier: Apache-2.0
//
// PageTable: the pages of an expandable segment.  A page has one chunk of
// devrt.virtual_memory/0 behind its addresses, or nothing.
//
//   pages      0    1    2    3    4    5    6  ...
//            [mem][mem][ - ][mem][busy][ - ][ - ]
//   blocks   aaaaa.....      bbb..
//
// Blocks cover the mapped pages and nothing else; a block may span any number
// of adjacent pages.  A busy page belongs to one thread, which maps or unmaps
// it without a lock and alone writes its chunk.  Everything else is guarded by
// the lock of the segment's pool.
//
// An expandable segment stays with one pool, and ends when its last page
// becomes a hole (PoolPages).

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
  uint32_t used = 0;  // pages that are not holes
  std::vector<Page> pages;

  uint32_t count() const { return static_cast<uint32_t>(pages.size()); }
  bool Is(uint32_t page, Page::State state) const {
    return page < count() && pages[page].state == state;
  }
  // The first page from `page` on that is not in `state`.
  uint32_t EndOf(uint32_t page, Page::State state) const {
    while (Is(page, state)) ++page;
    return page;
  }
};

// A run of adjacent pages.
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
