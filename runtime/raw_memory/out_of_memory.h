// SPDX-License-Identifier: Apache-2.0
//
// Out-of-memory errors: one text for all callers (docs/reference/semantics.md
// 2.6, 2.7).

#ifndef DEVRT_RUNTIME_RAW_MEMORY_OUT_OF_MEMORY_H_
#define DEVRT_RUNTIME_RAW_MEMORY_OUT_OF_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "devrt/runtime/status.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

// Requests of this size or more fail before any native call.
inline constexpr uint64_t kTooManyBytes = uint64_t{1} << 60;

// "MTIA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity
// of 256.00 MiB of which 255.00 MiB is free."  The last sentence is omitted if
// info.total is 0.
std::string OutOfMemoryText(const DeviceRecord* device,
                            const OutOfMemoryInfo& info);

// RESOURCE_EXHAUSTED with that text, `info` as payload, and an ErrorInfo that
// names the device.  `native` is the backend's status, or OK: it completes the
// ErrorInfo, and its text is used if info.total is 0.  `gave_up` says why devrt
// did not wait for freed memory; OK omits that sentence.
absl::Status OutOfMemoryError(const DeviceRecord* device,
                              const OutOfMemoryInfo& info,
                              const absl::Status& native,
                              const absl::Status& gave_up = {});

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_RAW_MEMORY_OUT_OF_MEMORY_H_
