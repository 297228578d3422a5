// SPDX-License-Identifier: Apache-2.0
#include "runtime/loader/plugin_file.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "runtime/common/text.h"
#include "runtime/loader/path_walk.h"

namespace devrt::internal {
namespace {

bool IsSameFile(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool IsBefore(const timespec& a, const timespec& b) {
  return std::tie(a.tv_sec, a.tv_nsec) < std::tie(b.tv_sec, b.tv_nsec);
}

bool IsSameTime(const timespec& a, const timespec& b) {
  return !IsBefore(a, b) && !IsBefore(b, a);
}

// Does not wait for a time in the future, which a network file may have.
void WaitForNextTick(const timespec& changed) {
  constexpr int kMostWaits = 20;
  constexpr timespec kMillisecond = {0, 1000000};
  timespec now;
  for (int i = 0; i < kMostWaits; ++i) {
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (IsBefore(changed, now)) return;
    nanosleep(&kMillisecond, nullptr);
  }
}

absl::Status CheckRegular(const std::string& path, const struct stat& info) {
  if (S_ISREG(info.st_mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      PathText(path), S_ISDIR(info.st_mode) ? ": a directory, not a file"
                                            : ": not a regular file"));
}

void OpenForReading(const WalkedPath& walked, PluginFile* file) {
  // O_NONBLOCK: if the file was just replaced by a pipe, open must not wait.
  UniqueFd fd(
      openat(walked.directory.get(), walked.name.c_str(),
             O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info;
  if (!fd.is_open() || fstat(fd.get(), &info) != 0) {
    const std::string text =
        absl::StrCat(PathText(file->path), ": ", std::strerror(errno));
    file->found = errno == EACCES || errno == EPERM
                      ? absl::PermissionDeniedError(text)
                      : absl::InvalidArgumentError(text);
    return;
  }
  if (!IsSameFile(info, walked.info)) {
    file->found = absl::FailedPreconditionError(
        absl::StrCat(PathText(file->path), ": exchanged while it was opened"));
    return;
  }
  if (file->purpose == Purpose::kLoad) WaitForNextTick(info.st_ctim);
  if (fstat(fd.get(), &file->info) == 0) file->fd = std::move(fd);
}

PluginFile Open(const std::string& path, Purpose purpose) {
  PluginFile file;
  file.purpose = purpose;
  file.path = path;
  file.found = CheckAbsolute(path);
  if (!file.found.ok()) return file;
  WalkedPath walked = WalkPath(path, Trust::OfThisProcess());
  const auto named = [&](const absl::Status& status) {
    return WithPrefix(absl::StrCat(PathText(path), ": "), status);
  };
  file.real_path = walked.real_path;
  file.found = walked.missing;
  file.owner = named(walked.owner);
  file.writers = named(walked.writers);
  if (!file.found.ok()) return file;
  file.info = walked.info;
  file.regular = CheckRegular(path, walked.info);
  if (file.regular.ok()) OpenForReading(walked, &file);
  return file;
}

}  // namespace

absl::Status CheckAbsolute(const std::string& path) {
  if (path.empty() || path[0] != '/') {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(path), " is not an absolute path: begin it with /"));
  }
  if (path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(path), " contains a NUL"));
  }
  return absl::OkStatus();
}

absl::Status PluginFile::trust() const {
  absl::Status first = found;
  first.Update(regular);
  first.Update(owner);
  first.Update(writers);
  return first;
}

absl::Status PluginFile::status() const {
  absl::Status first = trust();
  first.Update(
      WithPrefix(absl::StrCat(PathText(path), ": "), contents.status()));
  return first;
}

absl::Status PluginFile::CheckUnchanged() const {
  struct stat now;
  if (fstat(fd.get(), &now) == 0 && IsSameFile(now, info) &&
      now.st_size == info.st_size && IsSameTime(now.st_mtim, info.st_mtim) &&
      IsSameTime(now.st_ctim, info.st_ctim)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      PathText(real_path),
      ": written to or removed while it was being loaded; load it again"));
}

PluginFile OpenPluginFile(const std::string& path, const LibraryKind& kind,
                          Purpose purpose) {
  PluginFile file = Open(path, purpose);
  if (file.fd.is_open()) file.contents = ReadContents(file.bytes(), kind);
  return file;
}

PluginFile OpenLibraryFile(const std::string& path, Purpose purpose) {
  PluginFile file = Open(path, purpose);
  if (file.fd.is_open()) file.contents = ReadLibraryContents(file.bytes());
  return file;
}

}  // namespace devrt::internal
