// SPDX-License-Identifier: Apache-2.0
#include "runtime/loader/trust.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/common/text.h"

namespace devrt::internal {
namespace {

constexpr size_t kMostRecordBytes = 1 << 20;

// Calls one of the getXXid_r functions with a buffer that is large enough.
// Returns false if there is no such record.
template <typename Record, typename Id>
bool LookUp(int (*get)(Id, Record*, char*, size_t, Record**), Id id,
            Record* record, std::vector<char>* buffer) {
  for (buffer->resize(1024); buffer->size() <= kMostRecordBytes;
       buffer->resize(buffer->size() * 4)) {
    Record* found = nullptr;
    const int error = get(id, record, buffer->data(), buffer->size(), &found);
    if (error != ERANGE) return error == 0 && found != nullptr;
  }
  return false;
}

std::string UserText(uid_t user) {
  return user == 0 ? "root" : absl::StrCat("uid ", user);
}

}  // namespace

std::optional<gid_t> PrivateGroupOf(uid_t user) {
  passwd account;
  group primary;
  std::vector<char> account_text, group_text;
  if (!LookUp(&getpwuid_r, user, &account, &account_text) ||
      !LookUp(&getgrgid_r, account.pw_gid, &primary, &group_text)) {
    return std::nullopt;
  }
  const std::string name = account.pw_name;
  if (name != primary.gr_name) return std::nullopt;
  for (char** member = primary.gr_mem; *member != nullptr; ++member) {
    if (name != *member) return std::nullopt;
  }
  return account.pw_gid;
}

Trust Trust::OfThisProcess() { return Trust(geteuid(), &PrivateGroupOf); }

std::string Trust::Who() const {
  return user_ == 0 ? "root" : absl::StrCat("root or ", UserText(user_));
}

absl::Status Trust::CheckOwner(const std::string& path,
                               const struct stat& info) const {
  if (IsTrustedOwner(info.st_uid)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      PathText(path), " belongs to ", UserText(info.st_uid),
      "; a plugin and what leads to it must belong to ", Who(), ": chown ",
      S_ISLNK(info.st_mode) ? "-h " : "",
      user_ == 0 ? "root" : absl::StrCat(user_), " ", ShellWord(path)));
}

absl::Status Trust::CheckMode(const std::string& path, const struct stat& info,
                              bool has_acl, const char* expected) const {
  const bool by_group =
      (info.st_mode & S_IWGRP) != 0 &&
      (has_acl || (info.st_gid != 0 && info.st_gid != private_group_(user_)));
  const bool by_all = (info.st_mode & S_IWOTH) != 0;
  if (!by_group && !by_all) return absl::OkStatus();
  const std::string writers = by_all    ? "everybody"
                              : has_acl ? "whom its access control list names"
                                        : absl::StrCat("group ", info.st_gid);
  const char* remedy = by_all && by_group ? "go-w" : by_all ? "o-w" : "g-w";
  return absl::PermissionDeniedError(absl::StrFormat(
      "%s (mode %04o) can be written by %s; %s may be written by %s only: "
      "chmod %s %s",
      PathText(path), info.st_mode & 07777, writers, expected, Who(), remedy,
      ShellWord(path)));
}

absl::Status Trust::CheckWriters(const std::string& path,
                                 const struct stat& info, bool has_acl) const {
  const bool sticky = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0 &&
                      IsTrustedOwner(info.st_uid);
  if (sticky) return absl::OkStatus();
  return CheckMode(path, info, has_acl,
                   "a plugin and the directories above it");
}

absl::Status Trust::CheckAdders(const std::string& path,
                                const struct stat& info, bool has_acl) const {
  return CheckMode(path, info, has_acl,
                   "where a plugin's libraries are sought");
}

}  // namespace devrt::internal
