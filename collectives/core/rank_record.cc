// SPDX-License-Identifier: Apache-2.0

#include "collectives/core/rank_record.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "collectives/bootstrap/bytes.h"
#include "collectives/bootstrap/rank_lists.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives::internal {
namespace {

constexpr uint64_t kMagic = 0x4c4f4354525645;  // "EVRTCOL"
// Raised when a record changes, or what follows on it.
constexpr uint64_t kProtocol = 5;

// Calls f for each field, in the order of the bytes.
template <typename Record, typename F>
void ForEachField(Record& record, F f) {
  f(record.rank);
  f(record.size);
  f(record.error);
  f(record.seen);
  f(record.provider);
  f(record.version);
  f(record.flags);
  f(record.host);
  f(record.device);
  f(record.uuid);
  f(record.shared_device);
  f(record.allow_mixed_versions);
  f(record.check_signatures);
  f(record.may_wait);
  f(record.has_record_folder);
  f(record.name);
  f(record.unique_id);
  f(record.id);
  f(record.key);
}

// "2.28" of "2.28.9".
std::string MajorMinor(const std::string& version) {
  const std::vector<std::string> parts = absl::StrSplit(version, '.');
  return absl::StrJoin(parts.begin(),
                       parts.begin() + (parts.size() < 2 ? parts.size() : 2),
                       ".");
}

// "ranks 0-3 have nccl 2.28, ranks 4-7 nccl 2.32": `text` of each rank.
// Empty if all are equal.
template <typename F>
std::string Differences(const std::vector<RankRecord>& records, F text) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < records.size(); ++i) {
    const std::string value = text(records[i]);
    const auto [at, is_new] = known.try_emplace(value, groups.size());
    if (is_new) groups.push_back({value, {}});
    groups[at->second].second.push_back(static_cast<int>(i));
  }
  if (groups.size() < 2) return std::string();
  return absl::StrJoin(groups, ", ", [](std::string* out, const auto& group) {
    const bool one = group.second.size() == 1;
    absl::StrAppend(out, RanksText(group.second),
                    !out->empty() ? " "
                    : one         ? " has "
                                  : " have ",
                    group.first);
  });
}

// Engines of one version differ in what was left out of a build.
absl::Status CheckFlags(const std::vector<RankRecord>& records) {
  const uint32_t missing = MissingFlags(records);
  const std::string features =
      Differences(records, [missing](const RankRecord& record) {
        const auto found =
            FeaturesOf(static_cast<uint32_t>(record.flags) & missing);
        return found.empty() ? "none" : absl::StrJoin(found, " ");
      });
  if (features.empty() || records[0].allow_mixed_versions != 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "of the features ", absl::StrJoin(FeaturesOf(missing), " "), " of ",
      records[0].provider, " ", features,
      ": use one library on all ranks, or allow_mixed_versions, with which no "
      "rank has them"));
}

// Why the ranks of this engine cannot share a device, and which ones can; empty
// if they can.
std::string WhyNotShared(const RankRecord& record) {
  if ((record.flags & DEVRT_COLLECTIVES_SHARED_DEVICE) != 0) return "";
  return absl::StrCat(
      record.provider, " ", record.version, " cannot share one: ",
      record.provider == "nccl" ? "nccl can from 2.30, and " : "",
      "provider \"mpi\" can");
}

absl::Status CheckDevices(const std::vector<RankRecord>& records) {
  std::map<std::pair<std::string, std::string>, size_t> owners;
  for (size_t i = 0; i < records.size(); ++i) {
    const RankRecord& record = records[i];
    const auto [owner, is_new] =
        owners.try_emplace({record.host, record.uuid}, i);
    if (is_new) continue;
    const std::string both = absl::StrCat("ranks ", owner->second, " and ", i,
                                          " both have ", record.device);
    const std::string why = WhyNotShared(record);
    if (record.shared_device == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(both, " (", record.uuid, "): ", record.provider,
                       " needs a device for each rank; for tests take "
                       "Options::shared_device",
                       why.empty() ? "" : absl::StrCat(", but ", why)));
    }
    if (!why.empty()) {
      return absl::UnimplementedError(absl::StrCat(both, ", and ", why));
    }
  }
  return absl::OkStatus();
}

// The record of rank `i` among those of all ranks.
absl::StatusOr<RankRecord> ParseRecord(const std::vector<std::string>& parts,
                                       size_t i) {
  const std::string_view bytes = parts[i];
  BytesReader in(bytes);
  const uint64_t magic = in.Number();
  const uint64_t protocol = in.Number();
  if (in.ok() && magic == kMagic && protocol != kProtocol) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", i, " has protocol ", protocol, " and this rank ",
                     kProtocol, ": use one version of devrt on all ranks"));
  }
  RankRecord record;
  ForEachField(record, [&in](auto& field) {
    if constexpr (std::is_same_v<std::decay_t<decltype(field)>, std::string>) {
      field = in.Text();
    } else {
      field = in.Number();
    }
  });
  in.Number();  // the checksum
  if (!in.AtEnd() || magic != kMagic || !Unseal(bytes).has_value()) {
    return absl::DataLossError(absl::StrCat(
        "the bootstrap returned ", bytes.size(), " bytes for rank ", i,
        " that this version of devrt has not written there"));
  }
  if (record.rank != i || record.size != parts.size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the bytes of rank ", i, " of ", parts.size(), " are of rank ",
        record.rank, " of ", record.size,
        ": each rank needs a number of its own, and all the same size"));
  }
  return record;
}

// OK if the rank can take part.
absl::Status CheckError(const RankRecord& record) {
  if (record.error.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("rank ", record.rank, " cannot take part: ", record.error));
}

}  // namespace

std::string ToBytes(const RankRecord& record) {
  BytesWriter out;
  out.Number(kMagic);
  out.Number(kProtocol);
  ForEachField(record, [&out](const auto& field) {
    if constexpr (std::is_same_v<std::decay_t<decltype(field)>, std::string>) {
      out.Text(field);
    } else {
      out.Number(field);
    }
  });
  return Seal(out.bytes());
}

absl::StatusOr<std::vector<RankRecord>> ParseRecords(
    const std::vector<std::string>& parts, int size) {
  DEVRT_RETURN_IF_ERROR(CheckParts(parts.size(), size));
  std::vector<RankRecord> records(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    DEVRT_ASSIGN_OR_RETURN(records[i], ParseRecord(parts, i));
  }
  return records;
}

absl::Status CheckAgreement(const std::vector<std::string>& parts, int rank,
                            int size, uint64_t seen) {
  DEVRT_RETURN_IF_ERROR(CheckParts(parts.size(), size));
  // Why a rank gave up goes before what the ranks behind it have not sent.
  for (size_t i = 0; i < parts.size(); ++i) {
    const absl::StatusOr<RankRecord> record = ParseRecord(parts, i);
    if (record.ok()) DEVRT_RETURN_IF_ERROR(CheckError(*record));
  }
  DEVRT_ASSIGN_OR_RETURN(const std::vector<RankRecord> records,
                         ParseRecords(parts, size));
  for (const RankRecord& record : records) {
    if (record.seen == seen) continue;
    const bool is_own = record.rank == static_cast<uint64_t>(rank);
    return absl::DataLossError(absl::StrCat(
        is_own ? "this rank, rank " : "rank ", record.rank,
        is_own ? ", got other bytes than it gave"
               : " got other bytes than this rank",
        ": the bootstrap must give all ranks the same bytes, and none of "
        "another exchange"));
  }
  return absl::OkStatus();
}

uint64_t SumOf(const std::vector<std::string>& parts) {
  BytesWriter all;
  for (const std::string& part : parts) all.Text(part);
  return Checksum(all.bytes());
}

uint32_t MissingFlags(const std::vector<RankRecord>& records) {
  // The order of a device concerns no other rank.
  constexpr uint64_t kOwn = DEVRT_COLLECTIVES_KEEPS_ORDER;
  uint64_t any = 0;
  uint64_t all = ~uint64_t{0};
  for (const RankRecord& record : records) {
    any |= record.flags;
    all &= record.flags;
  }
  return static_cast<uint32_t>(any & ~all & ~kOwn);
}

absl::Status CheckErrors(const std::vector<RankRecord>& records) {
  for (const RankRecord& record : records) {
    DEVRT_RETURN_IF_ERROR(CheckError(record));
  }
  return absl::OkStatus();
}

absl::Status CheckRecords(const std::vector<RankRecord>& records) {
  DEVRT_RETURN_IF_ERROR(CheckErrors(records));
  const bool mixed = records[0].allow_mixed_versions != 0;
  const std::string engines =
      Differences(records, [mixed](const RankRecord& record) {
        return mixed ? record.provider
                     : absl::StrCat(record.provider, " ",
                                    MajorMinor(record.version));
      });
  if (!engines.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        engines, ": ranks need one engine and version (Options::provider",
        mixed ? ")" : ", allow_mixed_versions)"));
  }
  DEVRT_RETURN_IF_ERROR(CheckFlags(records));
  const std::string options =
      Differences(records, [](const RankRecord& record) {
        return absl::StrCat(
            "name=\"", record.name, "\" shared_device=", record.shared_device,
            " allow_mixed_versions=", record.allow_mixed_versions,
            " check_signatures=", record.check_signatures);
      });
  if (!options.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(options, ": all ranks take equal options"));
  }
  if (records[0].unique_id.empty()) {
    return absl::DataLossError("rank 0 gave no id of the communicator");
  }
  return CheckDevices(records);
}

}  // namespace devrt::collectives::internal
