// SPDX-License-Identifier: Apache-2.0
//
// Block: what is known of one block of simulated memory, live or freed.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_BLOCK_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_BLOCK_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "backends/mtia/common/call_site.h"

namespace devrt::mtia {

inline constexpr uint64_t kNotClosed = UINT64_MAX;

// Bytes of the capacity.
struct PhysicalRange {
  uint64_t begin;
  uint64_t size;
};

struct Block {
  uint64_t offset = 0;    // in the window
  uint64_t size = 0;      // as asked for
  uint64_t span = 0;      // of the window, with rounding and gap
  uint64_t physical = 0;  // place in the capacity
  uint64_t rounded = 0;   // bytes of the capacity
  uint64_t id = 0;
  uint32_t device = 0;
  uint64_t chunk = 0;  // number of the chunk that is mapped here; 0: none
  bool live = true;
  // Stream-ordered blocks only.
  bool ordered = false;
  bool is_pending = false;       // its allocation has not run
  uint64_t closed = kNotClosed;  // newest submission at dealloc_async
  uint64_t closed_by = 0;        // number of the stream of dealloc_async
  bool lent = false;             // another block has all but `rest`
  std::vector<PhysicalRange> rest;
  CallSite allocated;
  CallSite freed;
};

// A number for an allocation or a registration, never reused in the process.
inline uint64_t NextAllocationId() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_BLOCK_H_
