// SPDX-License-Identifier: Apache-2.0
//
// Maps the names of docs/reference/semantics.md 3.3 to the figures of the
// statistics.

#ifndef DEVRT_MEMORY_COMMON_STATISTICS_KEYS_H_
#define DEVRT_MEMORY_COMMON_STATISTICS_KEYS_H_

#include <cstdint>
#include <map>
#include <string>

#include "devrt/memory/memory_statistics.h"

namespace devrt::internal {

using StatisticFields = std::map<std::string, int64_t*>;

// The pointers lead into `statistics`, which has to outlive them.
StatisticFields FieldsOf(MemoryStatistics* statistics);
StatisticFields FieldsOf(PinnedStatistics* statistics);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_COMMON_STATISTICS_KEYS_H_
