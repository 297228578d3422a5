// SPDX-License-Identifier: Apache-2.0
//
// What calls check of the arrays that they get.  `call` is the name in errors.
//
//   DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(source.storage(), "CopyArray"));
//   DEVRT_RETURN_IF_ERROR(CheckTarget("CopyArray", target));

#ifndef DEVRT_ARRAYS_CORE_ARRAY_CHECKS_H_
#define DEVRT_ARRAYS_CORE_ARRAY_CHECKS_H_

#include <memory>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "devrt/arrays/array.h"

namespace devrt::internal {

// INVALID_ARGUMENT for an array without a storage: "Fill on an Array that was
// moved from: ...".
absl::Status MovedFromError(const char* call);
inline absl::Status CheckNotMovedFrom(const std::shared_ptr<Storage>& storage,
                                      const char* call) {
  if (ABSL_PREDICT_TRUE(storage != nullptr)) return absl::OkStatus();
  return MovedFromError(call);
}

// INVALID_ARGUMENT if the target was moved from, is read-only, or has two
// elements that share memory.
absl::Status CheckTarget(const char* call, const Array& target);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_CORE_ARRAY_CHECKS_H_
