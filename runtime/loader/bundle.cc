// SPDX-License-Identifier: Apache-2.0
#include "runtime/loader/bundle.h"

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "runtime/common/text.h"
#include "runtime/loader/path_walk.h"

namespace devrt::internal {
namespace {

constexpr size_t kMostLibraries = 256;

using Directories = std::vector<std::string>;

std::string DirectoryOf(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

// Removes $ORIGIN or ${ORIGIN} from the beginning of `text`.  $ORIGINAL does
// not match, as in the dynamic linker.
bool ConsumeOrigin(absl::string_view* text) {
  if (absl::ConsumePrefix(text, "${ORIGIN}")) return true;
  absl::string_view rest = *text;
  if (!absl::ConsumePrefix(&rest, "$ORIGIN")) return false;
  if (!rest.empty() && (absl::ascii_isalnum(rest[0]) || rest[0] == '_')) {
    return false;
  }
  *text = rest;
  return true;
}

// Replaces $ORIGIN in `entry` by `origin`; nullopt if another $ is left.
std::optional<std::string> PutOrigin(absl::string_view entry,
                                     const std::string& origin) {
  std::string directory;
  while (!entry.empty()) {
    if (ConsumeOrigin(&entry)) {
      directory += origin;
    } else if (entry[0] == '$') {
      return std::nullopt;
    } else {
      directory += entry[0];
      entry.remove_prefix(1);
    }
  }
  return directory;
}

class Search {
 public:
  // `inherited` are the RPATHs of the libraries that need `file`.
  void AddWhatIsNeededBy(const PluginFile& file, const Directories& inherited) {
    Directories own = RunPath(file);
    if (file.contents.inherited) {
      own.insert(own.end(), inherited.begin(), inherited.end());
    }
    const Directories& passed_on = file.contents.inherited ? own : inherited;
    for (const std::string& name : file.contents.needed) {
      if (name.find('/') == std::string::npos) {
        for (const std::string& directory : own) {
          if (TryAdd(file, directory + "/" + name, name, passed_on)) break;
        }
      } else if (name[0] == '/') {
        JudgeDirectory(file, "needs a library in ", DirectoryOf(name));
        TryAdd(file, name, name, passed_on);
      } else {
        bundle_.run_paths.Update(absl::InvalidArgumentError(absl::StrCat(
            PathText(file.path), ": needs ", Quoted(name),
            ", which depends on the current directory; expected a name "
            "without '/' or an absolute path")));
      }
    }
  }

  Bundle TakeBundle() { return std::move(bundle_); }

 private:
  Directories RunPath(const PluginFile& file) {
    Directories directories;
    if (file.contents.run_path.empty()) return directories;
    for (const absl::string_view entry :
         absl::StrSplit(file.contents.run_path, ':')) {
      // With $ORIGIN as the path says, like the dynamic linker, and as the
      // directory of the real file.
      for (const std::string& path : {file.path, file.real_path}) {
        const std::string origin = DirectoryOf(path);
        std::optional<std::string> directory = PutOrigin(entry, origin);
        if (!directory.has_value() || !absl::StartsWith(*directory, "/")) {
          bundle_.run_paths.Update(absl::InvalidArgumentError(absl::StrCat(
              PathText(file.path), ": its run path ",
              Quoted(file.contents.run_path), " has ", Quoted(ToStd(entry)),
              "; expected absolute directories and $ORIGIN: patchelf "
              "--set-rpath or the linker's -rpath sets them")));
          return directories;
        }
        while (directory->size() > 1 && directory->back() == '/') {
          directory->pop_back();
        }
        if (directories.empty() || directories.back() != *directory) {
          JudgeDirectory(file, "its run path leads to ", *directory);
          directories.push_back(*std::move(directory));
        }
      }
    }
    return directories;
  }

  // Also checks an empty or missing directory: a file that others put there
  // would run at the next load, if not at this one.
  void JudgeDirectory(const PluginFile& needed_by, const char* why,
                      const std::string& directory) {
    const WalkedPath walked = WalkPath(directory + "/", Trust::OfThisProcess());
    absl::Status first = walked.owner;
    first.Update(walked.writers);
    first.Update(walked.adders);
    bundle_.run_paths.Update(
        WithSuffix(WithPrefix(absl::StrCat(PathText(needed_by.path), ": ", why,
                                           PathText(directory), ": "),
                              first),
                   "; or make the plugin without that directory"));
  }

  // False if there is no such file.
  bool TryAdd(const PluginFile& needed_by, const std::string& path,
              const std::string& name, const Directories& inherited) {
    PluginFile file = OpenLibraryFile(path, needed_by.purpose);
    if (absl::IsNotFound(file.found)) return false;
    const auto refuse = [&](const absl::Status& why) {
      bundle_.trusted.Update(
          WithPrefix(absl::StrCat(PathText(needed_by.path), ": needs "), why));
      return true;
    };
    if (absl::Status why = file.trust(); !why.ok()) return refuse(why);
    if (!seen_.insert({file.info.st_dev, file.info.st_ino}).second) return true;
    if (seen_.size() > kMostLibraries) {
      return refuse(absl::InvalidArgumentError(
          absl::StrCat("more than ", kMostLibraries, " libraries")));
    }
    absl::Status why = file.contents.library;
    if (why.ok() && file.contents.soname != name) {
      why = absl::InvalidArgumentError(absl::StrCat(
          "its SONAME is ", Quoted(file.contents.soname),
          "; expected the name by which it is needed: patchelf --set-soname ",
          ShellWord(name), " sets it"));
    }
    if (!why.ok()) {
      return refuse(WithPrefix(absl::StrCat(PathText(path), ": "), why));
    }
    AddWhatIsNeededBy(file, inherited);
    bundle_.libraries.push_back(std::move(file));
    return true;
  }

  std::set<std::pair<dev_t, ino_t>> seen_;
  Bundle bundle_;
};

}  // namespace

Bundle FindBundle(const PluginFile& plugin) {
  Search search;
  search.AddWhatIsNeededBy(plugin, {});
  return search.TakeBundle();
}

}  // namespace devrt::internal
