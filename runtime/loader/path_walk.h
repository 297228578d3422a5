// SPDX-License-Identifier: Apache-2.0
//
// Walks a path from the root, and opens each component relative to the
// directory that was checked just before.  So the file that is opened is the
// file that was checked, even if somebody renames things meanwhile.  The walk
// itself follows symbolic links, a limited number of them.
//
//   WalkedPath walked = WalkPath("/opt/acme/libdevrt_acme.so", trust);
//   absl::Status status = walked.missing;   // NOT_FOUND: ...: no such file
//   status.Update(walked.owner);            // others own a part of the path
//   status.Update(walked.writers);

#ifndef DEVRT_RUNTIME_LOADER_PATH_WALK_H_
#define DEVRT_RUNTIME_LOADER_PATH_WALK_H_

#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"
#include "runtime/loader/trust.h"
#include "runtime/loader/unique_fd.h"

namespace devrt::internal {

struct WalkedPath {
  std::string real_path;  // links resolved, as far as the walk came
  UniqueFd directory;     // holds the last component
  std::string name;       // the last component; not a symbolic link
  struct stat info = {};  // of the last component

  // NOT_FOUND, PERMISSION_DENIED or INVALID_ARGUMENT if the path does not lead
  // to a file.
  absl::Status missing;
  // Names the first directory, link or file on the path that breaks the rules
  // of trust.h.  The walk continues after it.
  absl::Status owner;
  absl::Status writers;
  // An error if others can put new files into the last directory reached; then
  // they could also create the missing component.
  absl::Status adders;
};

// `path` is absolute.  Texts of `missing` begin with `path`.
WalkedPath WalkPath(const std::string& path, const Trust& trust);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_LOADER_PATH_WALK_H_
