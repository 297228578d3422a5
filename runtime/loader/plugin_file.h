// SPDX-License-Identifier: Apache-2.0
//
// Opens the file of a plugin, a layer or a library that one needs: once, by a
// path whose every component is judged, and never what is no regular file.
//
//   PluginFile file = OpenPluginFile("/opt/acme/libdevrt_acme.so");
//   DEVRT_RETURN_IF_ERROR(file.status());       // trusted, and a plugin
//   ...
//   DEVRT_RETURN_IF_ERROR(file.CheckUnchanged());
//
// Everything afterwards goes through `fd`, so that it is about this file.

#ifndef DEVRT_RUNTIME_INTERNAL_PLUGIN_FILE_H_
#define DEVRT_RUNTIME_INTERNAL_PLUGIN_FILE_H_

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "runtime/loader/elf_file.h"
#include "runtime/loader/plugin_contents.h"
#include "runtime/loader/trust.h"
#include "runtime/loader/unique_fd.h"

namespace devrt::internal {

// To be loaded, a file must not have been written in the present tick of the
// system's clock: file times have no finer steps, so that it could be written
// once more without a trace.  Opening waits for the next tick, up to 10 ms.
enum class Purpose { kInspect, kLoad };

struct PluginFile {
  Purpose purpose = Purpose::kInspect;
  std::string path;       // as it was named
  std::string real_path;  // without links
  UniqueFd fd;            // for reading; closed where there is no such file
  struct stat info = {};  // when it was opened, before anything was read
  PluginContents contents;

  // What was judged, in this order.  Texts name the file.
  absl::Status found;    // an absolute path that leads to something readable
  absl::Status regular;  // a regular file
  absl::Status owner;    // trust.h, for the file and what leads to it
  absl::Status writers;

  // The first that is wrong, `contents` included; texts begin with the path.
  absl::Status status() const;
  // The same without `contents`.
  absl::Status trust() const;

  uint64_t size() const { return static_cast<uint64_t>(info.st_size); }
  FileBytes bytes() const { return FileBytes(fd.get(), size()); }

  // FAILED_PRECONDITION when the file was written to since it was opened.
  absl::Status CheckUnchanged() const;
};

// Opens `path` and reads what it says; also when it is not trusted, for those
// that only want to know.
PluginFile OpenPluginFile(const std::string& path,
                          const LibraryKind& kind = kPluginLibrary,
                          Purpose purpose = Purpose::kInspect);

// The same for a library that a plugin needs: it has no manifest.
PluginFile OpenLibraryFile(const std::string& path, Purpose purpose);

// "No such file" and the like, for a path that no system call need see.
absl::Status CheckAbsolute(const std::string& path);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_PLUGIN_FILE_H_
