// SPDX-License-Identifier: Apache-2.0
//
// What one rank can know of an operation before it is submitted: its arguments.

#ifndef DEVRT_COLLECTIVES_NCCL_CHECKS_H_
#define DEVRT_COLLECTIVES_NCCL_CHECKS_H_

#include <cstdint>

#include "collectives/nccl/library.h"
#include "collectives/nccl/member.h"
#include "devrt/backends/abi/devrt_collectives.h"

namespace devrt::collectives::nccl {

// The library's type for a dtype; -1 if it has none.  bool is sent as uint8.
DataType TypeOf(const Library& library, uint32_t dtype);
// The bytes of an element.
inline uint64_t SizeOf(uint32_t dtype) { return (dtype & 0xff) / 8; }
// The library's number of a reduction; -1 for an unknown one.
inline Reduction ReductionOf(uint32_t reduction) {
  constexpr Reduction kReductions[] = {kSum, kProd, kMin, kMax, kAvg};
  static_assert(DEVRT_COLLECTIVE_SUM == 0 && DEVRT_COLLECTIVE_AVG == 4);
  return reduction <= DEVRT_COLLECTIVE_AVG ? kReductions[reduction] : -1;
}
// True for ALL_REDUCE, REDUCE and REDUCE_SCATTER.
inline bool HasReduction(uint32_t op) {
  return op == DEVRT_COLLECTIVE_ALL_REDUCE || op == DEVRT_COLLECTIVE_REDUCE ||
         op == DEVRT_COLLECTIVE_REDUCE_SCATTER;
}

// True if the library has the operation for the dtype.  Bools have MIN and MAX
// only, the float8 dtypes no reduction.
bool Supports(const Library& library, uint32_t op, uint32_t dtype,
              uint32_t reduction);

// nullptr if the arguments are right for the member; INVALID_ARGUMENT, or
// UNIMPLEMENTED, names the argument and its value.
devrt_status CheckOperation(const Library& library, Member* member,
                            const devrt_collective_v0& op);

}  // namespace devrt::collectives::nccl

#endif  // DEVRT_COLLECTIVES_NCCL_CHECKS_H_
