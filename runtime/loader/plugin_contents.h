// SPDX-License-Identifier: Apache-2.0
//
// The contents of a plugin's or layer's file: manifest, exports, needed
// libraries.  This part of an inspection reads bytes only; it does not ask who
// wrote the file or where the file lies.
//
//   PluginContents contents = ReadContents(FileBytes(fd, size));
//   if (!contents.status().ok()) return contents.status();
//   Use(*contents.manifest);
//
// A damaged or foreign file is read as far as possible.  All texts together
// take at most a part of the file's size in memory.

#ifndef DEVRT_RUNTIME_LOADER_PLUGIN_CONTENTS_H_
#define DEVRT_RUNTIME_LOADER_PLUGIN_CONTENTS_H_

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
  std::string machine;   // "x86-64"; empty if the file is not an ELF file
  std::string build_id;  // hexadecimal, may be empty
  std::string soname;
  std::vector<std::string> needed;
  std::string run_path;    // RUNPATH, or RPATH if there is no RUNPATH
  bool inherited = false;  // run_path is an RPATH: dependencies also use it
  std::vector<std::string> exports;  // the first ones; long names are cut
  uint64_t export_count = 0;
  std::optional<devrt_manifest_v0> manifest;  // values may be wrong

  absl::Status library;   // OK: a shared object for this machine
  absl::Status plugin;    // OK: has a usable manifest and open function
  absl::Status exported;  // OK: exports no other symbol of its own

  // The first error of the three.
  absl::Status status() const;
};

// Error texts do not name the file: the caller adds the name.
PluginContents ReadContents(FileBytes bytes,
                            const LibraryKind& kind = kPluginLibrary);

// Reads a library that a plugin needs.  Skips manifest and exports.
PluginContents ReadLibraryContents(FileBytes bytes);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_LOADER_PLUGIN_CONTENTS_H_
