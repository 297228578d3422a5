// SPDX-License-Identifier: Apache-2.0
//
// PinnedRecords: the records of one allocator's blocks, used again for new
// blocks and never destroyed, because a thread that looked an address up may
// still read one.
//
// Lock: `mutex_`, a leaf.

#ifndef DEVRT_MEMORY_PINNED_PINNED_RECORDS_H_
#define DEVRT_MEMORY_PINNED_PINNED_RECORDS_H_

#include <memory>
#include <vector>

#include "devrt/runtime/mutex.h"
#include "memory/pinned/pinned_block.h"

namespace devrt::internal {

class PinnedRecords {
 public:
  explicit PinnedRecords(PinnedAllocator* allocator) : allocator_(allocator) {}

  PinnedBlock* Acquire() DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    if (unused_.empty()) {
      records_.push_back(std::make_unique<PinnedBlock>());
      unused_.push_back(records_.back().get());
      unused_.back()->allocator = allocator_;
    }
    PinnedBlock* const block = unused_.back();
    unused_.pop_back();
    return block;
  }
  void Return(PinnedBlock* block) DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    unused_.push_back(block);
  }
  std::vector<PinnedBlock*> All() DEVRT_EXCLUDES(mutex_) {
    std::vector<PinnedBlock*> all;
    MutexLock lock(&mutex_);
    for (const auto& record : records_) all.push_back(record.get());
    return all;
  }

 private:
  PinnedAllocator* const allocator_;
  Mutex mutex_;
  std::vector<std::unique_ptr<PinnedBlock>> records_ DEVRT_GUARDED_BY(mutex_);
  std::vector<PinnedBlock*> unused_ DEVRT_GUARDED_BY(mutex_);
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_PINNED_PINNED_RECORDS_H_
