// SPDX-License-Identifier: Apache-2.0
#include "runtime/loader/path_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/common/text.h"

namespace devrt::internal {
namespace {

constexpr int kMostLinks = 40;  // the kernel's limit

class Walk {
 public:
  Walk(const std::string& path, const Trust& trust)
      : path_(path), trust_(trust) {}

  WalkedPath Run() {
    if (path_.size() >= PATH_MAX) {
      result_.missing = absl::InvalidArgumentError(absl::StrCat(
          PathText(path_), ": a path has at most ", PATH_MAX - 1, " bytes"));
      return std::move(result_);
    }
    Push(path_);
    if (GoToRoot()) {
      while (!todo_.empty() && Step()) {
      }
    }
    result_.real_path = RealPath();
    return std::move(result_);
  }

 private:
  std::string RealPath() const {
    return absl::StrCat("/", absl::StrJoin(names_, "/"));
  }
  std::string Child(const std::string& name) const {
    return absl::StrCat(RealPath(), names_.empty() ? "" : "/", name);
  }

  // Puts the components of `path` in front of the remaining ones.
  void Push(const std::string& path) {
    std::vector<std::string> parts = absl::StrSplit(path, '/');
    // A slash at the end requires a directory; "." checks that.
    if (parts.back().empty()) parts.back() = ".";
    for (size_t i = parts.size(); i-- > 0;) {
      const bool last = i + 1 == parts.size();
      if (parts[i].empty() || (parts[i] == "." && !last)) continue;
      todo_.push_back(std::move(parts[i]));
    }
  }

  bool GoToRoot() {
    names_.clear();
    at_ = UniqueFd(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    struct stat info;
    if (!at_.is_open() || fstat(at_.get(), &info) != 0) return Fail(errno);
    Judge("/", at_.get(), info);
    result_.info = info;
    return true;
  }

  bool Step() {
    const std::string name = std::move(todo_.back());
    todo_.pop_back();
    // O_DIRECTORY comes first, because only then the system mounts directories
    // on demand.  Neither call follows a link or opens a device.
    constexpr int kFlags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
    UniqueFd next(openat(at_.get(), name.c_str(), kFlags | O_DIRECTORY));
    if (!next.is_open() && errno == ENOTDIR) {
      next = UniqueFd(openat(at_.get(), name.c_str(), kFlags));
    }
    struct stat info;
    if (!next.is_open() || fstat(next.get(), &info) != 0) {
      const int error = errno;
      if (name != ".") names_.push_back(name);
      return Fail(error);
    }
    if (S_ISLNK(info.st_mode)) return Follow(name, next.get(), info);
    if (name == "..") {
      if (!names_.empty()) names_.pop_back();
    } else if (name != ".") {
      names_.push_back(name);
    }
    Judge(RealPath(), next.get(), info);
    result_.directory = std::exchange(at_, std::move(next));
    result_.name = name;
    result_.info = info;
    return true;
  }

  bool Follow(const std::string& name, int link, const struct stat& info) {
    if (++links_ > kMostLinks) {
      result_.missing = absl::InvalidArgumentError(
          absl::StrCat(PathText(path_), ": more than ", kMostLinks,
                       " symbolic links, probably a circle; the last is ",
                       PathText(Child(name))));
      return false;
    }
    char target[PATH_MAX];
    const ssize_t length = readlinkat(link, "", target, sizeof target);
    if (length < 0) return Fail(errno);
    result_.owner.Update(trust_.CheckOwner(Child(name), info));
    const std::string text(target, static_cast<size_t>(length));
    Push(text);
    return text.empty() || text[0] != '/' || GoToRoot();
  }

  void Judge(const std::string& path, int fd, const struct stat& info) {
    result_.owner.Update(trust_.CheckOwner(path, info));
    // With an access control list, the group bits are its mask.
    const bool has_acl = (info.st_mode & S_IWGRP) != 0 &&
                         getxattr(absl::StrCat("/proc/self/fd/", fd).c_str(),
                                  "system.posix_acl_access", nullptr, 0) > 0;
    result_.writers.Update(trust_.CheckWriters(path, info, has_acl));
    if (S_ISDIR(info.st_mode)) {
      result_.adders = trust_.CheckAdders(path, info, has_acl);
    }
  }

  bool Fail(int error) {
    const std::string reached = RealPath();
    const bool plain = links_ == 0 && error != EACCES && error != EPERM;
    const std::string where = plain || reached == path_
                                  ? ""
                                  : absl::StrCat(" (", PathText(reached), ")");
    switch (error) {
      case ENOENT:
      case ENOTDIR:
        result_.missing = absl::NotFoundError(
            absl::StrCat(PathText(path_), ": no such file", where));
        break;
      case EACCES:
      case EPERM:
        result_.missing = absl::PermissionDeniedError(absl::StrCat(
            PathText(path_), ": ", std::strerror(error), where,
            "; the effective user must be able to search every directory"));
        break;
      default:
        result_.missing = absl::InvalidArgumentError(
            absl::StrCat(PathText(path_), ": ", std::strerror(error), where));
    }
    return false;
  }

  const std::string& path_;
  const Trust& trust_;
  std::vector<std::string> todo_;   // components, in reverse order
  std::vector<std::string> names_;  // of the directories down to at_
  UniqueFd at_;
  int links_ = 0;
  WalkedPath result_;
};

}  // namespace

WalkedPath WalkPath(const std::string& path, const Trust& trust) {
  return Walk(path, trust).Run();
}

}  // namespace devrt::internal
