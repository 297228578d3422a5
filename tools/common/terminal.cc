// SPDX-License-Identifier: Apache-2.0
#include "tools/common/terminal.h"

#include <fcntl.h>
#include <langinfo.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_format.h"
#include "tools/common/text.h"

namespace devrt::tools {
namespace {

bool IsSet(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

bool IsDumb() {
  const char* term = std::getenv("TERM");
  return term == nullptr || std::strcmp(term, "dumb") == 0;
}

}  // namespace

Terminal Terminal::Detect() {
  constexpr size_t kNarrowest = 60;
  constexpr size_t kWidest = 100;
  Terminal terminal;
  std::setlocale(LC_CTYPE, "");
  terminal.unicode = std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  if (isatty(STDOUT_FILENO) == 0) return terminal;
  terminal.colour = !IsSet("NO_COLOR") && !IsDumb();
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.columns = std::clamp<size_t>(size.ws_col, kNarrowest, kWidest);
  }
  return terminal;
}

void Print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

absl::Status FlushOutput() {
  const bool flushed = std::fflush(stdout) == 0;
  const int error = errno;
  if (flushed && std::ferror(stdout) == 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("cannot write to standard output: %s",
                      flushed ? "part of it is lost" : std::strerror(error)));
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  errno = 0;
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  std::string text;
  bool read = file != nullptr;
  if (file != nullptr) {
    char part[4096];
    while (const size_t n = std::fread(part, 1, sizeof part, file)) {
      text.append(part, n);
    }
    read = std::ferror(file) == 0;  // reading a directory fails here
    const int error = errno;
    std::fclose(file);
    errno = error;
  }
  if (read) return text;
  return absl::UnavailableError(absl::StrFormat(
      "cannot read %s: %s", Quoted(path), std::strerror(errno)));
}

absl::Status CheckWritable(const std::string& path) {
  struct stat info;
  int error = 0;
  if (stat(path.c_str(), &info) != 0) {
    // Only making the file tells; it is removed at once.
    const int fd =
        open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    error = fd < 0 ? errno : 0;
    if (fd >= 0) {
      close(fd);
      unlink(path.c_str());
    }
  } else if (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) {
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    error = fd < 0 ? errno : 0;
    if (fd >= 0) close(fd);
  }
  // Opening a pipe could wait, or end the input of its reader.
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrFormat(
      "cannot write %s: %s", Quoted(path), std::strerror(error)));
}

absl::Status WriteFile(const std::string& path, std::string_view text) {
  errno = 0;
  std::FILE* file = std::fopen(path.c_str(), "wb");
  bool written = file != nullptr;
  if (file != nullptr) {
    written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    const int error = errno;
    const bool closed = std::fclose(file) == 0;
    if (!written) errno = error;
    written = written && closed;
  }
  if (written) return absl::OkStatus();
  return absl::UnavailableError(absl::StrFormat(
      "cannot write %s: %s", Quoted(path), std::strerror(errno)));
}

std::string AbsolutePath(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

}  // namespace devrt::tools
