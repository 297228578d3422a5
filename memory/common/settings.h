// SPDX-License-Identifier: Apache-2.0
//
// Settings of the allocators, as one text.  In the environment:
//
//   DEVRT_ALLOC_CONF="max_split_size_mb:512,backend:caching"
//
// At run time:
//
//   DEVRT_RETURN_IF_ERROR(
//       devrt::SetAllocatorSettings("pinned_use_cuda_host_register:True"));
//
// The form is key:value, separated by commas (docs/reference/settings.md);
// booleans are True and False (also true, false, 1, 0).  A text changes the
// keys that it names, or none if it has a mistake.  If it names a key twice,
// the last value counts.  A per_process_memory_fraction holds for all devices
// from then on, and replaces what SetMemoryFraction has set.
//
//   key                            value, default              changes
//   max_split_size_mb              above 20, or none           requests
//   garbage_collection_threshold   0 < x < 1, or 0: off        requests
//   roundup_power2_divisions       1, 2 .. 64, list, or none   requests
//   expandable_segments            bool, False                 new segments
//   per_process_memory_fraction    0 .. 1, 1                   at once
//   cross_stream_reuse             ordered, never              requests
//   pinned_use_cuda_host_register  bool, False                 new blocks
//   pinned_num_register_threads    1, 2 .. 128, 1              new blocks
//   pinned_use_background_threads  bool, False                 before use
//   pinned_class_limit_mb          power of two, 1             requests
//   backend                        caching, driver, raw        before use
//
// Before use: pinned_use_background_threads changes only before the first
// pinned allocation, and backend only before the first allocation of device
// memory.  A request of zero bytes or too many does not count as one, nor do
// SetMemoryFraction, EmptyCache and the like.
//
// Expandable segments: if the backend can map memory (devrt.virtual_memory/0),
// the segments of a stream grow and shrink by pages, so that there are few of
// them.  Other backends ignore the key and log one warning.  max_split_size is
// not used with expandable segments.
//
// A list looks like [256:1,512:2,>:4]: powers of two in MiB, ascending, up to
// 65536, each with a number of divisions.  The divisions hold for that power
// and for those below it, down to the entry before; ">" stands for all others.
// 0 or 1 division means no rounding.
//
// Errors: INVALID_ARGUMENT names the key, the value and what is allowed; for an
// unknown key, all keys and the nearest one.  FAILED_PRECONDITION: the key can
// no longer be changed (naming its present value is allowed), or the process is
// a forked child.  If the text in the environment has a mistake, every
// allocation returns that error, and the first of them logs it.
//
// Threads: any.  Allocations under way use the old or the new settings.

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

// The settings as values; the comment at the top explains the keys.
struct AllocatorSettings {
  uint64_t max_split_size = UINT64_MAX;     // bytes; UINT64_MAX: none
  double garbage_collection_threshold = 0;  // part of the memory; 0: off
  // 17 numbers of divisions, one for each power of two from 1 MiB to 64 GiB; 0
  // and 1 mean no rounding.  Empty: no rounding at all.
  std::vector<uint32_t> roundup_power2_divisions;
  bool expandable_segments = false;
  double per_process_memory_fraction = 1.0;
  bool cross_stream_reuse = true;
  bool pinned_register = false;
  uint32_t pinned_register_threads = 1;
  bool pinned_background = false;
  uint64_t pinned_class_limit = uint64_t{1} << 20;  // bytes
  // Where device memory comes from.
  enum class Source { kCaching, kDriver, kRaw } source = Source::kCaching;
};

// The settings of the process, for all devices and backends.
DEVRT_EXPORT AllocatorSettings GetAllocatorSettings();
// Changes the settings of the process by the keys of `text`.
DEVRT_EXPORT absl::Status SetAllocatorSettings(std::string_view text);

// Returns `base` changed by the keys of `text`.  The settings of the process
// stay as they are.  For tests and tools.
DEVRT_EXPORT absl::StatusOr<AllocatorSettings> ParseAllocatorSettings(
    std::string_view text, const AllocatorSettings& base = {});
// Returns a text for ParseAllocatorSettings that names every key.
DEVRT_EXPORT std::string ToString(const AllocatorSettings& settings);

}  // namespace devrt

#endif  // DEVRT_MEMORY_COMMON_SETTINGS_H_
