// SPDX-License-Identifier: Apache-2.0
#include "runtime/loader/plugin_directory.h"

#include <filesystem>
#include <system_error>

namespace devrt::internal {
namespace {

namespace fs = std::filesystem;

// The library folder of an installation, then that of a build tree.
constexpr const char* kLibraryFolders[] = {DEVRT_LIBDIR_FROM_BINDIR, "../lib"};

}  // namespace

std::string PluginDirectory(const std::string& file,
                            const std::string& program) {
  if (file.empty()) return std::string();
  std::error_code ignored;
  const fs::path folder = fs::path(file).parent_path();
  const fs::path beside = folder / "devrt";
  if (file != program || fs::is_directory(beside, ignored)) {
    return beside.string();
  }
  for (const char* libraries : kLibraryFolders) {
    const fs::path candidate =
        (folder / libraries / "devrt").lexically_normal();
    if (fs::is_directory(candidate, ignored)) return candidate.string();
  }
  // `beside` may be the command bin/devrt itself instead of a folder.
  if (!fs::exists(beside, ignored)) return beside.string();
  return (folder / kLibraryFolders[0] / "devrt").lexically_normal().string();
}

}  // namespace devrt::internal
