// SPDX-License-Identifier: Apache-2.0
//
// The native calls of one operation.

#ifndef DEVRT_COLLECTIVES_NCCL_CALLS_H_
#define DEVRT_COLLECTIVES_NCCL_CALLS_H_

#include <cstdint>

#include "collectives/nccl/library.h"
#include "collectives/nccl/member.h"
#include "devrt/backends/abi/devrt_collectives.h"

namespace devrt::collectives::nccl {

// True if Call makes one native call for the operation.  One that makes several
// must stand in a native group, because its sends and receives meet.
inline bool IsOneCall(const Library& library, uint32_t op) {
  switch (op) {
    case DEVRT_COLLECTIVE_ALL_TO_ALL:
      return library.functions.all_to_all != nullptr;
    case DEVRT_COLLECTIVE_GATHER:
      return library.functions.gather != nullptr;
    case DEVRT_COLLECTIVE_SCATTER:
      return library.functions.scatter != nullptr;
    default:
      return true;
  }
}

// Makes the calls of an operation that CheckOperation has passed, and that has
// elements.  Returns the first answer that is neither kSuccess nor kInProgress,
// or kInProgress if one was; `*symbol` is the call that gave it.
Result Call(const Library& library, Member* member,
            const devrt_collective_v0& op, Stream stream, const char** symbol);

}  // namespace devrt::collectives::nccl

#endif  // DEVRT_COLLECTIVES_NCCL_CALLS_H_
