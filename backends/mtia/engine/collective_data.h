// SPDX-License-Identifier: Apache-2.0
//
// What collectives do to memory.

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_COLLECTIVE_DATA_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_COLLECTIVE_DATA_H_

#include <cstdint>
#include <vector>

#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/communicator.h"
#include "backends/mtia/memory/memory.h"

namespace devrt::mtia {

// The bytes that one rank reads at src and writes at dst; 0: none.
struct CollectiveSizes {
  uint64_t src = 0;
  uint64_t dst = 0;
};
// `call` has a known op and dtype.  Returns false if a size passes 2^64.
bool SizesOf(const devrt_collective_v0& call, uint32_t ranks, uint32_t rank,
             CollectiveSizes* sizes);

// True for send and receive, which meet in pairs.
inline bool IsPointToPoint(uint32_t op) {
  return op == DEVRT_COLLECTIVE_SEND || op == DEVRT_COLLECTIVE_RECV;
}
// True for the operations that have a reduction, and for those with a root.
inline bool HasReduction(uint32_t op) {
  return op == DEVRT_COLLECTIVE_ALL_REDUCE || op == DEVRT_COLLECTIVE_REDUCE ||
         op == DEVRT_COLLECTIVE_REDUCE_SCATTER;
}
inline bool HasRoot(uint32_t op) {
  return op == DEVRT_COLLECTIVE_REDUCE || op == DEVRT_COLLECTIVE_BROADCAST ||
         op == DEVRT_COLLECTIVE_GATHER || op == DEVRT_COLLECTIVE_SCATTER;
}

// Reads all sources and makes the results of the members: of all ranks in
// their order, or of a send and its receive.  All have equal calls.  Returns
// nullptr, or the first member whose source is not accessible, with the fault
// of its operation set.  `memory` may be nullptr if there is none.
Member* Exchange(const Memory* memory, const std::vector<Member*>& members);

// Writes what the part of `op` has got, and poison where it got nothing.  Sets
// the fault of `op` if the place is not accessible.
void WriteResults(const Memory* memory, const Config& config, Op* op);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_COLLECTIVE_DATA_H_
