// SPDX-License-Identifier: Apache-2.0
//
// Walks a path from the root, one component after the other, each opened in
// the directory that was judged before: what was judged is what is opened,
// whatever somebody does to the names meanwhile.  Symbolic links are followed
// by hand, a bounded number of them.
//
//   WalkedPath walked = WalkPath("/opt/acme/libdevrt_acme.so", trust);
//   absl::Status status = walked.missing;   // NOT_FOUND: ...: no such file
//   status.Update(walked.owner);            // who could have exchanged it
//   status.Update(walked.writers);

#ifndef DEVRT_RUNTIME_INTERNAL_PATH_WALK_H_
#define DEVRT_RUNTIME_INTERNAL_PATH_WALK_H_

#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"
#include "runtime/loader/trust.h"
#include "runtime/loader/unique_fd.h"

namespace devrt::internal {

struct WalkedPath {
  std::string real_path;  // without links; as far as it was followed
  UniqueFd directory;     // the one that holds the last component
  std::string name;       // the last component, no link
  struct stat info = {};  // of what it names

  // NOT_FOUND, PERMISSION_DENIED or INVALID_ARGUMENT where the path does not
  // lead to anything.
  absl::Status missing;
  // The first directory, link or file on the way that breaks the rules of
  // trust.h; the walk goes on behind it.
  absl::Status owner;
  absl::Status writers;
  // Whether others can put something new into the last directory that was
  // reached: there they could make what is missing, too.
  absl::Status adders;
};

// `path` is absolute.  Texts of `missing` begin with it.
WalkedPath WalkPath(const std::string& path, const Trust& trust);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_PATH_WALK_H_
