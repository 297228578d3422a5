// SPDX-License-Identifier: Apache-2.0
//
// Report of recorder.h, and CompareRanks.

#include "collectives/recorder/report.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "collectives/bootstrap/rank_lists.h"
#include "collectives/recorder/ring.h"
#include "devrt/collectives/recorder.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives {
namespace {

using internal::CallRecord;
using internal::RingHeader;

constexpr uint64_t kBytes =
    internal::kRecordsOffset + internal::kRecords * sizeof(CallRecord);

// `text` with escapes for what would steer a terminal.
std::string Printable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t next = i + 1 < text.size() ? text[i + 1] : 0;
    // In UTF-8, U+0080 to U+009F.
    const bool is_long = byte == 0xc2 && next >= 0x80 && next < 0xa0;
    if (byte >= 0x20 && byte != 0x7f && !is_long) {
      out.push_back(text[i]);
      continue;
    }
    absl::StrAppend(&out, "\\x", absl::Hex(byte, absl::kZeroPad2));
    if (is_long) absl::StrAppend(&out, "\\x", absl::Hex(next));
    i += is_long;
  }
  return out;
}

// Returns true if the process that made the file has ended, without having left
// in good order or having said why it failed.
bool IsGone(int fd, const RingHeader& header) {
  if (header.failed.load(std::memory_order_acquire) != 0 ||
      header.left.load(std::memory_order_acquire) != 0 || header.host == 0 ||
      header.host != internal::HostNumber()) {
    return false;
  }
  return flock(fd, LOCK_SH | LOCK_NB) == 0;  // until fd is closed
}

// Reads all of a regular file of kBytes bytes, into memory of the caller: the
// file may change, or become shorter, at any time.
absl::Status ReadFile(const std::string& path, std::vector<char>* bytes,
                      bool* is_gone) {
  // Without O_NONBLOCK, open waits for the writer of a FIFO.
  const int fd =
      open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat info;
  if (fd < 0 || fstat(fd, &info) != 0) {
    const absl::Status status = absl::ErrnoToStatus(errno, "cannot be read");
    if (fd >= 0) close(fd);
    return status;
  }
  if (!S_ISREG(info.st_mode)) {
    close(fd);
    return absl::DataLossError("is no regular file");
  }
  uint64_t have = 0;
  bytes->resize(kBytes);
  while (have < kBytes) {
    const ssize_t got = pread(fd, bytes->data() + have, kBytes - have,
                              static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<uint64_t>(got);
  }
  *is_gone = have == kBytes &&
             IsGone(fd, *reinterpret_cast<const RingHeader*>(bytes->data()));
  close(fd);
  if (have == kBytes && static_cast<uint64_t>(info.st_size) == kBytes) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      "has ", have < kBytes ? have : static_cast<uint64_t>(info.st_size),
      " bytes, not ", kBytes));
}

// The records of one rank, as they were when the file was read.
class RankFile {
 public:
  // `buffer` is memory for the file, used again for the next one.
  static absl::StatusOr<std::unique_ptr<RankFile>> Open(
      const std::string& path, std::vector<char>* buffer) {
    bool is_gone = false;
    DEVRT_RETURN_IF_ERROR(ReadFile(path, buffer, &is_gone));
    const auto& header = *reinterpret_cast<const RingHeader*>(buffer->data());
    if (std::memcmp(header.magic, internal::kRingMagic, sizeof header.magic) !=
            0 ||
        header.version != internal::kRingVersion) {
      return absl::DataLossError("is no recorder's file of this version");
    }
    if (header.size == 0 || header.size > INT32_MAX ||
        header.rank >= header.size) {
      return absl::DataLossError(
          absl::StrCat("is of rank ", header.rank, " of ", header.size));
    }
    return std::unique_ptr<RankFile>(
        new RankFile(path, buffer->data(), is_gone));
  }
  RankFile(const RankFile&) = delete;
  RankFile& operator=(const RankFile&) = delete;

  const std::string& path() const { return path_; }
  std::pair<uint64_t, uint64_t> communicator() const { return communicator_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  // The collectives that are kept: [first, last]; last is 0 if there is none.
  uint64_t first() const { return first_; }
  uint64_t last() const { return last_; }
  // nullptr if the record was not kept.
  const CallRecord* Find(uint64_t sequence) const {
    if (sequence < first_ || sequence > last_) return nullptr;
    const uint32_t index = by_sequence_[sequence - first_];
    return index == kNone ? nullptr : &records_[index];
  }
  // The newest send or recv that is not known to be complete, or nullptr.
  const CallRecord* OpenTransfer() const {
    const CallRecord* newest = nullptr;
    for (const CallRecord& record : records_) {
      if (record.sequence != 0 || record.end_ns != 0) continue;
      if (newest == nullptr || record.number > newest->number) {
        newest = &record;
      }
    }
    return newest;
  }
  const std::string& Label() const { return label_; }
  const std::string& Failure() const { return failure_; }
  bool is_gone() const { return is_gone_; }
  // The last call that was recorded, or nullptr.
  const CallRecord* Newest() const {
    const auto newest = std::max_element(
        records_.begin(), records_.end(),
        [](const auto& a, const auto& b) { return a.number < b.number; });
    return newest == records_.end() ? nullptr : &*newest;
  }
  std::string Site(const CallRecord& record) const {
    if (record.file == 0 || record.file > names_.size()) return "";
    const char* const name = names_.data() + record.file - 1;
    const size_t room = names_.size() - (record.file - 1);
    return absl::StrCat(" ",
                        Printable(std::string_view(name, strnlen(name, room))),
                        ":", record.line);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Copies what the report needs: most files are mostly empty.
  RankFile(const std::string& path, const char* bytes, bool is_gone)
      : path_(path), is_gone_(is_gone) {
    const auto& header = *reinterpret_cast<const RingHeader*>(bytes);
    communicator_ = {header.id, header.key};
    rank_ = static_cast<int>(header.rank);
    size_ = static_cast<int>(header.size);
    label_ = Text(header.label);
    if (header.failed.load(std::memory_order_relaxed) != 0) {
      failure_ = Text(header.failure);
    }
    const uint64_t used =
        std::min(header.names_used.load(std::memory_order_relaxed),
                 internal::kNamesBytes);
    names_.assign(bytes + internal::kNamesOffset, used);
    const auto* const records =
        reinterpret_cast<const CallRecord*>(bytes + internal::kRecordsOffset);
    const auto is_there = [](const CallRecord& record) {
      return record.number != 0 && record.sequence <= INT64_MAX;
    };
    records_.reserve(
        std::count_if(records, records + internal::kRecords, is_there));
    std::copy_if(records, records + internal::kRecords,
                 std::back_inserter(records_), is_there);
    IndexRecords();
  }

  template <size_t kSize>
  static std::string Text(const char (&text)[kSize]) {
    return Printable(std::string_view(text, strnlen(text, kSize)));
  }

  void IndexRecords() {
    uint64_t least = UINT64_MAX;
    for (const CallRecord& record : records_) {
      if (record.sequence == 0) continue;
      least = std::min(least, record.sequence);
      last_ = std::max(last_, record.sequence);
    }
    if (last_ == 0) return;
    first_ = last_ - least < internal::kRecords
                 ? least
                 : last_ - internal::kRecords + 1;
    by_sequence_.resize(last_ - first_ + 1, kNone);
    for (size_t i = 0; i < records_.size(); ++i) {
      const uint64_t sequence = records_[i].sequence;
      if (sequence == 0 || sequence < first_) continue;
      by_sequence_[sequence - first_] = static_cast<uint32_t>(i);
    }
  }

  const std::string path_;
  const bool is_gone_;
  std::pair<uint64_t, uint64_t> communicator_;
  int rank_ = 0;
  int size_ = 0;
  std::string label_;
  std::string failure_;
  std::string names_;
  std::vector<CallRecord> records_;
  uint64_t first_ = 1;
  uint64_t last_ = 0;
  std::vector<uint32_t> by_sequence_;  // places in records_
};

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
    for (uint64_t sequence = from; sequence <= to; ++sequence) {
      const CallRecord* const expected = files_[0]->Find(sequence);
      for (const auto& file : files_) {
        const CallRecord* const record = file->Find(sequence);
        if (record == nullptr || expected == nullptr ||
            !IsAlike(*record, *expected)) {
          return At(sequence);
        }
      }
    }
    if (to == 0) return "no collective was submitted\n";
    const RankFile& file = *files_[0];
    const CallRecord* const last = file.Find(to);
    return absl::StrCat("no difference; the last is ",
                        last == nullptr ? "" : CallAt(file, *last), "\n");
  }

  // Where each rank is: at its own call of the number, or before it.
  std::string At(uint64_t sequence) const {
    Groups groups;
    for (const auto& file : files_) {
      const CallRecord* record = file->Find(sequence);
      if (record == nullptr) record = file->Find(file->last());
      groups.Add(
          record == nullptr ? "no collective yet" : CallAt(*file, *record),
          file->rank());
    }
    return absl::StrCat("they differ at ", sequence, "\n",
                        groups.Lines("is at", "are at"));
  }

  // Sends and receives have no number that ranks share, so nothing aligns them:
  // says which rank has one that is not known to be complete.
  std::string Transfers() const {
    Groups groups;
    for (const auto& file : files_) {
      const CallRecord* const record = file->OpenTransfer();
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
    return absl::NotFoundError(
        absl::StrCat(path,
                     " has no file of a recorder: the program must run with "
                     "DEVRT_COLLECTIVES_RECORD=",
                     path));
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
  std::vector<std::string> lines =
      absl::StrSplit(comparison.Findings(), '\n', absl::SkipEmpty());
  for (std::string& line : lines) absl::StripAsciiWhitespace(&line);
  return absl::StrJoin(lines, "; ");
}

}  // namespace devrt::collectives
