// SPDX-License-Identifier: Apache-2.0
//
// Snapshots that no allocator made, for what reads and writes them.

#ifndef DEVRT_TESTS_TOOLS_MADE_UP_SNAPSHOT_H_
#define DEVRT_TESTS_TOOLS_MADE_UP_SNAPSHOT_H_

#include <cstdint>
#include <random>

#include "devrt/memory/history.h"
#include "memory/common/statistics_keys.h"

namespace devrt::testing {

// Every field with some value, all of them valid.
inline MemorySnapshot MakeUpSnapshot(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return n == 0 ? 0 : random() % n; };
  MemorySnapshot s;
  s.device = seed % 2 == 0 ? "mtia:0" : "cuda:1";
  s.total_memory = below(uint64_t{1} << 40);
  for (const auto& [name, field] : internal::FieldsOf(&s.statistics)) {
    *field = static_cast<int64_t>(below(1000)) - 10;
  }
  for (uint64_t i = 0, n = below(4); i < n; ++i) {
    MemorySite site;
    site.file = i == 0 ? "a \"file\"\n\xc3\xa9.cc" : "train.cc";
    site.line = static_cast<int64_t>(below(1000));
    for (uint64_t f = 0, frames = below(4); f < frames; ++f) {
      site.frames.push_back(random());
    }
    s.sites.push_back(site);
  }
  const auto site = [&] {
    const uint64_t i = below(s.sites.size() + 1);
    return i == s.sites.size() ? kNoMemorySite : static_cast<uint32_t>(i);
  };
  uint64_t address = 0x7f0000000000;
  for (uint64_t i = 0, n = below(4); i < n; ++i) {
    SegmentSnapshot segment;
    segment.address = address;
    segment.stream = below(3);
    segment.large = below(2) == 0;
    segment.expandable = below(2) == 0;
    for (uint64_t b = 0, blocks = below(5); b < blocks; ++b) {
      BlockSnapshot block;
      block.address = address;
      block.size = 512 * (1 + below(100));
      block.state = static_cast<BlockState>(below(segment.expandable ? 4 : 3));
      block.stream = below(3);
      if (block.state == BlockState::kLive) {
        block.requested = 1 + below(block.size);
        block.site = site();
      }
      if (block.state == BlockState::kPending) block.waiting_streams = {4, 9};
      if (block.state != BlockState::kUnmapped) segment.size += block.size;
      address += block.size;
      segment.blocks.push_back(block);
    }
    address += 512 * below(3);
    s.segments.push_back(segment);
  }
  uint64_t number = below(100);
  for (uint64_t i = 0, n = below(10); i < n; ++i) {
    s.events.push_back({static_cast<MemoryAction>(below(9)),
                        number += 1 + below(2), random(), below(1 << 20),
                        below(3), 1795000000000000 + static_cast<int64_t>(i),
                        site()});
  }
  return s;
}

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_TOOLS_MADE_UP_SNAPSHOT_H_
