// SPDX-License-Identifier: Apache-2.0

#include "collectives/recorder/rank_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "collectives/bootstrap/bytes.h"
#include "devrt/backends/abi/devrt_collectives.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives::internal {
namespace {

constexpr uint64_t kBytes = kRecordsOffset + kRecords * sizeof(CallRecord);

// Returns true if a thread, whose line of /proc is given, is ending or has
// ended.  A killed process keeps its files while its devices are taken from it,
// which takes seconds for a GPU whose kernel waits for other ranks.
bool IsExiting(const std::string& stat) {
  constexpr uint32_t kExiting = 4;  // PF_EXITING, of the flags (proc(5))
  constexpr size_t kFlags = 6;  // behind the name, which may have parentheses
  const size_t name_end = stat.rfind(") ");
  if (name_end == std::string::npos) return false;
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(name_end + 2), ' ');
  uint32_t flags = 0;
  return fields.size() > kFlags && absl::SimpleAtoi(fields[kFlags], &flags) &&
         (flags & kExiting) != 0;
}

// Returns true if all threads of the record's process are ending or have ended.
// The first thread may end before the others.  False where nobody can tell: on
// another machine, in another PID namespace, and where /proc does not show the
// process.
bool HasEnded(const RingHeader& header) {
  if (header.pid_namespace == 0 || header.host != HostNumber() ||
      header.pid_namespace != NamespaceNumber()) {
    return false;
  }
  if (kill(static_cast<pid_t>(header.pid), 0) != 0 && errno == ESRCH) {
    return true;
  }
  std::error_code error;
  std::filesystem::directory_iterator threads(
      absl::StrCat("/proc/", header.pid, "/task"), error);
  bool any = false;
  while (!error && threads != std::filesystem::directory_iterator()) {
    std::ifstream file(threads->path() / "stat");
    std::string stat;
    if (!std::getline(file, stat) || !IsExiting(stat)) return false;
    any = true;
    threads.increment(error);
  }
  return any && !error;
}

// Returns true if the process of a recorder's file does not have it any more:
// what is read from now on is final.  A file that is being made has no magic
// yet, and no lock.  A forked child of the process holds the lock, too.
bool HasNoOwner(int fd) {
  RingHeader header;
  return pread(fd, static_cast<void*>(&header), sizeof header, 0) ==
             sizeof header &&
         std::memcmp(header.magic, kRingMagic, sizeof header.magic) == 0 &&
         (flock(fd, LOCK_SH | LOCK_NB) == 0 ||  // until fd is closed
          HasEnded(header));
}

// Returns true if the rank has neither left in good order nor said why it
// failed, where its lock tells something.
bool IsLost(const RingHeader& header) {
  return header.failed.load(std::memory_order_acquire) == 0 &&
         header.left.load(std::memory_order_acquire) == 0 && header.host != 0 &&
         header.host == HostNumber();
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
  const bool has_no_owner = HasNoOwner(fd);
  bytes->resize(kBytes);
  while (have < kBytes) {
    const ssize_t got = pread(fd, bytes->data() + have, kBytes - have,
                              static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += static_cast<uint64_t>(got);
  }
  *is_gone = has_no_owner && have == kBytes &&
             IsLost(*reinterpret_cast<const RingHeader*>(bytes->data()));
  close(fd);
  if (have == kBytes && static_cast<uint64_t>(info.st_size) == kBytes) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      "has ", have < kBytes ? have : static_cast<uint64_t>(info.st_size),
      " bytes, not ", kBytes));
}

absl::Status CheckHeader(const std::vector<char>& bytes) {
  const auto& header = *reinterpret_cast<const RingHeader*>(bytes.data());
  if (std::memcmp(header.magic, kRingMagic, sizeof header.magic) != 0 ||
      header.version != kRingVersion) {
    return absl::DataLossError("is no recorder's file of this version");
  }
  if (header.size == 0 || header.size > INT32_MAX ||
      header.rank >= header.size) {
    return absl::DataLossError(
        absl::StrCat("is of rank ", header.rank, " of ", header.size));
  }
  return absl::OkStatus();
}

}  // namespace

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

absl::StatusOr<std::unique_ptr<RankFile>> RankFile::FromImage(
    std::string_view image, int rank, std::vector<char>* buffer) {
  const std::optional<std::string_view> bytes = Unseal(image);
  if (!bytes.has_value()) {
    return absl::DataLossError("is damaged, or no image of a recorder");
  }
  BytesReader in(*bytes);
  const std::string header = in.Text();
  const std::string names = in.Text();
  const uint64_t count = in.Number();
  if (!in.ok() || header.size() != sizeof(RingHeader) ||
      names.size() > kNamesBytes || count > kRecords) {
    return absl::DataLossError("is no image of a recorder");
  }
  buffer->assign(kBytes, '\0');
  std::memcpy(buffer->data(), header.data(), header.size());
  std::memcpy(buffer->data() + kNamesOffset, names.data(), names.size());
  for (uint64_t i = 0; i < count; ++i) {
    const std::string record = in.Text();
    if (record.size() != sizeof(CallRecord)) {
      return absl::DataLossError("has a record of another size");
    }
    std::memcpy(buffer->data() + kRecordsOffset + i * sizeof(CallRecord),
                record.data(), record.size());
  }
  DEVRT_RETURN_IF_ERROR(CheckHeader(*buffer));
  std::unique_ptr<RankFile> file(
      new RankFile("", buffer->data(), /*is_gone=*/false));
  if (!in.AtEnd() || file->rank() != rank) {
    return absl::DataLossError(
        absl::StrCat("is of rank ", file->rank(), ", not ", rank));
  }
  return file;
}

absl::StatusOr<std::unique_ptr<RankFile>> RankFile::Open(
    const std::string& path, std::vector<char>* buffer) {
  bool is_gone = false;
  DEVRT_RETURN_IF_ERROR(ReadFile(path, buffer, &is_gone));
  DEVRT_RETURN_IF_ERROR(CheckHeader(*buffer));
  return std::unique_ptr<RankFile>(new RankFile(path, buffer->data(), is_gone));
}

const CallRecord* RankFile::Find(uint64_t sequence) const {
  if (sequence < first_ || sequence > last_) return nullptr;
  const uint32_t index = by_sequence_[sequence - first_];
  return index == kNone ? nullptr : &records_[index];
}

uint64_t RankFile::LastMet() const {
  uint64_t last = 0;
  for (const CallRecord& record : records_) {
    const bool needs_all = record.op == DEVRT_COLLECTIVE_ALL_REDUCE ||
                           record.op == DEVRT_COLLECTIVE_ALL_GATHER ||
                           record.op == DEVRT_COLLECTIVE_REDUCE_SCATTER ||
                           record.op == DEVRT_COLLECTIVE_ALL_TO_ALL;
    if (needs_all && record.count != 0 && record.end_ns != 0) {
      last = std::max(last, record.sequence);
    }
  }
  return last;
}

const CallRecord* RankFile::OpenTransfer(uint64_t met) const {
  // By stream, the newest submission that has begun.
  std::map<uint64_t, uint64_t> begun_ns;
  for (const CallRecord& record : records_) {
    const bool has_met = record.sequence != 0 && record.sequence <= met;
    if (record.end_ns == 0 && !has_met) continue;
    uint64_t& newest = begun_ns[record.stream];
    newest = std::max(newest, record.submit_ns);
  }
  const CallRecord* newest = nullptr;
  for (const CallRecord& record : records_) {
    if (record.sequence != 0 || record.end_ns != 0) continue;
    // Calls of one submission have one time.
    const auto begun = begun_ns.find(record.stream);
    if (begun != begun_ns.end() && record.submit_ns < begun->second) continue;
    if (newest == nullptr || record.number > newest->number) {
      newest = &record;
    }
  }
  return newest;
}

const CallRecord* RankFile::Newest() const {
  const auto newest = std::max_element(
      records_.begin(), records_.end(),
      [](const auto& a, const auto& b) { return a.number < b.number; });
  return newest == records_.end() ? nullptr : &*newest;
}

std::string RankFile::Site(const CallRecord& record) const {
  if (record.file == 0 || record.file > names_.size()) return "";
  const char* const name = names_.data() + record.file - 1;
  const size_t room = names_.size() - (record.file - 1);
  return absl::StrCat(" ",
                      Printable(std::string_view(name, strnlen(name, room))),
                      ":", record.line);
}

RankFile::RankFile(const std::string& path, const char* bytes, bool is_gone)
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
      std::min(header.names_used.load(std::memory_order_relaxed), kNamesBytes);
  names_.assign(bytes + kNamesOffset, used);
  const auto* const records =
      reinterpret_cast<const CallRecord*>(bytes + kRecordsOffset);
  const auto is_there = [](const CallRecord& record) {
    return record.number != 0 && record.sequence <= INT64_MAX;
  };
  records_.reserve(std::count_if(records, records + kRecords, is_there));
  std::copy_if(records, records + kRecords, std::back_inserter(records_),
               is_there);
  IndexRecords();
}

void RankFile::IndexRecords() {
  uint64_t least = UINT64_MAX;
  for (const CallRecord& record : records_) {
    if (record.sequence == 0) continue;
    least = std::min(least, record.sequence);
    last_ = std::max(last_, record.sequence);
  }
  if (last_ == 0) return;
  first_ = last_ - least < kRecords ? least : last_ - kRecords + 1;
  by_sequence_.resize(last_ - first_ + 1, kNone);
  for (size_t i = 0; i < records_.size(); ++i) {
    const uint64_t sequence = records_[i].sequence;
    if (sequence == 0 || sequence < first_) continue;
    by_sequence_[sequence - first_] = static_cast<uint32_t>(i);
  }
}

}  // namespace devrt::collectives::internal
