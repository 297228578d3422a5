// SPDX-License-Identifier: Apache-2.0
//
// Finds and checks a plugin's manifest in its file, without running its code.

#ifndef DEVRT_RUNTIME_LOADER_ELF_MANIFEST_H_
#define DEVRT_RUNTIME_LOADER_ELF_MANIFEST_H_

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "runtime/loader/elf_file.h"
#include "runtime/loader/library_kind.h"

namespace devrt::internal {

// Reads the manifest of `file`.  Sets `*manifest` as soon as its bytes are
// read, also if a value in it is wrong.  Error texts do not name the file: the
// caller adds the name.
//   FAILED_PRECONDITION  other ABI major
//   INVALID_ARGUMENT     the file is not a usable plugin or layer
absl::Status ReadManifest(const ElfFile& file, const LibraryKind& kind,
                          std::optional<devrt_manifest_v0>* manifest);

// True if a library of this kind may export a symbol `name`: its manifest or
// its open function, of any ABI major.
bool IsSymbolOf(const LibraryKind& kind, std::string_view name);

// OK if this devrt can use the manifest, of a file or linked in.
absl::Status CheckManifest(const devrt_manifest_v0& manifest,
                           const LibraryKind& kind = kPluginLibrary);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_LOADER_ELF_MANIFEST_H_
