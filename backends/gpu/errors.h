// SPDX-License-Identifier: Apache-2.0
//
// What a vendor's error codes mean (docs/reference/semantics.md 2.2, 2.3).

#ifndef DEVRT_BACKENDS_GPU_ERRORS_H_
#define DEVRT_BACKENDS_GPU_ERRORS_H_

#include <algorithm>
#include <cstddef>

#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::gpu {

enum class ErrorClass {
  kLocal,    // the call failed, nothing else changed
  kSticky,   // the device is lost for the rest of the process
  kSuspect,  // sticky if a query returns it too
};

struct ErrorMeaning {
  int code;
  devrt_code status;
  ErrorClass error_class;
};

// A code that the table does not list.
inline constexpr ErrorMeaning kUnlistedError = {-1, DEVRT_INTERNAL,
                                                ErrorClass::kSuspect};

// Finds a code in a vendor's table, which is sorted by code.
template <size_t kCount>
const ErrorMeaning& FindMeaning(const ErrorMeaning (&table)[kCount], int code) {
  const ErrorMeaning* const end = table + kCount;
  const ErrorMeaning* const found =
      std::lower_bound(table, end, code,
                       [](const ErrorMeaning& m, int c) { return m.code < c; });
  return found != end && found->code == code ? *found : kUnlistedError;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_ERRORS_H_
