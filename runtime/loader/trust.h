// SPDX-License-Identifier: Apache-2.0
//
// Whose files may run in this process: those that nobody but root and the
// effective user could have written or exchanged.
//
//   const Trust trust = Trust::OfThisProcess();
//   absl::Status owner = trust.CheckOwner("/opt/acme", info);
//
// docs/decisions/0006-who-may-write-a-plugin.md says why these are the rules.
// Judges what stat says about one entry; path_walk.h applies it to a whole
// path.  Threads: a Trust may be used by any number of threads.

#ifndef DEVRT_RUNTIME_INTERNAL_TRUST_H_
#define DEVRT_RUNTIME_INTERNAL_TRUST_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/status.h"

namespace devrt::internal {

class Trust {
 public:
  // The group that only this user is in, if there is one.
  using PrivateGroup = std::optional<gid_t> (*)(uid_t user);

  // `private_group` is asked only where a group may write.
  Trust(uid_t user, PrivateGroup private_group)
      : user_(user), private_group_(private_group) {}

  // The effective user's, by the system's user database.
  static Trust OfThisProcess();

  // PERMISSION_DENIED, naming `path`, its owner and the remedy, unless root or
  // the user owns the file, directory or symbolic link.
  absl::Status CheckOwner(const std::string& path,
                          const struct stat& info) const;

  // PERMISSION_DENIED, naming `path`, its mode and the remedy, if others may
  // write to it.  Accepted are a group's right to write where it is root's or
  // the user's private one, and directories like /tmp: sticky, so that others
  // cannot exchange what they do not own, and with an owner as above.
  // `has_acl` says that group bits may speak for others than the group.
  absl::Status CheckWriters(const std::string& path, const struct stat& info,
                            bool has_acl) const;

  // The same for a directory into which others must not put anything new:
  // sticky ones are not accepted either.
  absl::Status CheckAdders(const std::string& path, const struct stat& info,
                           bool has_acl) const;

  // "root", "root or uid 1000"
  std::string Who() const;

 private:
  bool IsTrustedOwner(uid_t owner) const {
    return owner == 0 || owner == user_;
  }

  // PERMISSION_DENIED where one who is not trusted has the right to write.
  absl::Status CheckMode(const std::string& path, const struct stat& info,
                         bool has_acl, const char* expected) const;

  uid_t user_;
  PrivateGroup private_group_;
};

// The primary group of `user`, if it bears the user's name and has no other
// member.  Users who share it as their primary group are not looked for.
std::optional<gid_t> PrivateGroupOf(uid_t user);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_TRUST_H_
