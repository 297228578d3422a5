// SPDX-License-Identifier: Apache-2.0
//
// The ELF reader and all that inspection reads from a file's bytes.

#include <string_view>

#include "runtime/loader/elf_manifest.h"
#include "runtime/loader/plugin_contents.h"
#include "tests/fuzz/entry.h"

namespace devrt::internal {
namespace {

size_t TextBytes(const PluginContents& contents) {
  size_t bytes = contents.soname.size() + contents.run_path.size();
  for (const std::string& name : contents.needed) bytes += name.size();
  for (const std::string& name : contents.exports) bytes += name.size();
  return bytes;
}

void Check(const PluginContents& contents, size_t size) {
  FUZZ_EXPECT(TextBytes(contents) <= size);
  FUZZ_EXPECT(contents.exports.size() <= contents.export_count);
  FUZZ_EXPECT(contents.build_id.size() <= 128);
}

void Try(FileBytes bytes) {
  const PluginContents plugin = ReadContents(bytes);
  Check(plugin, bytes.size());
  if (plugin.plugin.ok()) {
    FUZZ_EXPECT(plugin.manifest.has_value());
    FUZZ_EXPECT(CheckManifest(*plugin.manifest).ok());
  }
  const PluginContents library = ReadLibraryContents(bytes);
  Check(library, bytes.size());
  FUZZ_EXPECT(library.library == plugin.library);
  FUZZ_EXPECT(ElfFile::Parse(bytes).ok() || !plugin.library.ok());
}

}  // namespace
}  // namespace devrt::internal

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  devrt::internal::Try(devrt::internal::FileBytes(
      std::string_view(reinterpret_cast<const char*>(data), size)));
  return 0;
}
