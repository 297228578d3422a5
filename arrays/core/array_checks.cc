// SPDX-License-Identifier: Apache-2.0

#include "arrays/core/array_checks.h"

#include "absl/strings/str_cat.h"
#include "arrays/core/geometry.h"
#include "devrt/runtime/status.h"

namespace devrt::internal {

absl::Status MovedFromError(const char* call) {
  return absl::InvalidArgumentError(absl::StrCat(
      call,
      " on an Array that was moved from: use the Array that it was moved to"));
}

absl::Status CheckTarget(const char* call, const Array& target) {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(target.storage(), call));
  if (target.read_only()) {
    return absl::InvalidArgumentError(absl::StrCat(
        call, ": the target of shape ", ShapeText(target.shape()), " in ",
        target.place().name(), " is read-only: write to a Copy() of it"));
  }
  if (HasOverlap(target)) {
    return absl::InvalidArgumentError(absl::StrCat(
        call, ": elements of the target of shape ", ShapeText(target.shape()),
        " share memory (it was broadcast): write to a Copy() of it"));
  }
  return absl::OkStatus();
}

}  // namespace devrt::internal
