// SPDX-License-Identifier: Apache-2.0
//
// DEVRT_BACKENDS: selects among the backends that were found.

#ifndef DEVRT_RUNTIME_LOADER_SELECTION_H_
#define DEVRT_RUNTIME_LOADER_SELECTION_H_

#include <set>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace devrt::internal {

class Selection {
 public:
  // Parses "cuda,!hip"; an empty text selects everything.
  //   INVALID_ARGUMENT  names the part with the mistake
  static absl::StatusOr<Selection> Parse(std::string_view text);

  bool Selects(const std::string& backend) const {
    return excluded_.count(backend) == 0 &&
           (allowed_.empty() || allowed_.count(backend) != 0);
  }

 private:
  std::set<std::string> allowed_;  // empty: all
  std::set<std::string> excluded_;
};

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_LOADER_SELECTION_H_
