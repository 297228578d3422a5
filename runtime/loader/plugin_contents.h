// SPDX-License-Identifier: Apache-2.0
//
// What the file of a plugin, or of a layer, says about itself: the part of an
// inspection that looks at bytes only, whoever wrote them and wherever they
// lie.
//
//   PluginContents contents = ReadContents(FileBytes(fd, size));
//   if (!contents.status().ok()) return contents.status();
//   Use(*contents.manifest);
//
// Of a file that is damaged or is something else as much is read as can be.
// All text together takes no more memory than a part of the file's size.

#ifndef DEVRT_RUNTIME_INTERNAL_PLUGIN_CONTENTS_H_
#define DEVRT_RUNTIME_INTERNAL_PLUGIN_CONTENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "runtime/loader/elf_file.h"
#include "runtime/loader/library_kind.h"

namespace devrt::internal {

struct PluginContents {
  std::string machine;   // "x86-64"; empty for what is no ELF file
  std::string build_id;  // hexadecimal, may be empty
  std::string soname;
  std::vector<std::string> needed;
  std::string run_path;    // RUNPATH, or where there is none RPATH
  bool inherited = false;  // it is an RPATH: dependencies use it as well
  std::vector<std::string> exports;  // the first ones, cut where very long
  uint64_t export_count = 0;
  std::optional<devrt_manifest_v0> manifest;  // perhaps with wrong values

  absl::Status library;   // a shared object for this machine
  absl::Status plugin;    // with a manifest and an open that we understand
  absl::Status exported;  // and no other symbol of its own

  // The first that is wrong.
  absl::Status status() const;
};

// Texts do not name the file: the caller does.
PluginContents ReadContents(FileBytes bytes,
                            const LibraryKind& kind = kPluginLibrary);

// The same for a library that a plugin needs: no manifest, no exports.
PluginContents ReadLibraryContents(FileBytes bytes);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_PLUGIN_CONTENTS_H_
