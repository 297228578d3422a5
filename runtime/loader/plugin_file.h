// SPDX-License-Identifier: Apache-2.0
//
// Opens the file of a plugin, of a layer or of a library that a plugin needs.
// The file is opened once, after every component of its path was checked, and
// only if it is a regular file.
//
//   PluginFile file = OpenPluginFile("/opt/acme/libdevrt_acme.so");
//   DEVRT_RETURN_IF_ERROR(file.status());       // trusted, and a plugin
//   ...
//   DEVRT_RETURN_IF_ERROR(file.CheckUnchanged());
//
// All later steps use `fd`, so they see the file that was checked.

#ifndef DEVRT_RUNTIME_LOADER_PLUGIN_FILE_H_
#define DEVRT_RUNTIME_LOADER_PLUGIN_FILE_H_

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "runtime/loader/elf_file.h"
#include "runtime/loader/plugin_contents.h"
#include "runtime/loader/trust.h"
#include "runtime/loader/unique_fd.h"

namespace devrt::internal {

// kLoad waits for the next tick of the system's clock, up to 10 ms, if the file
// was written in the present tick.  File times are no finer than a tick, so
// CheckUnchanged would miss a second write in that tick.
enum class Purpose { kInspect, kLoad };

struct PluginFile {
  Purpose purpose = Purpose::kInspect;
  std::string path;       // as passed by the caller
  std::string real_path;  // symbolic links resolved
  UniqueFd fd;            // for reading; closed if there is no such file
  struct stat info = {};  // when the file was opened, before any read
  PluginContents contents;

  // The results of the checks, in their order.  Error texts name the file.
  absl::Status found;    // OK: an absolute path that leads to a readable file
  absl::Status regular;  // OK: a regular file
  absl::Status owner;    // rules of trust.h for the file and its whole path
  absl::Status writers;

  // The first error, including those of `contents`; texts begin with the path.
  absl::Status status() const;
  // The first error of the checks, without `contents`.
  absl::Status trust() const;

  uint64_t size() const { return static_cast<uint64_t>(info.st_size); }
  FileBytes bytes() const { return FileBytes(fd.get(), size()); }

  // FAILED_PRECONDITION if the file was written to since it was opened.
  absl::Status CheckUnchanged() const;
};

// Opens `path` and reads its contents.  Also reads a file that is not trusted,
// for callers that only inspect.
PluginFile OpenPluginFile(const std::string& path,
                          const LibraryKind& kind = kPluginLibrary,
                          Purpose purpose = Purpose::kInspect);

// Opens a library that a plugin needs; a library has no manifest.
PluginFile OpenLibraryFile(const std::string& path, Purpose purpose);

// OK, or the error of an empty or relative path.
absl::Status CheckAbsolute(const std::string& path);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_LOADER_PLUGIN_FILE_H_
