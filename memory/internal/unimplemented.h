// SPDX-License-Identifier: Apache-2.0
//
// For what has a contract and no body yet.  This header goes with the last of
// them.

#ifndef DEVRT_MEMORY_INTERNAL_UNIMPLEMENTED_H_
#define DEVRT_MEMORY_INTERNAL_UNIMPLEMENTED_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace devrt::internal {

inline absl::Status NotBuilt(const char* call) {
  return absl::UnimplementedError(
      absl::StrCat(call, " is declared, but not implemented yet"));
}

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_INTERNAL_UNIMPLEMENTED_H_
