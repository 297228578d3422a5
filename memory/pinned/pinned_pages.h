// SPDX-License-Identifier: Apache-2.0
//
// Host pages, which are registered with a backend afterwards.

#ifndef DEVRT_MEMORY_PINNED_PINNED_PAGES_H_
#define DEVRT_MEMORY_PINNED_PINNED_PAGES_H_

#include <cstdint>

namespace devrt::internal {

uint64_t PageSize();
// Maps whole pages; nullptr if the system has none.
void* MapPages(uint64_t bytes);
void UnmapPages(void* base, uint64_t bytes);
// Writes to each page, because the kernel provides and clears a page at its
// first access.  Up to `threads` threads do so, the calling one among them;
// fewer if there are few pages, or if the system gives no more threads.
void TouchPages(void* base, uint64_t bytes, uint32_t threads);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_PINNED_PINNED_PAGES_H_
