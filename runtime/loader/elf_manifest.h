// SPDX-License-Identifier: Apache-2.0
//
// Finds and checks a plugin's manifest in its file, without running any of its
// code.

#ifndef DEVRT_RUNTIME_INTERNAL_ELF_MANIFEST_H_
#define DEVRT_RUNTIME_INTERNAL_ELF_MANIFEST_H_

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "runtime/loader/elf_file.h"
#include "runtime/loader/library_kind.h"

namespace devrt::internal {

// The manifest of `file`, into `manifest` as soon as it could be read, also
// where a value in it is wrong.  Texts do not name the file: the caller does.
//   FAILED_PRECONDITION  for another ABI major
//   INVALID_ARGUMENT     anything else that is not a usable plugin, or layer
absl::Status ReadManifest(const ElfFile& file, const LibraryKind& kind,
                          std::optional<devrt_manifest_v0>* manifest);

// Whether a library of this kind may export the symbol of that name: its
// manifest or its open function, of any ABI major.
bool IsSymbolOf(const LibraryKind& kind, std::string_view name);

// OK for a manifest that this devrt can use; also for linked-in ones.
absl::Status CheckManifest(const devrt_manifest_v0& manifest,
                           const LibraryKind& kind = kPluginLibrary);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_ELF_MANIFEST_H_
