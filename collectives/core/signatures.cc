// SPDX-License-Identifier: Apache-2.0

#include "collectives/core/signatures.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "collectives/bootstrap/bytes.h"
#include "collectives/bootstrap/rank_lists.h"
#include "collectives/core/comm.h"
#include "devrt/collectives/bootstrap.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives::internal {
namespace {

std::string ToBytes(const Signature& signature) {
  BytesWriter out;
  out.Text(signature.refusal);
  out.Number(signature.collectives.size());
  for (const Signature::Collective& collective : signature.collectives) {
    out.Text(collective.text);
    out.Text(collective.site);
  }
  return Seal(out.bytes());
}

bool Read(std::string_view sealed, Signature* signature) {
  const std::optional<std::string_view> bytes = Unseal(sealed);
  if (!bytes.has_value()) return false;
  BytesReader in(*bytes);
  signature->refusal = in.Text();
  const uint64_t count = in.Number();
  for (uint64_t i = 0; i < count && in.ok(); ++i) {
    std::string text = in.Text();
    signature->collectives.push_back({std::move(text), in.Text()});
  }
  return in.AtEnd();
}

// "rank 3: all_reduce(float32 x 4096, sum) train.cc:41; ranks 0-2: ...": what
// each rank has at `at`.
std::string CallsAt(const std::vector<Signature>& signatures, size_t at) {
  std::map<std::string, std::vector<int>> ranks_of;
  for (size_t rank = 0; rank < signatures.size(); ++rank) {
    const auto& collectives = signatures[rank].collectives;
    const std::string text =
        at >= collectives.size()
            ? "no collective"
            : absl::StrCat(collectives[at].text,
                           collectives[at].site.empty() ? "" : " ",
                           collectives[at].site);
    ranks_of[text].push_back(static_cast<int>(rank));
  }
  // The guilty are few.
  std::vector<std::pair<std::string, std::vector<int>>> groups(ranks_of.begin(),
                                                               ranks_of.end());
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) {
                     return a.second.size() < b.second.size();
                   });
  return absl::StrJoin(groups, "; ", [](std::string* out, const auto& group) {
    absl::StrAppend(out, RanksText(group.second), ": ", group.first);
  });
}

}  // namespace

absl::Status CheckSignatures(const std::vector<Signature>& signatures,
                             uint64_t next) {
  for (size_t rank = 0; rank < signatures.size(); ++rank) {
    if (signatures[rank].refusal.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, " submits nothing: ", signatures[rank].refusal));
  }
  size_t most = 0;
  for (const Signature& signature : signatures) {
    most = std::max(most, signature.collectives.size());
  }
  for (size_t at = 0; at < most; ++at) {
    for (const Signature& signature : signatures) {
      if (at < signature.collectives.size() &&
          at < signatures[0].collectives.size() &&
          signature.collectives[at].text ==
              signatures[0].collectives[at].text) {
        continue;
      }
      return absl::InvalidArgumentError(
          absl::StrCat("the ranks' calls differ at ", next + at, ": ",
                       CallsAt(signatures, at)));
    }
  }
  return absl::OkStatus();
}

absl::Status CompareSignatures(const Comm& comm, const Signature& mine) {
  DEVRT_ASSIGN_OR_RETURN(
      const std::vector<std::string> parts,
      comm.bootstrap->AllGather(ToBytes(mine),
                                absl::Now() + comm.options.timeout));
  std::vector<Signature> signatures(parts.size());
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    if (Read(parts[rank], &signatures[rank])) continue;
    return absl::DataLossError(absl::StrCat(
        "the bootstrap returned ", parts[rank].size(), " bytes for rank ", rank,
        ", which are damaged, or no list of its calls"));
  }
  if (signatures.size() != static_cast<size_t>(comm.size)) {
    return absl::DataLossError(absl::StrCat("the bootstrap returned ",
                                            signatures.size(), " parts for ",
                                            comm.size, " ranks"));
  }
  const absl::Status status = CheckSignatures(signatures, comm.sequence + 1);
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(comm.Text(), ": ", status.message()));
}

}  // namespace devrt::collectives::internal
