// SPDX-License-Identifier: Apache-2.0

#include "collectives/recorder/ring.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/bootstrap/bytes.h"
#include "devrt/arrays/dtype.h"
#include "devrt/collectives/operation.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives::internal {
namespace {

constexpr uint64_t kBytes = kRecordsOffset + kRecords * sizeof(CallRecord);

bool HasReduction(uint32_t op) {
  return op == DEVRT_COLLECTIVE_ALL_REDUCE || op == DEVRT_COLLECTIVE_REDUCE ||
         op == DEVRT_COLLECTIVE_REDUCE_SCATTER;
}

// The word before the root or the peer; nullptr if there is none.
const char* RootWord(uint32_t op) {
  switch (op) {
    case DEVRT_COLLECTIVE_REDUCE:
    case DEVRT_COLLECTIVE_BROADCAST:
    case DEVRT_COLLECTIVE_GATHER:
    case DEVRT_COLLECTIVE_SCATTER:
      return "root ";
    case DEVRT_COLLECTIVE_SEND:
      return "to ";
    case DEVRT_COLLECTIVE_RECV:
      return "from ";
    default:
      return nullptr;
  }
}

void CopyText(std::string_view text, char* to, size_t room) {
  const size_t bytes = std::min(text.size(), room - 1);
  std::memcpy(to, text.data(), bytes);
  to[bytes] = '\0';
}

// Returns an errno.
int Allocate(int fd) {
  int error;
  do {
    error = posix_fallocate(fd, 0, kBytes);
  } while (error == EINTR);
  return error;
}

}  // namespace

std::string CallText(uint32_t op, uint32_t dtype, uint64_t count,
                     uint32_t reduction, int32_t root_or_peer) {
  const absl::StatusOr<DType> type = DType::FromDLPack(
      static_cast<uint8_t>(dtype >> 8), static_cast<uint8_t>(dtype & 0xff));
  std::string text = absl::StrCat(ToString(static_cast<OpKind>(op)), "(",
                                  type.ok() ? type->name() : "?", " x ", count);
  if (HasReduction(op)) {
    absl::StrAppend(&text, ", ", ToString(static_cast<Reduction>(reduction)));
  }
  if (const char* const word = RootWord(op)) {
    absl::StrAppend(&text, ", ", word, root_or_peer);
  }
  return absl::StrCat(text, ")");
}

std::string FileBegin(uint64_t key) {
  return absl::StrCat(absl::Hex(key), ".");
}

uint64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(now.tv_nsec);
}

uint64_t HostNumber() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  return std::getline(file, boot) ? std::hash<std::string>()(boot) : 0;
}

uint64_t NamespaceNumber() {
  struct stat info;
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

absl::StatusOr<std::unique_ptr<Ring>> Ring::Make(const Identity& identity,
                                                 std::string_view folder) {
  int fd = -1;
  std::string path;
  if (!folder.empty()) {
    path = absl::StrCat(std::string(folder), "/", FileBegin(identity.key),
                        identity.rank, ".", getpid(), ".dvcl");
    fd = open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC,
              0600);
    // All of its room now: a store into a page that the disk has no room for
    // would be a SIGBUS.
    const int error = fd < 0 ? errno : Allocate(fd);
    if (error != 0) {
      if (fd >= 0) {
        close(fd);
        unlink(path.c_str());
      }
      return absl::ErrnoToStatus(
          error, absl::StrCat("DEVRT_COLLECTIVES_RECORD: ", path, ", of ",
                              kBytes, " bytes, cannot be made"));
    }
  }
  void* const base = mmap(
      nullptr, kBytes, PROT_READ | PROT_WRITE,
      fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    if (fd >= 0) {
      close(fd);
      unlink(path.c_str());
    }
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for the ", kBytes, " bytes of a recorder"));
  }
  std::unique_ptr<Ring> ring(new Ring(static_cast<char*>(base), fd, path));
  RingHeader* const header = ring->header();
  header->version = kRingVersion;
  header->pid = static_cast<uint32_t>(getpid());
  header->pid_namespace = NamespaceNumber();
  header->key = identity.key;
  header->id = identity.id;
  header->rank = identity.rank;
  header->size = identity.size;
  CopyText(identity.label, header->label, sizeof header->label);
  // Without the number no reader looks at the lock.
  if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
    header->host = HostNumber();
  }
  std::memcpy(header->magic, kRingMagic, sizeof kRingMagic);
  return ring;
}

Ring::~Ring() {
  // Not in a forked child, whose parent goes on.
  if (header()->pid == static_cast<uint32_t>(getpid())) Leave();
  munmap(base_, kBytes);
  if (fd_ >= 0) close(fd_);
}

void Ring::Discard() {
  if (fd_ < 0 || header()->pid != static_cast<uint32_t>(getpid())) return;
  unlink(path_.c_str());
}

void Ring::Withdraw() {
  const uint64_t number = header()->written.load(std::memory_order_relaxed);
  CallRecord* const record = At(number);
  record->number = 0;
  std::atomic_thread_fence(std::memory_order_release);
  record->sequence = 0;
  header()->written.store(number - 1, std::memory_order_release);
}

void Ring::End(uint64_t number) {
  CallRecord* const record = At(number);
  if (record->number == number && record->end_ns == 0) {
    record->end_ns = NowNs();
  }
}

void Ring::Fail(std::string_view why) {
  CopyText(why, header()->failure, sizeof header()->failure);
  header()->failed.store(1, std::memory_order_release);
}

void Ring::Leave() { header()->left.store(1, std::memory_order_release); }

const CallRecord* Ring::Find(uint64_t number) const {
  if (number == 0 || number > written()) return nullptr;
  const CallRecord* const record = At(number);
  return record->number == number ? record : nullptr;
}

const char* Ring::Name(uint32_t name) const {
  if (name == 0 || name > kNamesBytes) return "";
  return base_ + kNamesOffset + (name - 1);
}

std::string Ring::Image(uint64_t from, uint64_t most, uint64_t newest) const {
  BytesWriter out;
  out.Text({base_, sizeof(RingHeader)});
  out.Text({base_ + kNamesOffset,
            header()->names_used.load(std::memory_order_relaxed)});
  const uint64_t last = written();
  const uint64_t count = std::min({last, most, kRecords});
  const uint64_t begin = last - count + 1;
  // The records of older calls have been written over.
  if (from != 0 && last >= kRecords) from = std::max(from, last - kRecords + 1);
  const bool has_gap = from != 0 && from < begin;
  out.Number(count);
  const auto add = [this, &out](uint64_t first, uint64_t end) {
    for (uint64_t number = first; number < end; ++number) {
      out.Text({reinterpret_cast<const char*>(At(number)), sizeof(CallRecord)});
    }
  };
  if (has_gap) add(from, from + count - newest);
  add(has_gap ? last + 1 - newest : begin, last + 1);
  return Seal(out.bytes());
}

uint32_t Ring::NameOf(const char* text) {
  if (text == nullptr) return 0;  // the place of the call is unknown
  const auto [found, is_new] = names_.try_emplace(text, 0);
  last_name_ = *found;
  if (!is_new) return found->second;
  const uint64_t used = header()->names_used.load(std::memory_order_relaxed);
  const size_t bytes = std::strlen(text) + 1;
  // The last byte stays 0, so that each name ends.
  if (used + bytes > kNamesBytes) return 0;
  std::memcpy(base_ + kNamesOffset + used, text, bytes);
  header()->names_used.store(used + bytes, std::memory_order_release);
  found->second = static_cast<uint32_t>(used + 1);
  last_name_ = *found;
  return found->second;
}

}  // namespace devrt::collectives::internal
