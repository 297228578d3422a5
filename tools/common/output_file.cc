// SPDX-License-Identifier: Apache-2.0
#include "tools/common/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/common/text.h"

namespace devrt::tools {
namespace {

// NONBLOCK: opening a pipe without a reader must not wait.
constexpr int kFlags = O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

absl::Status CannotWrite(const std::string& path, const char* why) {
  return absl::InvalidArgumentError(
      absl::StrCat(Printable(path), " cannot be written: ", why));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Open(
    const std::string& path) {
  int fd = open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0666);
  const bool made = fd >= 0;
  if (!made && errno == EEXIST) fd = open(path.c_str(), kFlags);
  // The path may be a link to a file that does not exist yet.
  if (fd < 0 && errno == ENOENT)
    fd = open(path.c_str(), kFlags | O_CREAT, 0666);
  if (fd < 0) {
    struct stat info;
    const bool pipe = errno == ENXIO && stat(path.c_str(), &info) == 0 &&
                      S_ISFIFO(info.st_mode);
    return CannotWrite(
        path, pipe ? "it is a pipe that nobody reads" : std::strerror(errno));
  }
  struct stat info;
  if (fstat(fd, &info) != 0 ||
      !(S_ISREG(info.st_mode) || S_ISCHR(info.st_mode) ||
        S_ISFIFO(info.st_mode))) {
    close(fd);
    return CannotWrite(path, "it is no file, pipe or character device");
  }
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  return std::unique_ptr<OutputFile>(
      new OutputFile(path, fd, made, S_ISREG(info.st_mode)));
}

OutputFile::~OutputFile() {
  if (made_) unlink(path_.c_str());
  close(fd_);
}

bool OutputFile::IsSameFile(int fd) const {
  struct stat ours, other;
  return fstat(fd_, &ours) == 0 && fstat(fd, &other) == 0 &&
         ours.st_dev == other.st_dev && ours.st_ino == other.st_ino;
}

absl::Status OutputFile::Write(const std::string& text) {
  const auto failed = [](int error) {
    return absl::DataLossError(std::strerror(error));
  };
  // Write errors must not end the process.
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  struct stat before;
  if (is_file_ && !text.empty() && fstat(fd_, &before) == 0) {
    // Reserve the room first, so that a full disk leaves the old text intact.
    const int error = posix_fallocate(fd_, 0, static_cast<off_t>(text.size()));
    if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
      (void)!ftruncate(fd_, before.st_size);
      return failed(error);
    }
  }
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = write(fd_, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed(errno);
    done += static_cast<size_t>(n);
  }
  if (is_file_ && ftruncate(fd_, static_cast<off_t>(text.size())) != 0) {
    return failed(errno);
  }
  made_ = false;  // the destructor keeps the file
  return absl::OkStatus();
}

}  // namespace devrt::tools
