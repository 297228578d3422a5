// SPDX-License-Identifier: Apache-2.0
//
// The files of FromFile's folder: their contents and their names.  The protocol
// stands in from_file.cc.

#ifndef DEVRT_COLLECTIVES_BOOTSTRAP_FOLDER_FILES_H_
#define DEVRT_COLLECTIVES_BOOTSTRAP_FOLDER_FILES_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "collectives/bootstrap/bytes.h"

namespace devrt::collectives::internal {

inline constexpr uint64_t kFileMagic = 0x33305342564544;  // "DEVBS03"
inline constexpr char kLast[] = "last";

// What a file of the folder says.
struct FileRecord {
  std::string job;
  uint64_t size = 0;
  uint64_t rank = 0;
  uint64_t round = 0;    // 0: a claim
  uint64_t claim = 0;    // the random number of the writer's claim
  uint64_t gave_up = 0;  // 1: nobody shall wait for other ranks
  std::string payload;
};

inline std::string ToBytes(const FileRecord& record) {
  BytesWriter out;
  out.Number(kFileMagic);
  out.Text(record.job);
  out.Number(record.size);
  out.Number(record.rank);
  out.Number(record.round);
  out.Number(record.claim);
  out.Number(record.gave_up);
  out.Text(record.payload);
  return Seal(out.bytes());
}

// nullopt for bytes that are damaged.
inline std::optional<FileRecord> FromBytes(std::string_view sealed) {
  const std::optional<std::string_view> bytes = Unseal(sealed);
  if (!bytes.has_value()) return std::nullopt;
  BytesReader in(*bytes);
  FileRecord record;
  const uint64_t magic = in.Number();
  record.job = in.Text();
  record.size = in.Number();
  record.rank = in.Number();
  record.round = in.Number();
  record.claim = in.Number();
  record.gave_up = in.Number();
  record.payload = in.Text();
  if (!in.AtEnd() || magic != kFileMagic) {
    return std::nullopt;
  }
  return record;
}

// The names in the folder that a bootstrap made.
struct Listing {
  std::vector<std::string>
      exchanges;                 // and what ranks have put; drafts of both
  std::vector<uint64_t> ends;    // ranks
  std::vector<uint64_t> claims;  // ranks
  bool has_last = false;

  void Add(std::string_view name) {
    if (name == kLast) {
      has_last = true;
      return;
    }
    const std::vector<std::string> parts =
        absl::StrSplit(absl::string_view(name.data(), name.size()), '.');
    uint64_t first = 0;
    uint64_t rank = 0;
    if (parts.size() < 2 || !absl::SimpleAtoi(parts.back(), &rank)) return;
    if (parts.size() == 2 && parts[0] == "claim") {
      claims.push_back(rank);
    } else if (parts.size() == 2 && parts[0] == "end") {
      ends.push_back(rank);
    } else if ((absl::SimpleAtoi(parts[parts.size() - 2], &first) &&
                (parts.size() == 2 ||
                 (parts.size() == 3 && parts[0] == "draft"))) ||
               parts[0] == "put" ||
               (parts[0] == "draft" && parts[1] == "put")) {
      exchanges.emplace_back(name);
    }
  }
  // Returns true if an attempt has been here, and none of its ranks is left.
  bool AllEnded() {
    std::sort(ends.begin(), ends.end());
    std::sort(claims.begin(), claims.end());
    return !ends.empty() && std::includes(ends.begin(), ends.end(),
                                          claims.begin(), claims.end());
  }
};

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_BOOTSTRAP_FOLDER_FILES_H_
