// SPDX-License-Identifier: Apache-2.0
//
// Out of memory: one formatter for all floors (docs/semantics.md 2.6, 2.7).

#ifndef DEVRT_RUNTIME_INTERNAL_OUT_OF_MEMORY_H_
#define DEVRT_RUNTIME_INTERNAL_OUT_OF_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "devrt/runtime/status.h"
#include "runtime/internal/records.h"

namespace devrt::internal {

// Requests of so many bytes fail before any native call.
inline constexpr uint64_t kTooManyBytes = uint64_t{1} << 60;

// "MTIA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity
// of 256.00 MiB of which 255.00 MiB is free."  Without a total the last
// sentence is left out.
std::string OutOfMemoryText(const DeviceRecord* device,
                            const OutOfMemoryInfo& info);

// RESOURCE_EXHAUSTED with that text and payload, and an ErrorInfo that names
// the device.  `native` is what the backend answered, for the rest of its
// ErrorInfo, and for its text where there is no total; may be OK.  `gave_up`
// says why freed memory was not waited for; OK leaves the sentence out.
absl::Status OutOfMemoryError(const DeviceRecord* device,
                              const OutOfMemoryInfo& info,
                              const absl::Status& native,
                              const absl::Status& gave_up = {});

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_OUT_OF_MEMORY_H_
