// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/discovery.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "runtime/common/text.h"
#include "runtime/loader/plugin_directory.h"
#include "runtime/loader/plugin_file.h"

namespace devrt::internal {
namespace {

using Result = LoadAttempt::Result;

constexpr char kFilePrefix[] = "libdevrt_";
constexpr char kFileSuffix[] = ".so";

std::string Variable(const char* name, std::vector<std::string>* ignored) {
  if (const char* value = secure_getenv(name)) return value;
  if (getenv(name) != nullptr) ignored->push_back(name);
  return std::string();
}

// Resolves symbolic links; empty if there is no such file.
std::string Canonical(const std::string& path) {
  char* resolved = realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return std::string();
  std::string result = resolved;
  free(resolved);
  return result;
}

// The file that is mapped at `address`.  /proc/self/maps gives its absolute
// name, independent of argv[0] and of the current directory.
std::string MappedFile(const void* address) {
  std::ifstream maps("/proc/self/maps");
  const uintptr_t wanted = reinterpret_cast<uintptr_t>(address);
  std::string line;
  while (std::getline(maps, line)) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
    const size_t path = line.find('/');
    if (begin <= wanted && wanted < end && path != std::string::npos) {
      return line.substr(path);
    }
  }
  return std::string();
}

// The file that contains this code: libdevrt.so, or the program.
std::string OwnFile() {
  const void* self = reinterpret_cast<const void*>(&ReadEnvironment);
  Dl_info info;
  const bool known = dladdr(self, &info) != 0 && info.dli_fname != nullptr;
  return Canonical(known && info.dli_fname[0] == '/' ? info.dli_fname
                                                     : MappedFile(self));
}

std::string DefaultDirectory() {
  return PluginDirectory(OwnFile(), Canonical("/proc/self/exe"));
}

std::vector<std::string> SplitPaths(const std::string& list) {
  return absl::StrSplit(list, ':', absl::SkipEmpty());
}

Finding Refused(const std::string& source, const std::string& path,
                absl::Status why) {
  Finding finding;
  finding.attempt.source = source;
  finding.attempt.path = path;
  finding.attempt.result = Result::kRefused;
  finding.attempt.status = std::move(why);
  return finding;
}

Finding Ignored(const std::string& variable) {
  Finding finding;
  finding.attempt.source = variable;
  finding.attempt.result = Result::kIgnored;
  finding.attempt.status = absl::FailedPreconditionError(absl::StrCat(
      variable,
      " is ignored: this program has more rights than the user who started it "
      "(set-user-id, set-group-id or capabilities); a plugin that it is to use "
      "belongs into the folder devrt/ beside the devrt library"));
  return finding;
}

Finding Searched(const std::string& source, const std::string& path) {
  Finding finding;
  finding.attempt.source = source;
  finding.attempt.path = path;
  finding.attempt.result = Result::kSearched;
  return finding;
}

absl::StatusOr<std::vector<std::string>> PluginFiles(
    const std::string& directory) {
  DIR* stream = opendir(directory.c_str());
  if (stream == nullptr) {
    const std::string text =
        absl::StrCat(PathText(directory), ": ", std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(text)
                           : absl::InvalidArgumentError(text);
  }
  std::vector<std::string> files;
  while (const dirent* entry = readdir(stream)) {
    const absl::string_view name = entry->d_name;
    if (absl::StartsWith(name, kFilePrefix) &&
        absl::EndsWith(name, kFileSuffix)) {
      files.push_back(absl::StrCat(directory, "/", name));
    }
  }
  closedir(stream);
  std::sort(files.begin(), files.end());
  return files;
}

// Collects the findings in order, and knows the names and files seen before.
class Search {
 public:
  void AddFile(const std::string& source, const std::string& path) {
    Finding finding = Examine(source, path);
    if (finding.attempt.result == Result::kFound) {
      for (const Finding& earlier : findings_) {
        const bool same_name =
            earlier.attempt.result == Result::kFound &&
            earlier.attempt.backend == finding.attempt.backend;
        if (!same_name) continue;
        MarkShadowed(earlier.attempt, &finding.attempt);
        break;
      }
    }
    findings_.push_back(std::move(finding));
  }

  void AddIgnored(const std::string& variable) {
    findings_.push_back(Ignored(variable));
  }

  void AddDirectory(const std::string& source, const std::string& path) {
    if (absl::Status why = CheckAbsolute(path); !why.ok()) {
      findings_.push_back(
          Refused(source, path, WithPrefix(source + ": ", why)));
      return;
    }
    absl::StatusOr<std::vector<std::string>> files = PluginFiles(path);
    // The default directory may be missing: the user did not name it.
    if (absl::IsNotFound(files.status()) && source == kSourceDefault) {
      findings_.push_back(Searched(source, path));
      findings_.back().attempt.status = files.status();
      return;
    }
    if (!files.ok()) {
      findings_.push_back(Refused(source, path, files.status()));
      return;
    }
    findings_.push_back(Searched(source, path));
    if (!directories_.insert(Canonical(path)).second) return;
    for (const std::string& file : *files) AddFile(source, file);
  }

  void Add(Finding finding) { findings_.push_back(std::move(finding)); }
  std::vector<Finding> TakeFindings() { return std::move(findings_); }

 private:
  std::vector<Finding> findings_;
  std::set<std::string> directories_;
};

}  // namespace

Environment ReadEnvironment() {
  Environment environment;
  std::vector<std::string>* const ignored = &environment.ignored;
  environment.plugins = Variable(kSourcePlugins, ignored);
  environment.plugin_path = Variable(kSourcePluginPath, ignored);
  environment.backends = Variable("DEVRT_BACKENDS", ignored);
  environment.layers = Variable(kSourceLayers, ignored);
  environment.layer_path = Variable("DEVRT_LAYER_PATH", ignored);
  environment.default_directory = DefaultDirectory();
  return environment;
}

bool FileExists(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0;
}

Finding Examine(const std::string& source, const std::string& path,
                const LibraryKind& kind) {
  if (absl::Status why = CheckAbsolute(path); !why.ok()) {
    return Refused(source, path, WithPrefix(source + ": ", why));
  }
  const PluginFile file = OpenPluginFile(path, kind);
  if (absl::Status why = file.status(); !why.ok()) {
    return Refused(source, path, std::move(why));
  }
  Finding finding;
  finding.attempt.source = source;
  finding.attempt.path = path;
  finding.attempt.backend = file.contents.manifest->backend;
  finding.attempt.version = file.contents.manifest->version;
  finding.attempt.result = Result::kFound;
  finding.canonical = file.real_path;
  finding.manifest = *file.contents.manifest;
  return finding;
}

void MarkShadowed(const LoadAttempt& earlier, LoadAttempt* later) {
  later->result = Result::kShadowed;
  const bool same_file =
      !later->path.empty() && Canonical(earlier.path) == Canonical(later->path);
  const std::string before =
      earlier.path.empty() ? "the program itself" : PathText(earlier.path);
  const std::string path = PathText(later->path);
  later->status = absl::AlreadyExistsError(
      same_file ? absl::StrCat(path, ": named twice, first by ", earlier.source)
                : absl::StrCat(later->path.empty() ? later->source : path,
                               ": backend ", Quoted(later->backend),
                               " already comes from ", before, " (",
                               earlier.source, ")"));
}

std::vector<Finding> Discover(const Environment& environment) {
  Search search;
  for (const std::string& variable : environment.ignored) {
    search.AddIgnored(variable);
  }
  if (!environment.plugins.empty()) {
    // If the user named files, only these count.
    const std::vector<std::string> paths = SplitPaths(environment.plugins);
    for (const std::string& path : paths) search.AddFile(kSourcePlugins, path);
    if (paths.empty()) {
      search.Add(Refused(kSourcePlugins, environment.plugins,
                         absl::InvalidArgumentError(absl::StrCat(
                             "DEVRT_PLUGINS=", Quoted(environment.plugins),
                             " names no file, and so there are no backends: "
                             "name some, or unset it"))));
    }
    return search.TakeFindings();
  }
  for (const std::string& path : SplitPaths(environment.plugin_path)) {
    search.AddDirectory(kSourcePluginPath, path);
  }
  if (!environment.default_directory.empty()) {
    search.AddDirectory(kSourceDefault, environment.default_directory);
  }
  return search.TakeFindings();
}

}  // namespace devrt::internal
