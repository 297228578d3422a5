// SPDX-License-Identifier: Apache-2.0
//
// Errors: absl::Status with what is known about their origin.
//
//   absl::Status s = stream.Synchronize();
//   if (std::optional<devrt::ErrorInfo> info = devrt::GetErrorInfo(s)) {
//     if (info->sticky) Abandon(info->backend, info->device);
//   }
//
// For people: StatusText(s) is "INTERNAL: ...", the code and the message.
// absl's ToString appends what GetErrorInfo and its like read,
// "[devrt/ErrorInfo='...']".
//
// devrt throws nothing.  A message names the object, the value, what was
// expected and the remedy; codes are those of docs/semantics.md 2.1.  A status
// that began as a native error, or says that memory ran out, carries an
// ErrorInfo.

#ifndef DEVRT_RUNTIME_STATUS_H_
#define DEVRT_RUNTIME_STATUS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/export.h"

namespace devrt {

// "INVALID_ARGUMENT: ...", "OK".
inline std::string StatusText(const absl::Status& status) {
  return status.ToString(absl::StatusToStringMode::kWithNoExtraData);
}

struct ErrorInfo {
  std::string backend;      // "cuda"
  int device = -1;          // ordinal of the device at fault, -1: none
  int64_t native_code = 0;  // the vendor's number
  std::string native_name;  // "cudaErrorIllegalAddress"
  std::string entry_point;  // the slot or native call that reported it
  uint64_t native_stream = 0;
  bool sticky = false;  // the device is lost for the rest of the process
  bool async = false;   // caused by earlier work, not by the call itself
};

// The origin of an error; nullopt for OK and for most that devrt itself found.
DEVRT_EXPORT std::optional<ErrorInfo> GetErrorInfo(const absl::Status& status);

// Attaches `info` to `*status`, replacing what was there.
DEVRT_EXPORT void SetErrorInfo(absl::Status* status, const ErrorInfo& info);

// Details of an out-of-memory error (RESOURCE_EXHAUSTED from allocation).
struct OutOfMemoryInfo {
  uint64_t requested = 0;  // bytes asked for
  uint64_t total = 0;      // of the device
  uint64_t free = 0;       // as the backend saw it
  // Of a caching allocator; segment is 0 elsewhere.
  uint64_t segment = 0;    // bytes asked of the driver for it
  uint64_t allowed = 0;    // to this process, by the memory fraction
  uint64_t allocated = 0;  // held by the program
  uint64_t reserved_unallocated = 0;
};
DEVRT_EXPORT std::optional<OutOfMemoryInfo> GetOutOfMemoryInfo(
    const absl::Status& status);
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

// Assigns the value of a StatusOr expression or returns its status.
#define DEVRT_ASSIGN_OR_RETURN(lhs, expr) \
  DEVRT_ASSIGN_OR_RETURN_IMPL_(           \
      DEVRT_STATUS_CONCAT_(devrt_statusor_, __LINE__), lhs, expr)
#define DEVRT_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr) \
  auto tmp = (expr);                                 \
  if (!tmp.ok()) return std::move(tmp).status();     \
  lhs = std::move(tmp).value()

#endif  // DEVRT_RUNTIME_STATUS_H_
