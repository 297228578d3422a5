// SPDX-License-Identifier: Apache-2.0
#include "runtime/loader/selection.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/common/device_name.h"
#include "runtime/common/text.h"

namespace devrt::internal {

absl::StatusOr<Selection> Selection::Parse(std::string_view text) {
  Selection selection;
  for (absl::string_view part : absl::StrSplit(ToAbsl(text), ',')) {
    std::string_view name = ToStd(absl::StripAsciiWhitespace(part));
    if (name.empty()) continue;
    const bool exclude = name[0] == '!';
    if (exclude) name.remove_prefix(1);
    if (!IsBackendName(name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "DEVRT_BACKENDS=", Quoted(text), ": ", Quoted(ToStd(part)),
          " is not a backend's name; expected names such as \"cuda\" or "
          "\"!hip\", separated by commas"));
    }
    (exclude ? selection.excluded_ : selection.allowed_).emplace(name);
  }
  for (const std::string& name : selection.allowed_) {
    if (selection.excluded_.count(name) == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("DEVRT_BACKENDS=", Quoted(text),
                     " both allows and excludes ", Quoted(name)));
  }
  return selection;
}

}  // namespace devrt::internal
