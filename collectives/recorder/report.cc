// SPDX-License-Identifier: Apache-2.0
//
// Report of recorder.h, and CompareRanks.

#include "collectives/recorder/report.h"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "collectives/bootstrap/rank_lists.h"
#include "collectives/recorder/rank_file.h"
#include "collectives/recorder/ring.h"
#include "devrt/collectives/recorder.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives {
namespace {

using internal::CallRecord;
using internal::Printable;
using internal::RankFile;

bool IsAlike(const CallRecord& a, const CallRecord& b) {
  return a.op == b.op && a.dtype == b.dtype && a.count == b.count &&
         a.reduction == b.reduction && a.root_or_peer == b.root_or_peer;
}

std::string CallOf(const RankFile& file, const CallRecord& record) {
  return absl::StrCat(internal::CallText(record.op, record.dtype, record.count,
                                         record.reduction, record.root_or_peer),
                      file.Site(record));
}

std::string CallAt(const RankFile& file, const CallRecord& record) {
  return absl::StrCat(record.sequence, " ", CallOf(file, record));
}

// Texts, and which ranks have each.
class Groups {
 public:
  void Add(const std::string& text, int rank) {
    const auto [at, is_new] = known_.try_emplace(text, groups_.size());
    if (is_new) groups_.push_back({text, {}});
    groups_[at->second].second.push_back(rank);
  }
  // A line for each: "  rank 3 IS TEXT", "  ranks 0-2 ARE TEXT".
  std::string Lines(std::string_view is, std::string_view are) {
    // The guilty are few.
    std::stable_sort(groups_.begin(), groups_.end(),
                     [](const auto& a, const auto& b) {
                       return a.second.size() < b.second.size();
                     });
    std::string lines;
    for (const auto& [text, ranks] : groups_) {
      absl::StrAppend(&lines, "  ", internal::RanksText(ranks), " ",
                      std::string(ranks.size() == 1 ? is : are), " ", text,
                      "\n");
    }
    return lines;
  }

 private:
  std::vector<std::pair<std::string, std::vector<int>>> groups_;
  std::map<std::string, size_t> known_;
};

// One communicator.
class Comparison {
 public:
  void Add(std::unique_ptr<RankFile> file) {
    files_.push_back(std::move(file));
  }

  // Of one communicator, without its name: where the ranks differ.
  std::string Findings() {
    std::sort(files_.begin(), files_.end(), [](const auto& a, const auto& b) {
      return a->rank() < b->rank();
    });
    const std::string other_sizes = TakeOutOtherSizes();
    return absl::StrCat(Missing(), Difference(), Transfers(), Gone(),
                        other_sizes);
  }

  // Findings in one line.
  std::string Line() {
    std::vector<std::string> lines =
        absl::StrSplit(Findings(), '\n', absl::SkipEmpty());
    for (std::string& line : lines) absl::StripAsciiWhitespace(&line);
    return absl::StrJoin(lines, "; ");
  }

  std::string Text() {
    const std::string findings = Findings();
    const RankFile& first = *files_[0];
    std::string text =
        absl::StrCat("communicator ", first.Label(), ", ", first.size(),
                     first.size() == 1 ? " rank: " : " ranks: ", findings);
    for (const auto& file : files_) {
      const std::string failure = file->Failure();
      if (failure.empty()) continue;
      // The first one: the others followed.
      absl::StrAppend(&text, "  rank ", file->rank(), " says: ", failure, "\n");
      break;
    }
    return text;
  }

 private:
  // Leaves the files with the number of ranks that most of them say (of several
  // such numbers, the smallest), and names the others.
  std::string TakeOutOtherSizes() {
    std::map<int, int> counts;
    for (const auto& file : files_) ++counts[file->size()];
    const int size = std::max_element(counts.begin(), counts.end(),
                                      [](const auto& a, const auto& b) {
                                        return a.second < b.second;
                                      })
                         ->first;
    const auto others = std::stable_partition(
        files_.begin(), files_.end(),
        [size](const auto& file) { return file->size() == size; });
    std::string text;
    for (auto file = others; file != files_.end(); ++file) {
      absl::StrAppend(&text, "  ", Printable((*file)->path()), " is of rank ",
                      (*file)->rank(), " of ", (*file)->size(),
                      ": not compared\n");
    }
    files_.erase(others, files_.end());
    return text;
  }

  std::string Missing() const {
    std::vector<internal::RankRange> missing;
    int next = 0;
    for (const auto& file : files_) {
      if (file->rank() > next) missing.push_back({next, file->rank() - 1});
      next = file->rank() + 1;
    }
    const int size = files_[0]->size();
    if (next < size) missing.push_back({next, size - 1});
    if (missing.empty()) return std::string();
    const bool is_one =
        missing.size() == 1 && missing[0].first == missing[0].second;
    return absl::StrCat(internal::RangesText(missing),
                        is_one ? " has" : " have", " left no records; ");
  }

  // The first collective that not all ranks have, or that is not alike.
  std::string Difference() const {
    uint64_t from = 1;
    uint64_t to = 0;
    for (const auto& file : files_) {
      from = std::max(from, file->first());
      to = std::max(to, file->last());
    }
    const std::string behind = Behind(from);
    if (!behind.empty()) return behind;
    for (uint64_t sequence = from; sequence <= to; ++sequence) {
      if (!AreAlike(sequence)) return At(sequence);
    }
    // Ranks without records may differ.
    const bool has_all = Missing().empty();
    if (to == 0) {
      return has_all ? "no collective was submitted\n"
                     : "the others have submitted no collective\n";
    }
    const RankFile& file = *files_[0];
    const CallRecord* const last = file.Find(to);
    return absl::StrCat(
        has_all              ? "no difference; the last"
        : files_.size() == 1 ? absl::StrCat("the last of rank ", file.rank())
                             : "the others do not differ; their last",
        " is ", last == nullptr ? "" : CallAt(file, *last), "\n");
  }

  // Ranks whose last collective comes before the records of others begin, so
  // that these do not tell where they differ.  Empty if there is none.
  std::string Behind(uint64_t from) const {
    Groups groups;
    std::vector<int> beyond;
    for (const auto& file : files_) {
      if (file->first() == from) beyond.push_back(file->rank());
      if (file->last() + 1 < from) groups.Add(LastOf(*file), file->rank());
    }
    const std::string lines = groups.Lines("is at", "are at");
    if (lines.empty()) return lines;
    return absl::StrCat("the records of ", internal::RanksText(beyond),
                        " begin at ", from, "\n", lines);
  }

  // False if a rank has not come to the collective, or has another one.  A rank
  // that is beyond it may not have kept it.
  bool AreAlike(uint64_t sequence) const {
    const CallRecord* expected = nullptr;
    for (const auto& file : files_) {
      const CallRecord* const record = file->Find(sequence);
      if (record == nullptr && sequence > file->last()) return false;
      if (record == nullptr) continue;
      if (expected == nullptr) expected = record;
      if (!IsAlike(*record, *expected)) return false;
    }
    return true;
  }

  static std::string LastOf(const RankFile& file) {
    const CallRecord* const last = file.Find(file.last());
    return last == nullptr ? "no collective yet" : CallAt(file, *last);
  }

  // Where each rank is: at its own call of the number, or before it.
  std::string At(uint64_t sequence) const {
    Groups groups;
    for (const auto& file : files_) {
      const CallRecord* const record = file->Find(sequence);
      groups.Add(record == nullptr ? LastOf(*file) : CallAt(*file, *record),
                 file->rank());
    }
    return absl::StrCat("they differ at ", sequence, "\n",
                        groups.Lines("is at", "are at"));
  }

  // Sends and receives have no number that ranks share, so nothing aligns them:
  // says which rank has one that is not known to be complete.
  std::string Transfers() const {
    uint64_t met = 0;
    for (const auto& file : files_) met = std::max(met, file->LastMet());
    Groups groups;
    for (const auto& file : files_) {
      const CallRecord* const record = file->OpenTransfer(met);
      if (record != nullptr) groups.Add(CallOf(*file, *record), file->rank());
    }
    return groups.Lines("waits in", "wait in");
  }

  std::string Gone() const {
    Groups groups;
    for (const auto& file : files_) {
      if (!file->is_gone()) continue;
      const CallRecord* const last = file->Newest();
      groups.Add(last == nullptr       ? "before its first call"
                 : last->sequence == 0 ? "at " + CallOf(*file, *last)
                                       : "at " + CallAt(*file, *last),
                 file->rank());
    }
    return groups.Lines("is gone: the process ended without Finish,",
                        "are gone: the processes ended without Finish,");
  }

  std::vector<std::unique_ptr<RankFile>> files_;
};

// The recorders' files in the folder, sorted.
absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& folder) {
  DIR* const dir = opendir(folder.c_str());
  if (dir == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat(folder, " cannot be read"));
  }
  std::vector<std::string> names;
  while (const dirent* const entry = readdir(dir)) {
    if (absl::EndsWith(entry->d_name, ".dvcl")) names.push_back(entry->d_name);
  }
  closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

absl::StatusOr<std::string> Report(std::string_view folder) {
  const std::string path(folder);
  DEVRT_ASSIGN_OR_RETURN(const std::vector<std::string> names, FilesOf(path));
  std::map<std::pair<uint64_t, uint64_t>, Comparison> communicators;
  std::string damaged;
  std::vector<char> buffer;
  for (const std::string& name : names) {
    absl::StatusOr<std::unique_ptr<RankFile>> file =
        RankFile::Open(absl::StrCat(path, "/", name), &buffer);
    if (!file.ok()) {
      absl::StrAppend(&damaged, Printable(absl::StrCat(path, "/", name)), " ",
                      file.status().message(), "\n");
      continue;
    }
    communicators[(*file)->communicator()].Add(*std::move(file));
  }
  if (names.empty()) {
    std::error_code error;  // then the path is empty
    return absl::NotFoundError(
        absl::StrCat(path,
                     " has no file of a recorder: the program must run with "
                     "DEVRT_COLLECTIVES_RECORD=",
                     std::filesystem::absolute(path, error).string()));
  }
  std::string text;
  for (auto& [id, comparison] : communicators) {
    absl::StrAppend(&text, comparison.Text());
  }
  return absl::StrCat(text, damaged);
}

absl::StatusOr<std::string> internal::CompareRanks(std::string_view folder,
                                                   uint64_t id, uint64_t key) {
  const std::string path(folder);
  DEVRT_ASSIGN_OR_RETURN(const std::vector<std::string> names, FilesOf(path));
  const std::string begin = FileBegin(key);
  Comparison comparison;
  bool has_any = false;
  std::vector<char> buffer;
  for (const std::string& name : names) {
    if (!absl::StartsWith(name, begin)) continue;
    auto file = RankFile::Open(absl::StrCat(path, "/", name), &buffer);
    if (!file.ok() || (*file)->communicator() != std::pair(id, key)) continue;
    comparison.Add(*std::move(file));
    has_any = true;
  }
  if (!has_any) return absl::NotFoundError(path);
  return comparison.Line();
}

std::string internal::CompareImages(
    const std::vector<std::optional<std::string>>& images) {
  Comparison comparison;
  std::string damaged;
  bool has_any = false;
  std::vector<char> buffer;
  for (size_t rank = 0; rank < images.size(); ++rank) {
    if (!images[rank].has_value()) continue;
    auto file =
        RankFile::FromImage(*images[rank], static_cast<int>(rank), &buffer);
    if (!file.ok()) {
      absl::StrAppend(&damaged, "; what rank ", rank, " sent ",
                      file.status().message());
      continue;
    }
    comparison.Add(*std::move(file));
    has_any = true;
  }
  return absl::StrCat(has_any ? comparison.Line() : "no rank sent its records",
                      damaged);
}

}  // namespace devrt::collectives
