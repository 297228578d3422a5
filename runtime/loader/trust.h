// SPDX-License-Identifier: Apache-2.0
//
// Trust: decides whether a file may run in this process.  It may if nobody but
// root and the effective user could have written or exchanged the file.
//
//   const Trust trust = Trust::OfThisProcess();
//   absl::Status owner = trust.CheckOwner("/opt/acme", info);
//
// docs/decisions/0006-who-may-write-a-plugin.md gives the reasons.  Trust
// checks the stat of one entry; path_walk.h applies it to a whole path.
// Threads: any number of threads may use one Trust.

#ifndef DEVRT_RUNTIME_LOADER_TRUST_H_
#define DEVRT_RUNTIME_LOADER_TRUST_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/status.h"

namespace devrt::internal {

class Trust {
 public:
  // The group that has only this user as member, if there is one.
  using PrivateGroup = std::optional<gid_t> (*)(uid_t user);

  // `private_group` is called only if the group may write.
  Trust(uid_t user, PrivateGroup private_group)
      : user_(user), private_group_(private_group) {}

  // For the effective user; uses the system's user database.
  static Trust OfThisProcess();

  // PERMISSION_DENIED, naming `path`, its owner and the remedy, unless root or
  // the user owns the file, directory or symbolic link.
  absl::Status CheckOwner(const std::string& path,
                          const struct stat& info) const;

  // PERMISSION_DENIED, naming `path`, its mode and the remedy, if others may
  // write to it.  Two cases are accepted: write access of the group, if it is
  // root's or the user's private group; and a sticky directory such as /tmp
  // whose owner CheckOwner accepts, because there others cannot exchange files
  // that they do not own.  `has_acl`: an access control list exists, so the
  // group bits may hold for others than the group.
  absl::Status CheckWriters(const std::string& path, const struct stat& info,
                            bool has_acl) const;

  // CheckWriters for a directory in which others must not create files.
  // Refuses sticky directories too.
  absl::Status CheckAdders(const std::string& path, const struct stat& info,
                           bool has_acl) const;

  // "root", "root or uid 1000"
  std::string Who() const;

 private:
  bool IsTrustedOwner(uid_t owner) const {
    return owner == 0 || owner == user_;
  }

  // PERMISSION_DENIED if anybody who is not trusted may write.
  absl::Status CheckMode(const std::string& path, const struct stat& info,
                         bool has_acl, const char* expected) const;

  uid_t user_;
  PrivateGroup private_group_;
};

// The primary group of `user`, if the group has the user's name and no other
// member.  Does not look for users that have it as their primary group.
std::optional<gid_t> PrivateGroupOf(uid_t user);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_LOADER_TRUST_H_
