// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/device_count.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>

namespace devrt::cuda {
namespace {

// Lists a folder without names that begin with a dot.  Returns false if there
// is none.
bool List(const std::string& folder, std::vector<std::string>* names) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(folder.c_str()),
                                                 &closedir);
  if (open == nullptr) return false;
  while (const dirent* const entry = readdir(open.get())) {
    if (entry->d_name[0] != '.') names->emplace_back(entry->d_name);
  }
  return true;
}

// Returns the value after "key:" in a file of such lines, or "".
std::string Value(const std::string& path, const std::string& key) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      std::fopen(path.c_str(), "re"), &std::fclose);
  char line[256];
  while (file != nullptr && std::fgets(line, sizeof line, file.get())) {
    const std::string text = line;
    if (text.compare(0, key.size() + 1, key + ":") != 0) continue;
    const size_t begin = text.find_first_not_of(" \t", key.size() + 1);
    const size_t end = text.find_last_not_of(" \t\n");
    if (begin == std::string::npos || begin > end) return "";
    return text.substr(begin, end - begin + 1);
  }
  return "";
}

bool HasMigInstances(const std::string& root, const std::string& minor) {
  std::vector<std::string> names;
  List(root + "/proc/driver/nvidia/capabilities/gpu" + minor + "/mig", &names);
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name.compare(0, 2, "gi") == 0;
  });
}

}  // namespace

bool ReadDevices(const std::string& root, std::vector<std::string>* uuids) {
  const std::string gpus = root + "/proc/driver/nvidia/gpus";
  std::vector<std::string> names;
  if (!List(gpus, &names)) return false;
  uuids->clear();
  for (const std::string& name : names) {
    const std::string file = gpus + "/" + name + "/information";
    if (Value(file, "GPU Excluded") == "Yes") continue;
    const std::string uuid = Value(file, "GPU UUID");
    const std::string minor = Value(file, "Device Minor");
    if (uuid.compare(0, 4, "GPU-") != 0 || minor.empty()) return false;
    const std::string node = root + "/dev/nvidia" + minor;
    if (access(node.c_str(), R_OK | W_OK) != 0) return false;
    if (HasMigInstances(root, minor)) return false;
    uuids->push_back(uuid);
  }
  return true;
}

int CountVisible(const std::vector<std::string>& uuids, const char* visible) {
  const int all = static_cast<int>(uuids.size());
  if (visible == nullptr) return all;
  const std::string list = visible;
  std::set<std::string> seen;
  bool by_uuid = false;
  int count = 0;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    const std::string word = list.substr(at, end - at);
    at = end + 1;
    const bool is_uuid = word.compare(0, 4, "GPU-") == 0;
    if (count > 0 && is_uuid != by_uuid) return kUnknownCount;
    by_uuid = is_uuid;
    if (word == "GPU-") return kUnknownCount;
    if (is_uuid) {
      const auto begins_so = [&](const std::string& uuid) {
        return uuid.compare(0, word.size(), word) == 0;
      };
      if (std::count_if(uuids.begin(), uuids.end(), begins_so) != 1) break;
    } else if (word.empty() || word == "-1") {
      break;
    } else if (word.find_first_not_of("0123456789") != std::string::npos) {
      return kUnknownCount;
    } else if (std::strtol(word.c_str(), nullptr, 10) >= all) {
      break;
    }
    if (!seen.insert(word).second) return kUnknownCount;
    ++count;
  }
  return count;
}

}  // namespace devrt::cuda
