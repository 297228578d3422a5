// SPDX-License-Identifier: Apache-2.0
//
// MemoryReaders: which devices may use the memory of which others, for drivers
// that need it for each new pool and mapping.

#ifndef DEVRT_BACKENDS_GPU_MEMORY_READERS_H_
#define DEVRT_BACKENDS_GPU_MEMORY_READERS_H_

#include <cstdint>
#include <set>
#include <utility>

namespace devrt::gpu {

// Threads: one at a time.
class MemoryReaders {
 public:
  void Set(uint32_t reader, uint32_t owner, bool allow) {
    if (allow) {
      pairs_.emplace(owner, reader);
    } else {
      pairs_.erase({owner, reader});
    }
  }

  // Calls call(reader) for each device that may use the memory of `owner`.
  template <typename Call>
  void ForEach(uint32_t owner, Call call) const {
    auto pair = pairs_.lower_bound({owner, 0});
    for (; pair != pairs_.end() && pair->first == owner; ++pair) {
      call(pair->second);
    }
  }

 private:
  std::set<std::pair<uint32_t, uint32_t>> pairs_;  // owner, reader
};

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_MEMORY_READERS_H_
