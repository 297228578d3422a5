// SPDX-License-Identifier: Apache-2.0
//
// FromEnvironment of bootstrap.h.

#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "devrt/collectives/bootstrap.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives {
namespace {

const char* Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

// Where launchers say the rank and the number of ranks.
struct Names {
  const char* rank;
  const char* size;
};
constexpr Names kLaunchers[] = {
    {"RANK", "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS"},
};

absl::StatusOr<int> NumberOf(const char* name) {
  int number = 0;
  const char* const text = Variable(name);
  if (text != nullptr && absl::SimpleAtoi(text, &number)) return number;
  return absl::InvalidArgumentError(
      absl::StrCat(name, "=", text == nullptr ? "" : text, " is no number"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Bootstrap>> FromEnvironment() {
  const char* const folder = Variable("DEVRT_BOOTSTRAP_DIR");
  std::string pairs;
  for (const Names& names : kLaunchers) {
    absl::StrAppend(&pairs, pairs.empty() ? "" : ", ", names.rank, " with ",
                    names.size);
    if (folder == nullptr || Variable(names.rank) == nullptr) continue;
    DEVRT_ASSIGN_OR_RETURN(const int rank, NumberOf(names.rank));
    DEVRT_ASSIGN_OR_RETURN(const int size, NumberOf(names.size));
    const char* job = Variable("DEVRT_BOOTSTRAP_JOB");
    return FromFile(folder, rank, size, job == nullptr ? "default" : job);
  }
  if (folder == nullptr && Variable("PMIX_RANK") != nullptr) return FromPmix();
  return absl::NotFoundError(absl::StrCat(
      "no bootstrap in the environment: DEVRT_BOOTSTRAP_DIR is ",
      folder == nullptr ? "not set" : "set",
      ", and it needs the rank and the number of ranks beside it, looked for "
      "in ",
      pairs, "; without it PMIX_RANK of a launcher with PMIx is looked for"));
}

}  // namespace devrt::collectives
