// SPDX-License-Identifier: Apache-2.0
//
// Settings of the allocators: one string, in the environment or at run time.
//
//   DEVRT_ALLOC_CONF="max_split_size_mb:512,pinned_num_register_threads:8"
//   ./train DEVRT_RETURN_IF_ERROR(
//       devrt::SetAllocatorSettings("pinned_use_cuda_host_register:True"));
//
// The form is key:value, separated by commas, spaces around either allowed;
// booleans are True and False (also true, false, 1, 0).  A string changes the
// keys that it names, all of them or, with an error, none.
//
//   key                              value, default          changed at run
//   time max_split_size_mb                > 20, or none           next
//   allocation garbage_collection_threshold     0 < x < 1, or 0: off    next
//   allocation roundup_power2_divisions         1, 2, 4 .. 64; or a     next
//   allocation
//                                    list [256:1,512:2,>:4]
//   expandable_segments              bool, False             next segment
//   per_process_memory_fraction      0 .. 1, 1               at once
//   cross_stream_reuse               ordered, never          next allocation
//   pinned_use_cuda_host_register    bool, False             next new block
//   pinned_num_register_threads      1, 2, 4 .. 128, 1       next new block
//   pinned_use_background_threads    bool, False             before the first
//                                                            pinned allocation
//   pinned_class_limit_mb            >= 1, power of two, 1   next allocation
//   backend                          caching, driver, raw    before the first
//                                                            allocation
//
// Errors: INVALID_ARGUMENT names the key, the value, what it may be, and for an
// unknown key all keys and the nearest; FAILED_PRECONDITION for a key that can
// no longer be changed.  A mistake in the environment is the answer of every
// allocation, and the log's first line about memory.
//
// Threads: any; allocations under way use the old or the new settings.

#ifndef DEVRT_MEMORY_SETTINGS_H_
#define DEVRT_MEMORY_SETTINGS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/export.h"

namespace devrt {

struct AllocatorSettings {
  uint64_t max_split_size = UINT64_MAX;  // bytes; UINT64_MAX: none
  double garbage_collection_threshold = 0;
  // Divisions of each power of two from 1 MiB to 64 GiB; empty: none.
  std::vector<uint32_t> roundup_power2_divisions;
  bool expandable_segments = false;
  double per_process_memory_fraction = 1.0;
  bool cross_stream_reuse = true;
  bool pinned_register = false;
  uint32_t pinned_register_threads = 1;
  bool pinned_background = false;
  uint64_t pinned_class_limit = uint64_t{1} << 20;  // bytes
  enum class Source { kCaching, kDriver, kRaw } source = Source::kCaching;
};

// Of all devices and backends of the process.
DEVRT_EXPORT AllocatorSettings GetAllocatorSettings();
DEVRT_EXPORT absl::Status SetAllocatorSettings(std::string_view text);

// `base` with the keys of `text`; changes nothing.  For tests and tools.
DEVRT_EXPORT absl::StatusOr<AllocatorSettings> ParseAllocatorSettings(
    std::string_view text, const AllocatorSettings& base = {});
// A string that ParseAllocatorSettings understands, every key named.
DEVRT_EXPORT std::string ToString(const AllocatorSettings& settings);

}  // namespace devrt

#endif  // DEVRT_MEMORY_SETTINGS_H_
