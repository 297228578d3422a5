// SPDX-License-Identifier: Apache-2.0
//
// A mistake in the order of a program's work, as the detector makes it.

#ifndef DEVRT_LAYERS_VALIDATE_FINDING_H_
#define DEVRT_LAYERS_VALIDATE_FINDING_H_

#include <cstdint>

#include "layers/validate/history.h"
#include "layers/validate/memory_map.h"

namespace devrt::race {

enum class FindingKind : uint8_t {
  kWriteAfterWrite,
  kReadAfterWrite,
  kWriteAfterRead,
  kUseBeforeAllocation,  // by a stream that does not wait for the allocation
  kUseAfterFree,
  kFreeWhileUsed,   // work that the free does not come after uses the block
  kReuseWhileUsed,  // the allocator gave the block out again
  kHostAccess,      // the host uses memory of work in flight
  kWrongDevice,     // a kernel uses memory that its device cannot access
};

// Returns false for mistakes that no order of the two operations mends.
inline bool LacksOrder(FindingKind kind) {
  return kind != FindingKind::kUseAfterFree &&
         kind != FindingKind::kWrongDevice;
}

struct Finding {
  FindingKind kind = FindingKind::kWriteAfterWrite;
  BlockInfo block;
  Range range;               // of the block
  bool approximate = false;  // the range holds bytes that were not used
  Operation earlier;
  Mode earlier_mode = Mode::kRead;
  bool earlier_is_work = true;  // of a stream, and not a host thread's own use
  Operation later;
  Mode later_mode = Mode::kRead;
  Explanation explanation;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_FINDING_H_
