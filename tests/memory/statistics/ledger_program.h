// SPDX-License-Identifier: Apache-2.0
//
// Shards with locks, and random changes for them that could be an allocator's:
// nothing falls below 0.

#ifndef DEVRT_TESTS_MEMORY_STATISTICS_LEDGER_PROGRAM_H_
#define DEVRT_TESTS_MEMORY_STATISTICS_LEDGER_PROGRAM_H_

#include <cstdint>
#include <random>

#include "memory/common/ledger.h"

namespace devrt::internal::testing {

struct TestShard {
  SpinLock lock;
  LedgerShard shard;

  // Counts as a pool does.
  void Count(Ledger* ledger, Row row, const Change& change) {
    SpinLockHolder hold(&lock);
    if (!shard.Apply(row, change)) ledger->Count(&shard, row, change);
  }
};

class ChangeMaker {
 public:
  explicit ChangeMaker(uint64_t seed) : random_(seed) {}

  Row NextRow() { return random_() % 2 == 0 ? kSmallRow : kLargeRow; }

  // Returns a random change that makes no figure of `current` negative.  Only
  // the caller may change `current`.
  Change Next(const int64_t (&current)[kMetrics]) {
    Change c;
    for (size_t m = 0; m < kUnusedMetric; ++m) {
      const bool bytes = m == kAllocatedBytes || m == kSplitBytes;
      const int64_t most = bytes ? 5000 : 3;
      if (random_() % 3 == 0) c.up[m] = Below(most);
      if (random_() % 2 == 0) {
        c.down[m] = Below(current[m] + c.up[m]);
      }
    }
    return c;
  }

  uint64_t Roll(uint64_t n) { return random_() % n; }

 private:
  int64_t Below(int64_t n) {
    return n <= 0 ? 0
                  : static_cast<int64_t>(random_() % static_cast<uint64_t>(n));
  }
  std::mt19937_64 random_;
};

}  // namespace devrt::internal::testing

#endif  // DEVRT_TESTS_MEMORY_STATISTICS_LEDGER_PROGRAM_H_
