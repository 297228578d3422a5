// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_OUTCOME_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_OUTCOME_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/op.h"
#include "backends/mtia/memory/memory.h"

namespace devrt::mtia {

// Collects what a run has made that the program can see, as one hash: what
// operations wrote to host memory, the contents of blocks of device memory, and
// the codes of faults.
//
// Each part is named by the thread and its count of operations, allocations or
// host copies, and the hashes of the parts are added up.  So neither addresses
// nor the order of the operations matter, and two runs of a program without
// races have one hash.
//
// With outcome=off nothing is collected, and a caller asks is_on first.
//
// Threads: any.
class Outcome {
 public:
  // Begins the outcome of the next machine.
  void Start(bool on);
  bool is_on() const { return on_.load(std::memory_order_relaxed); }

  // Notes what `op`, which is complete, wrote to host memory.  A kernel is
  // taken to have written all that it declares.
  void AddWrites(const Memory& memory, const Op& op);
  // Notes the copy number `copy` of `thread` from host to host.
  void AddHostCopy(uint32_t thread, uint64_t copy, const void* bytes,
                   uint64_t size);
  // Notes that `op` ended with the fault `code`.
  void AddFault(const Op& op, int64_t code);

  // Notes that `thread` has made its allocation number `index`.
  void BeginBlock(const void* base, uint32_t thread, uint64_t index);
  // Adds the contents of the block, whose life ends now.  Does nothing if
  // `base` is not the start of a block.
  void EndBlock(const Memory& memory, const void* base);
  // Leaves out the block, because an allocator has carved it.  Which parts of
  // it an allocator uses again may depend on the schedule.
  void ForgetBlock(const void* base);

  // The hash of the parts and of the blocks that are alive.  `memory` is
  // nullptr if there is none.
  uint64_t Hash(const Memory* memory) const;

 private:
  enum Part : uint64_t;
  void Add(Part part, OpId id, const void* bytes, uint64_t size);
  static uint64_t HashOf(Part part, OpId id, const void* bytes, uint64_t size);

  std::atomic<bool> on_{false};
  mutable std::mutex mutex_;
  uint64_t sum_ = 0;
  std::unordered_map<const void*, OpId> blocks_;  // by the first byte
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_OUTCOME_H_
