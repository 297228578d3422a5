// SPDX-License-Identifier: Apache-2.0
//
// FromFile of bootstrap.h.  Files of the folder:
//
//   claim.RANK        made by FromFile: the rank is taken, and by which job
//   ROUND.RANK        what the rank gave in an exchange
//   put.NAME.RANK     what the rank has put under a name
//   draft.*           one of these, before all of it is written
//   end.RANK          the rank's bootstrap has ended
//   last              somebody removes the files
//
// A file of an exchange gets its name when all of it is written, so that a
// reader finds all of it.  A rank removes its file of an exchange when the next
// one is complete, because then all ranks have read it.
//
// Two attempts in one folder never mix:
//   - The files of an attempt are removed when each rank that has a claim has
//     an end too.  Whoever sees that makes `last`, which only one can make,
//     lists the folder again, and removes what the list has: the claims after
//     all else, and then `last`.
//   - FromFile takes no rank while there is `last` or an end: it makes its
//     claim, looks for them, and takes the claim back if it finds one.  So the
//     remover sees the claim, or the claimant sees `last`.
//   - Each claim has a random number, and each file of an exchange has that of
//     its writer's claim.  A reader takes a file with another number for one
//     that is not there yet: somebody has removed the claims by hand.

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "collectives/bootstrap/folder_files.h"
#include "collectives/bootstrap/rank_lists.h"
#include "devrt/collectives/bootstrap.h"
#include "devrt/runtime/mutex.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives {
namespace {

using internal::FileRecord;
using internal::kLast;
using internal::Listing;

constexpr size_t kLongestJob = 200;
constexpr off_t kLargestFile = 16 << 20;
// How long a rank waits for others to end, or for a removal.
constexpr absl::Duration kRemoval = absl::Seconds(1);
constexpr absl::Duration kRemovalPause = absl::Milliseconds(1);
constexpr absl::Duration kGetPause = absl::Milliseconds(10);

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&&) = delete;
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

absl::Status SystemError(const std::string& path, const char* what) {
  return absl::ErrnoToStatus(errno, absl::StrCat(path, ": ", what));
}

uint64_t RandomNumber() {
  std::random_device source;
  return static_cast<uint64_t>(source()) << 32 | source();
}

// The folder, which is the user's alone.
absl::StatusOr<Fd> OpenFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return SystemError(path, "the bootstrap's folder cannot be made");
  }
  Fd fd(open(path.c_str(), O_DIRECTORY | O_NOFOLLOW | O_RDONLY | O_CLOEXEC));
  if (!fd.ok()) {
    if (errno == ELOOP || errno == ENOTDIR) {
      return absl::PermissionDeniedError(absl::StrCat(
          path, " is a link or no folder: give the bootstrap a folder itself"));
    }
    return SystemError(path, "the bootstrap's folder cannot be opened");
  }
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return SystemError(path, "fstat");
  if (info.st_uid != geteuid()) {
    return absl::PermissionDeniedError(absl::StrCat(
        path, " belongs to user ", info.st_uid, " and not to ", geteuid(),
        ": whoever writes there can join the job; give a folder of your own"));
  }
  if ((info.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, " is open to others: chmod 700 ", path));
  }
  return fd;
}

class FileBootstrap final : public Bootstrap {
 public:
  FileBootstrap(std::string path, Fd folder, int rank, int size,
                std::string job)
      : path_(std::move(path)),
        folder_(std::move(folder)),
        rank_(rank),
        size_(size),
        job_(std::move(job)),
        claims_(size) {}
  ~FileBootstrap() override {
    // In a forked child the rank is the parent's.
    if (claimed_ && getpid() == process_) End();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  // Takes the rank, when what an earlier attempt left is removed.
  absl::Status Claim() {
    const absl::Time deadline = absl::Now() + kRemoval;
    for (;;) {
      const Listing before = List();
      if (before.ends.empty() && !before.has_last) {
        DEVRT_RETURN_IF_ERROR(MakeClaim());
        const Listing after = List();
        if (after.ends.empty() && !after.has_last) return absl::OkStatus();
        // Somebody ended meanwhile, and would not take part any more.
        Remove(NameOf("claim", rank_));
        claimed_ = false;
      }
      RemoveIfAllEnded();
      if (absl::Now() >= deadline) return StillThereError();
      absl::SleepFor(kRemovalPause);
    }
  }

  absl::StatusOr<std::vector<std::string>> AllGather(
      std::string mine, absl::Time deadline) override {
    const absl::Time begin = absl::Now();
    const uint64_t round = ++round_;
    DEVRT_RETURN_IF_ERROR(Publish(NameOf(round, rank_), Record(round, mine)));
    std::vector<std::string> all(size_);
    std::vector<int> missing;
    for (int i = 0; i < size_; ++i) {
      if (i != rank_) missing.push_back(i);
    }
    all[rank_] = std::move(mine);
    absl::Duration pause = absl::Microseconds(200);
    for (;;) {
      std::vector<int> still;
      bool gave_up = false;
      for (const int rank : missing) {
        DEVRT_ASSIGN_OR_RETURN(std::optional<FileRecord> part,
                               Read(NameOf(round, rank), round, rank));
        if (part.has_value()) {
          all[rank] = std::move(part->payload);
          gave_up = gave_up || part->gave_up != 0;
        } else {
          still.push_back(rank);
        }
      }
      missing = std::move(still);
      // A rank that is missing may still read the files of the last exchange.
      if (gave_up && !missing.empty()) return all;
      if (missing.empty()) break;
      const absl::Time now = absl::Now();
      if (now >= deadline) {
        return internal::MissingRanksError(size_, missing, now - begin);
      }
      absl::SleepFor(std::min(pause, deadline - now));
      pause = std::min(pause * 2, absl::Milliseconds(50));
    }
    if (round > 1) Remove(NameOf(round - 1, rank_));
    return all;
  }

  // The file stays until all ranks have ended, so nobody has to wait here.
  void GiveUp(std::string mine, absl::Time) override {
    const uint64_t round = ++round_;
    Publish(NameOf(round, rank_), Record(round, mine, /*gave_up=*/1))
        .IgnoreError();  // the others miss this rank
  }

  absl::Status Put(std::string_view name, std::string bytes) override {
    return Publish(NameOf(PutName(name), rank_), Record(0, bytes));
  }
  absl::StatusOr<std::optional<std::string>> Get(std::string_view name,
                                                 int rank,
                                                 absl::Time deadline) override {
    for (;;) {
      DEVRT_ASSIGN_OR_RETURN(
          std::optional<FileRecord> record,
          Read(NameOf(PutName(name), static_cast<uint64_t>(rank)), 0, rank));
      if (record.has_value()) return std::move(record->payload);
      const absl::Time now = absl::Now();
      if (now >= deadline) return std::nullopt;
      absl::SleepFor(std::min(kGetPause, deadline - now));
    }
  }

 private:
  std::string PathOf(const std::string& name) const {
    return absl::StrCat(path_, "/", name);
  }
  template <typename First>
  static std::string NameOf(First first, uint64_t rank) {
    return absl::StrCat(first, ".", rank);
  }
  static std::string PutName(std::string_view name) {
    return absl::StrCat("put.", absl::string_view(name.data(), name.size()));
  }
  void Remove(const std::string& name) const {
    (void)unlinkat(folder_.get(), name.c_str(), 0);
  }

  std::string Record(uint64_t round, std::string_view payload,
                     uint64_t gave_up = 0) const {
    FileRecord record;
    record.job = job_;
    record.size = static_cast<uint64_t>(size_);
    record.rank = static_cast<uint64_t>(rank_);
    record.round = round;
    record.claim = *claims_[rank_];
    record.gave_up = gave_up;
    record.payload = payload;
    return internal::ToBytes(record);
  }

  Fd MakeNew(const std::string& name) const {
    return Fd(openat(folder_.get(), name.c_str(),
                     O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC,
                     0600));
  }

  absl::Status MakeClaim() {
    const std::string name = NameOf("claim", rank_);
    const Fd fd = MakeNew(name);
    if (fd.ok()) {
      claimed_ = true;
      claims_[rank_] = RandomNumber();
      return WriteAll(fd, Record(0, ""), name);
    }
    if (errno != EEXIST) return SystemError(PathOf(name), "cannot be made");
    const std::optional<FileRecord> other = ReadClaim(rank_);
    return absl::AlreadyExistsError(absl::StrCat(
        PathOf(name), " exists",
        other.has_value() ? absl::StrCat(", of the job \"", other->job, "\"")
                          : std::string(),
        ": another process has rank ", rank_,
        ", or a run that was killed has left its files; give each run a "
        "folder of its own"));
  }

  absl::Status StillThereError() const {
    const Listing now = List();
    if (now.has_last) {
      return absl::AlreadyExistsError(absl::StrCat(
          PathOf(kLast),
          " exists: a process removes the files of an earlier "
          "bootstrap, or was killed meanwhile; give each run a folder of its "
          "own"));
    }
    std::string job;
    std::vector<int> running;
    for (const uint64_t rank : now.claims) {
      if (std::count(now.ends.begin(), now.ends.end(), rank) != 0) continue;
      running.push_back(static_cast<int>(rank));
    }
    for (const uint64_t rank : now.claims) {
      const std::optional<FileRecord> claim = ReadClaim(rank);
      if (claim.has_value()) job = claim->job;
    }
    std::sort(running.begin(), running.end());
    return absl::AlreadyExistsError(absl::StrCat(
        path_, " has files of an earlier bootstrap of the job \"", job,
        "\", which has not ended in ",
        running.empty() ? "all ranks" : internal::RanksText(running),
        ": end it there, or give each run a folder of its own"));
  }

  absl::Status WriteAll(const Fd& fd, std::string_view bytes,
                        const std::string& name) const {
    while (!bytes.empty()) {
      const ssize_t written = write(fd.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return SystemError(PathOf(name), "cannot be written");
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return absl::OkStatus();
  }

  absl::Status Publish(const std::string& name, std::string_view bytes) const {
    const std::string draft = absl::StrCat("draft.", name);
    Remove(draft);
    {
      const Fd fd = MakeNew(draft);
      if (!fd.ok()) return SystemError(PathOf(draft), "cannot be made");
      const absl::Status written = WriteAll(fd, bytes, draft);
      if (!written.ok()) {
        Remove(draft);
        return written;
      }
    }
    if (renameat(folder_.get(), draft.c_str(), folder_.get(), name.c_str()) ==
        0) {
      return absl::OkStatus();
    }
    const absl::Status status = SystemError(PathOf(name), "cannot be made");
    Remove(draft);
    return status;
  }

  // What a rank's file says; nullopt if there is no such file yet.
  absl::StatusOr<std::optional<FileRecord>> Read(const std::string& name,
                                                 uint64_t round, int rank) {
    DEVRT_ASSIGN_OR_RETURN(const std::optional<std::string> bytes,
                           BytesOf(name));
    if (!bytes.has_value()) return std::nullopt;
    return Checked(name, *bytes, round, rank);
  }

  // nullopt if it is not there, or not yet all of it.
  std::optional<FileRecord> ReadClaim(uint64_t rank) const {
    const absl::StatusOr<std::optional<std::string>> bytes =
        BytesOf(NameOf("claim", rank));
    if (!bytes.ok() || !bytes->has_value()) return std::nullopt;
    return internal::FromBytes(**bytes);
  }

  // nullopt if there is no such file.
  absl::StatusOr<std::optional<std::string>> BytesOf(
      const std::string& name) const {
    const Fd fd(openat(folder_.get(), name.c_str(),
                       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!fd.ok()) {
      // ESTALE: a network file system has just replaced the file.
      if (errno == ENOENT || errno == ESTALE) return std::nullopt;
      if (errno == ELOOP) {
        return absl::PermissionDeniedError(
            absl::StrCat(PathOf(name),
                         " is a link: devrt follows none there; give each job "
                         "a folder of its own"));
      }
      return SystemError(PathOf(name), "cannot be read");
    }
    struct stat info;
    if (fstat(fd.get(), &info) != 0) return SystemError(PathOf(name), "fstat");
    if (!S_ISREG(info.st_mode) || info.st_uid != geteuid()) {
      return absl::PermissionDeniedError(absl::StrCat(
          PathOf(name),
          " is no file of this user: give each job a folder of its "
          "own"));
    }
    if (info.st_size > kLargestFile) {
      return absl::DataLossError(absl::StrCat(PathOf(name), " has ",
                                              info.st_size, " bytes, at most ",
                                              kLargestFile, " are possible"));
    }
    std::string bytes(static_cast<size_t>(info.st_size), '\0');
    size_t have = 0;
    while (have < bytes.size()) {
      const ssize_t got = read(fd.get(), &bytes[have], bytes.size() - have);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      have += static_cast<size_t>(got);
    }
    bytes.resize(have);
    return std::optional<std::string>(std::move(bytes));
  }

  absl::StatusOr<std::optional<FileRecord>> Checked(const std::string& name,
                                                    std::string_view bytes,
                                                    uint64_t round, int rank) {
    std::optional<FileRecord> record = internal::FromBytes(bytes);
    if (!record.has_value()) {
      return absl::DataLossError(absl::StrCat(
          PathOf(name), " is damaged, or of another version of devrt: it has ",
          bytes.size(), " bytes; use one version, and a new folder"));
    }
    if (record->job != job_) {
      return absl::FailedPreconditionError(absl::StrCat(
          PathOf(name), " is of the job \"", record->job, "\", and this is \"",
          job_, "\": give each job a folder of its own"));
    }
    if (record->size != static_cast<uint64_t>(size_) ||
        record->rank != static_cast<uint64_t>(rank) || record->round != round) {
      return absl::FailedPreconditionError(absl::StrCat(
          PathOf(name), " says rank ", record->rank, " of ", record->size,
          " in exchange ", record->round, "; expected is rank ", rank, " of ",
          size_, " in exchange ", round));
    }
    const MutexLock lock(&claims_mutex_);
    if (!claims_[rank].has_value()) {
      const std::optional<FileRecord> claim = ReadClaim(rank);
      if (!claim.has_value() || claim->claim != record->claim) {
        return std::nullopt;
      }
      claims_[rank] = claim->claim;
    }
    if (record->claim != claims_[rank]) return std::nullopt;
    return record;
  }

  Listing List() const {
    Listing names;
    const int fd =
        openat(folder_.get(), ".", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    DIR* const dir = fd < 0 ? nullptr : fdopendir(fd);
    if (dir == nullptr) {
      if (fd >= 0) close(fd);
      return names;
    }
    while (const dirent* const entry = readdir(dir)) names.Add(entry->d_name);
    closedir(dir);
    return names;
  }

  // Returns at once while other ranks go on.  If none does, the files are gone
  // when it returns, whoever has removed them.
  void End() {
    Fd(openat(folder_.get(), NameOf("end", rank_).c_str(),
              O_CREAT | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600));
    const absl::Time deadline = absl::Now() + kRemoval;
    while (!RemoveIfAllEnded() && absl::Now() < deadline) {
      absl::SleepFor(kRemovalPause);
    }
  }

  // Returns false if somebody else removes files now, or may be about to.
  bool RemoveIfAllEnded() const {
    if (!List().AllEnded()) return true;
    if (!MakeNew(kLast).ok()) return errno != EEXIST;
    // The other may have been faster by all of its removal.
    Listing names = List();
    if (names.AllEnded()) {
      for (const std::string& name : names.exchanges) Remove(name);
      for (const uint64_t rank : names.ends) Remove(NameOf("end", rank));
      for (const uint64_t rank : names.claims) Remove(NameOf("claim", rank));
    }
    Remove(kLast);
    return true;
  }

  const std::string path_;
  const Fd folder_;
  const int rank_;
  const int size_;
  const std::string job_;
  Mutex claims_mutex_;  // Get may run beside AllGather
  // The random numbers of the ranks' claims, as far as they are known.
  std::vector<std::optional<uint64_t>> claims_;
  const pid_t process_ = getpid();
  bool claimed_ = false;
  uint64_t round_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Bootstrap>> FromFile(std::string_view folder,
                                                    int rank, int size,
                                                    std::string_view job) {
  DEVRT_RETURN_IF_ERROR(internal::CheckRank("FromFile", rank, size));
  if (folder.empty() || folder[0] != '/') {
    return absl::InvalidArgumentError(absl::StrCat(
        "FromFile: \"", std::string(folder), "\" is no absolute path"));
  }
  if (job.empty() || job.size() > kLongestJob) {
    return absl::InvalidArgumentError(
        absl::StrCat("FromFile: the name of the job has ", job.size(),
                     " bytes; it needs 1 to ", kLongestJob));
  }
  std::string path(folder);
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  DEVRT_ASSIGN_OR_RETURN(Fd fd, OpenFolder(path));
  auto made = std::make_unique<FileBootstrap>(std::move(path), std::move(fd),
                                              rank, size, std::string(job));
  DEVRT_RETURN_IF_ERROR(made->Claim());
  return made;
}

}  // namespace devrt::collectives
