// SPDX-License-Identifier: Apache-2.0
//
// Finds and loads NCCL or RCCL, when a program first needs it.
//
//   absl::StatusOr<const Library*> nccl = OpenLibrary(kNccl);
//   if (!nccl.ok()) return nccl.status();       // says where it looked
//   (*nccl)->functions.group_start();
//
// The first of these places that has a library decides:
//
//   1. a copy that the process has loaded already, so that PyTorch and devrt
//      use one copy: two copies in one process do not work together
//   2. the flavor's variable, an absolute path
//   3. the path that the program has set (SetLibraryPath), such as a wheel's
//   4. the dynamic linker's search for the soname
//
// The files of 2 and 3 run in this process, so the rules of plugins hold for
// them: nobody but root and the user could have written them
// (docs/decisions/0006-who-may-write-a-plugin.md).
//
// Threads: every function from any thread.  A library is never unloaded.

#ifndef DEVRT_COLLECTIVES_NCCL_LIBRARY_H_
#define DEVRT_COLLECTIVES_NCCL_LIBRARY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/nccl/abi.h"
#include "collectives/nccl/flavor.h"

namespace devrt::collectives::nccl {

struct Library {
  const Flavor* flavor = nullptr;
  Functions functions = {};
  int version = 0;           // 22809
  std::string version_text;  // "2.28.9"
  std::string path;          // of the file, as the dynamic linker has it
};

// The library of a flavor.  The first call that succeeds loads it; all later
// calls return that one.
//   UNAVAILABLE          no library was found, it is older or newer than
//                        devrt's declarations, or it lacks a function
//   INVALID_ARGUMENT     the file is not a library, or not this one
//   NOT_FOUND, PERMISSION_DENIED, FAILED_PRECONDITION   of a path that the
//                        variable or the program names, as for a plugin
absl::StatusOr<const Library*> OpenLibrary(const Flavor& flavor);

// Sets the path of place 3; empty takes it back.  FAILED_PRECONDITION, and
// nothing changes, if the flavor's library is loaded already.
absl::Status SetLibraryPath(const Flavor& flavor, std::string path);

// DEVRT_COLLECTIVES_STREAM_ORDERED and others: what an engine over it can do.
uint32_t FlagsOf(const Library& library);

// Returns true if a variable of the environment, which is the library's, has
// the value.
bool IsSet(const char* variable, absl::string_view value);

// "2.28.9"
std::string VersionText(int version);

// For tests and OpenLibrary: checks the version of a loaded library, then finds
// its functions.  `path` is for messages.
absl::StatusOr<Library> ReadLibrary(const Flavor& flavor, void* handle,
                                    const std::string& path);

}  // namespace devrt::collectives::nccl

#endif  // DEVRT_COLLECTIVES_NCCL_LIBRARY_H_
