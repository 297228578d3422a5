// SPDX-License-Identifier: Apache-2.0
//
// Settings of the allocators: one string, in the environment,
//   DEVRT_ALLOC_CONF="max_split_size_mb:512,backend:caching"
// or at run time:
//   DEVRT_RETURN_IF_ERROR(
//       devrt::SetAllocatorSettings("pinned_use_cuda_host_register:True"));
//
// The form is key:value, separated by commas (docs/cli.md, Environment);
// booleans are True and False (also true, false, 1, 0).  A string changes the
// keys that it names, or none if it has a mistake.  If it names a key twice,
// the last value counts.  A per_process_memory_fraction holds for all devices
// from then on, and replaces what SetMemoryFraction has set.
//
//   key                            value, default              changes
//
//   max_split_size_mb              above 20, or none           requests
//   garbage_collection_threshold   0 < x < 1, or 0: off        requests
//   roundup_power2_divisions       1, 2 .. 64, list, or none   requests
//   expandable_segments            bool, False                 new segments
//   per_process_memory_fraction    0 .. 1, 1                   at once
//   cross_stream_reuse             ordered, never              requests
//   pinned_use_cuda_host_register  bool, False                 new blocks
//   pinned_num_register_threads    1, 2 .. 128, 1              new blocks
//   pinned_use_background_threads  bool, False                 (1)
//   pinned_class_limit_mb          power of two, 1             requests
//   backend                        caching, driver, raw        (2)
//
//   Expandable segments: where the backend can map memory
//   (devrt.virtual_memory/0), a stream's segments grow and shrink by pages
//   instead of being many; others ignore it with one warning.  max_split_size
//   is not used then.
//
//   (1) only before the first pinned allocation
//   (2) only before the first allocation of device memory: one that reaches a
//       device or a resource, not one of zero bytes or too many, nor
//       SetMemoryFraction, EmptyCache and the like
//
// A list is [256:1,512:2,>:4]: powers of two in MiB, ascending, up to 65536,
// and the divisions of that power and of those below it down to the entry
// before; ">" is all that are left, and 0 or 1 division is no rounding.
//
// Errors: INVALID_ARGUMENT names the key, its value and what it takes, or for
// an unknown key the nearest and all keys; FAILED_PRECONDITION for one that can
// no longer be changed, unless it keeps its value, and in a forked child.  A
// mistake in the environment is the answer of every allocation, and the log's
// first line about memory.
//
// Threads: any; allocations under way use the old or the new settings.

#ifndef DEVRT_MEMORY_COMMON_SETTINGS_H_
#define DEVRT_MEMORY_COMMON_SETTINGS_H_

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
  // Divisions of each power of two from 1 MiB to 64 GiB, 17 of them, 0 and
  // 1: no rounding; empty: for none.
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

#endif  // DEVRT_MEMORY_COMMON_SETTINGS_H_
