// SPDX-License-Identifier: Apache-2.0
//
// The plugins of tests/abi/plugins, and folders to put copies of them in.

#ifndef DEVRT_TESTS_UNIT_RUNTIME_PLUGIN_FILES_H_
#define DEVRT_TESTS_UNIT_RUNTIME_PLUGIN_FILES_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace devrt::testing {

inline std::string PluginDirectory() {
  const char* directory = std::getenv("DEVRT_TEST_PLUGIN_DIR");
  return directory != nullptr ? directory : "DEVRT_TEST_PLUGIN_DIR is not set";
}

inline std::string PluginPath(const std::string& name) {
  return PluginDirectory() + "/libdevrt_" + name + ".so";
}

// The bytes of a file.
inline std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// An empty folder, gone with its contents at the end of the scope.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name = "devrt test") {
    std::string pattern =
        (std::filesystem::temp_directory_path() / (name + ".XXXXXX")).string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

  // Puts a copy of a plugin there and returns its path.
  std::string Add(const std::string& plugin, const std::string& as = "") const {
    const std::string target =
        path_ + "/libdevrt_" + (as.empty() ? plugin : as) + ".so";
    std::filesystem::copy_file(PluginPath(plugin), target);
    return target;
  }

 private:
  std::string path_;
};

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_UNIT_RUNTIME_PLUGIN_FILES_H_
