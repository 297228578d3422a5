// SPDX-License-Identifier: Apache-2.0
//
// devrt new-backend: writes the sources of a new backend.

#include "tools/new_backend.h"

#include <errno.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/status.h"
#include "tools/commands.h"
#include "tools/common/arguments.h"
#include "tools/common/terminal.h"
#include "tools/common/text.h"

namespace devrt::tools {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestName = sizeof devrt_manifest_v0{}.backend - 1;
constexpr char kDefaultLanguage[] = "c++";

bool IsNameCharacter(char c) {
  return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
}

// A valid name near to `name`: "my_chip" for "My-Chip".
std::string NameSuggestion(std::string_view name) {
  std::string better = absl::AsciiStrToLower(std::string(name));
  for (char& c : better) {
    if (!IsNameCharacter(c)) c = '_';
  }
  return CheckBackendName(better).ok()
             ? absl::StrFormat(" (how about \"%s\"?)", better)
             : "";
}

absl::Status BadName(std::string_view name, std::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrFormat("%s cannot be a backend's name: %s", Quoted(name), why));
}

absl::Status BadFolder(const std::string& folder, std::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrFormat("%s: %s", Printable(folder), why));
}

// Files in a folder that was empty or is new.  The destructor removes them, and
// the folder if it is new, unless they are kept.
class NewFolder {
 public:
  explicit NewFolder(std::string path) : path_(std::move(path)) {}
  ~NewFolder() {
    if (kept_) return;
    std::error_code ignored;
    for (const std::string& file : files_) fs::remove(file, ignored);
    if (made_) fs::remove(path_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  absl::Status Make() {
    made_ = mkdir(path_.c_str(), 0777) == 0;
    if (made_) return absl::OkStatus();
    if (errno != EEXIST) return BadFolder(path_, std::strerror(errno));
    std::error_code error;
    const bool folder = fs::is_directory(path_, error);
    if (!error && !folder) return BadFolder(path_, "is there, and no folder");
    const bool empty = !error && fs::is_empty(path_, error);
    if (error) return BadFolder(path_, error.message());
    return empty ? absl::OkStatus()
                 : BadFolder(path_, "is there, and not empty");
  }

  absl::Status Add(const std::string& name, std::string_view text) {
    files_.push_back(path_ + "/" + name);
    return WriteFile(files_.back(), text);
  }

  void Keep() { kept_ = true; }
  size_t size() const { return files_.size(); }

 private:
  const std::string path_;
  bool made_ = false;
  bool kept_ = false;
  std::vector<std::string> files_;
};

absl::Status Write(const std::string& language, const std::string& name,
                   NewFolder* folder) {
  DEVRT_RETURN_IF_ERROR(folder->Make());
  for (size_t i = 0; i < kTemplateSize; ++i) {
    const TemplateFile& file = kTemplate[i];
    if (file.language != language) continue;
    DEVRT_RETURN_IF_ERROR(folder->Add(file.name, Instantiate(file.text, name)));
  }
  folder->Keep();
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadLanguage(const Arguments& arguments) {
  const std::vector<std::string> languages = {kDefaultLanguage, "c"};
  const std::string language = arguments.Get("--language", kDefaultLanguage);
  if (std::count(languages.begin(), languages.end(), language) == 1) {
    return language;
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("--language is c++ or c, not %s", Quoted(language)));
}

std::string NextSteps(const std::string& name, const std::string& folder,
                      size_t files) {
  return absl::StrFormat(
      "Wrote %s to %s. Next:\n\n"
      "  cd %s\n"
      "  meson setup build\n"
      "  meson compile -C build\n"
      "  DEVRT_PLUGINS=$PWD/build/libdevrt_%s.so devrt list\n\n"
      "README.md there tells more.\n",
      Counted(files, "file"), Printable(AbsolutePath(folder)),
      ShellWord(folder), name);
}

int RunNewBackendCommand(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.words();
  if (words.empty()) return UsageError(kNewBackendCommand, "needs a NAME");
  const std::string& name = words[0];
  const std::string folder = words.size() > 1 ? words[1] : name;
  const absl::Status named = CheckBackendName(name);
  if (!named.ok()) {
    return UsageError(kNewBackendCommand,
                      Explain(named) + NameSuggestion(name));
  }
  const absl::StatusOr<std::string> language = ReadLanguage(arguments);
  if (!language.ok()) {
    return UsageError(kNewBackendCommand, Explain(language.status()));
  }
  if (folder.empty()) return UsageError(kNewBackendCommand, "DIR is empty");
  NewFolder made(folder);
  const absl::Status status = Write(*language, name, &made);
  if (!status.ok()) return Failure(kNewBackendCommand, Explain(status));
  Print(NextSteps(name, folder, made.size()));
  return kSuccess;
}

constexpr Flag kNewBackendFlags[] = {
    {"--language", "LANGUAGE",
     "c++: a class to fill in; c: a small complete backend to replace piece by "
     "piece (default: c++)."},
    kHelpFlag,
};

}  // namespace

absl::Status CheckBackendName(std::string_view name) {
  if (name.empty()) return BadName(name, "it is empty");
  if (name.size() > kLongestName) {
    return BadName(name,
                   absl::StrFormat("it has %d characters, %d are the most",
                                   name.size(), kLongestName));
  }
  if (!absl::ascii_islower(name[0]) ||
      !std::all_of(name.begin(), name.end(), IsNameCharacter)) {
    return BadName(name,
                   "it has to be lower-case letters, digits and '_', a letter "
                   "first");
  }
  for (const char* const taken : {"cuda", "hip", "mtia"}) {
    if (name == taken) return BadName(name, "devrt has one of that name");
  }
  if (name.find("__") != std::string_view::npos || name.back() == '_') {
    return BadName(name,
                   "C++ keeps names with \"__\" for itself, and more is put "
                   "behind this one");
  }
  return absl::OkStatus();
}

std::string Instantiate(std::string_view text, std::string_view name) {
  const absl::string_view lower(name.data(), name.size());
  const std::string upper = absl::AsciiStrToUpper(lower);
  return absl::StrReplaceAll(absl::string_view(text.data(), text.size()),
                             {{"mybackend", lower},
                              {"MYBACKEND", upper},
                              {"@DEVRT_VERSION@", DEVRT_VERSION}});
}

const Command kNewBackendCommand = {
    "new-backend",
    "NAME [DIR]",
    "The sources of a new backend, to begin with.",
    "Writes a backend named NAME into the folder DIR (default: NAME), which "
    "must "
    "be empty or not be there: its sources, a build with Meson against the "
    "installed devrt, a test and a README. It compiles and loads as it "
    "stands.\n\n"
    "In C++ it has one device, and answers UNIMPLEMENTED, naming the file, for "
    "what is not filled in. In C it is complete: one device in host memory.\n\n"
    "NAME is what stands before the ':' in the names of devices: lower-case "
    "letters, digits and '_'. docs/tutorials/5-write-a-backend.md leads on "
    "from there.",
    kNewBackendFlags,
    &RunNewBackendCommand,
};

}  // namespace devrt::tools
