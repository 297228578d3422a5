// SPDX-License-Identifier: Apache-2.0
//
// Errors: absl::Status, with details of their origin.
//
//   absl::Status s = stream.Synchronize();
//   if (std::optional<devrt::ErrorInfo> info = devrt::GetErrorInfo(s)) {
//     if (info->sticky) Abandon(info->backend, info->device);
//   }
//
// StatusText(s) is the text for people: code and message, "INTERNAL: ...".
// absl's ToString also appends the payloads that GetErrorInfo and
// GetOutOfMemoryInfo read, "[devrt/ErrorInfo='...']".
//
// devrt throws no exceptions.  An error message names the object, the value,
// the expectation and the remedy.  docs/reference/semantics.md 2.1 defines the
// codes.  A status that comes from a native error, or from a lack of memory,
// has an ErrorInfo.

#ifndef DEVRT_RUNTIME_COMMON_STATUS_H_
#define DEVRT_RUNTIME_COMMON_STATUS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/export.h"

namespace devrt {

// Code and message of `status`: "INVALID_ARGUMENT: ...", "OK".
inline std::string StatusText(const absl::Status& status) {
  return status.ToString(absl::StatusToStringMode::kWithNoExtraData);
}

// The origin of an error.
struct ErrorInfo {
  std::string backend;         // "cuda"
  int device = -1;             // ordinal of the device at fault; -1 if none
  int64_t native_code = 0;     // the vendor's number
  std::string native_name;     // "cudaErrorIllegalAddress"
  std::string entry_point;     // the table slot or native call that failed
  uint64_t native_stream = 0;  // native handle; 0 if unknown
  bool sticky = false;         // the device is lost for the rest of the process
  bool async = false;  // earlier work caused the error, not the failed call
};

// The origin of an error; nullopt for OK, and for most errors of devrt itself.
DEVRT_EXPORT std::optional<ErrorInfo> GetErrorInfo(const absl::Status& status);

// Attaches `info` to `*status`; replaces an ErrorInfo that is there.
DEVRT_EXPORT void SetErrorInfo(absl::Status* status, const ErrorInfo& info);

// Details of an out-of-memory error (RESOURCE_EXHAUSTED from allocation).
struct OutOfMemoryInfo {
  uint64_t requested = 0;  // bytes requested
  uint64_t total = 0;      // bytes of the device
  uint64_t free = 0;       // bytes that the backend reported as free
  // The rest is set by a caching allocator; elsewhere segment is 0.
  uint64_t segment = 0;               // bytes requested from the driver
  uint64_t allowed = 0;               // to this process, by the memory fraction
  uint64_t allocated = 0;             // in use by the program
  uint64_t reserved_unallocated = 0;  // in the cache
};
// The details of `status`; nullopt for other errors.
DEVRT_EXPORT std::optional<OutOfMemoryInfo> GetOutOfMemoryInfo(
    const absl::Status& status);
// Attaches `info` to `*status`; replaces details that are there.
DEVRT_EXPORT void SetOutOfMemoryInfo(absl::Status* status,
                                     const OutOfMemoryInfo& info);

}  // namespace devrt

#define DEVRT_STATUS_CONCAT_INNER_(a, b) a##b
#define DEVRT_STATUS_CONCAT_(a, b) DEVRT_STATUS_CONCAT_INNER_(a, b)

// Returns from the enclosing function when `expr` is not OK.
#define DEVRT_RETURN_IF_ERROR(expr)                \
  do {                                             \
    ::absl::Status devrt_status_ = (expr);         \
    if (!devrt_status_.ok()) return devrt_status_; \
  } while (false)

// Assigns a StatusOr's value or returns its status.  At most once on a line.
#define DEVRT_ASSIGN_OR_RETURN(lhs, expr) \
  DEVRT_ASSIGN_OR_RETURN_IMPL_(           \
      DEVRT_STATUS_CONCAT_(devrt_statusor_, __LINE__), lhs, expr)
#define DEVRT_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr) \
  auto tmp = (expr);                                 \
  if (!tmp.ok()) return std::move(tmp).status();     \
  lhs = std::move(tmp).value()

#endif  // DEVRT_RUNTIME_COMMON_STATUS_H_
