// SPDX-License-Identifier: Apache-2.0
//
// Host pages for memory that is registered with a backend afterwards.

#ifndef DEVRT_MEMORY_PINNED_PINNED_PAGES_H_
#define DEVRT_MEMORY_PINNED_PINNED_PAGES_H_

#include <cstdint>

namespace devrt::internal {

uint64_t PageSize();
// Whole pages of the process, or nullptr.
void* MapPages(uint64_t bytes);
void UnmapPages(void* base, uint64_t bytes);
// Writes to each page, from up to `threads` threads, the caller's among them:
// the kernel obtains pages one by one, and clears each.  Fewer where there are
// few pages, or where the system gives no more threads.
void TouchPages(void* base, uint64_t bytes, uint32_t threads);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_PINNED_PINNED_PAGES_H_
