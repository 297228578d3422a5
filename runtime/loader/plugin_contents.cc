// SPDX-License-Identifier: Apache-2.0
#include "runtime/loader/plugin_contents.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/common/text.h"
#include "runtime/loader/elf_manifest.h"

namespace devrt::internal {
namespace {

constexpr size_t kMostExports = 64;
constexpr size_t kMostNeeded = 256;
constexpr size_t kLongestExport = 256;

// Limits texts to a part of the file's size, because a hostile file may refer
// to one long name any number of times.
class Budget {
 public:
  explicit Budget(uint64_t file_size) : left_(file_size / 2) {}
  bool Spend(const std::string& text) {
    // A vector that grows briefly needs twice the memory of its contents.
    const uint64_t cost = 2 * (sizeof text + text.size() + 1);
    if (cost > left_) return false;
    left_ -= cost;
    return true;
  }

 private:
  uint64_t left_;
};

absl::Status ReadNames(const ElfFile& file, PluginContents* contents,
                       Budget* budget) {
  absl::Status status;
  const auto take = [&](std::optional<std::string> text, std::string* to) {
    if (!text.has_value()) return;
    if (!budget->Spend(*text)) {
      status = absl::InvalidArgumentError(
          "damaged: its dynamic section names more than the file can hold");
      return;
    }
    *to = *std::move(text);
  };
  take(file.Soname(), &contents->soname);
  std::optional<std::string> run_path = file.RunPath();
  contents->inherited = !run_path.has_value();
  take(contents->inherited ? file.RPath() : std::move(run_path),
       &contents->run_path);
  file.ForEachNeeded([&](const std::optional<std::string>& name) {
    if (!name.has_value() || name->empty()) {
      status.Update(absl::InvalidArgumentError(
          "damaged: the name of a library that it needs cannot be read"));
      return true;
    }
    if (contents->needed.size() == kMostNeeded) {
      status.Update(absl::InvalidArgumentError(absl::StrCat(
          "damaged: it needs more than ", kMostNeeded, " libraries")));
      return false;
    }
    std::string text;
    take(*name, &text);
    if (!text.empty()) contents->needed.push_back(std::move(text));
    return true;
  });
  return status;
}

// Symbols that compilers and linkers add; docs/reference/plugin-contract.md
// lists them.
bool IsToolchainSymbol(std::string_view name) {
  static constexpr std::string_view kNames[] = {"__bss_start", "_edata", "_end",
                                                "_fini", "_init"};
  static constexpr std::string_view kPrefixes[] = {
      "__asan_",  "__gcov_",    "__llvm_",   "__lsan_",
      "__msan_",  "__odr_asan", "__sancov_", "__sanitizer_",
      "__start_", "__stop_",    "__tsan_",   "__ubsan_"};
  const auto begins = [&](std::string_view prefix) {
    return name.substr(0, prefix.size()) == prefix;
  };
  return std::find(std::begin(kNames), std::end(kNames), name) !=
             std::end(kNames) ||
         std::any_of(std::begin(kPrefixes), std::end(kPrefixes), begins);
}

absl::Status ReadExports(const ElfFile& file, const LibraryKind& kind,
                         PluginContents* contents, Budget* budget) {
  absl::Status status;
  bool listing = true;
  status.Update(file.ForEachExport([&](const Elf64_Sym& symbol) {
    std::string name = file.Name(symbol, kLongestExport);
    if (name.empty()) return;  // nothing can refer to it
    ++contents->export_count;
    if (!IsSymbolOf(kind, name) && !IsToolchainSymbol(name)) {
      status.Update(absl::InvalidArgumentError(absl::StrCat(
          "exports ", Quoted(name), "; a ", kind.noun, " exports ",
          kind.manifest_symbol, " and ", kind.open_symbol,
          " and nothing else: hide it with a linker's version script")));
    }
    listing = listing && contents->exports.size() < kMostExports &&
              budget->Spend(name);
    if (listing) contents->exports.push_back(std::move(name));
  }));
  return status;
}

}  // namespace

absl::Status PluginContents::status() const {
  absl::Status first = library;
  first.Update(plugin);
  first.Update(exported);
  return first;
}

PluginContents ReadContents(FileBytes bytes, const LibraryKind& kind) {
  PluginContents contents;
  Budget budget(bytes.size());
  const ElfFile file = ElfFile::ParseAsFarAsPossible(bytes, &contents.library);
  contents.machine = file.Machine();
  contents.build_id = file.BuildId();
  contents.library.Update(ReadNames(file, &contents, &budget));
  contents.plugin = ReadManifest(file, kind, &contents.manifest);
  contents.exported = ReadExports(file, kind, &contents, &budget);
  return contents;
}

PluginContents ReadLibraryContents(FileBytes bytes) {
  PluginContents contents;
  Budget budget(bytes.size());
  const ElfFile file = ElfFile::ParseAsFarAsPossible(bytes, &contents.library);
  contents.machine = file.Machine();
  contents.library.Update(ReadNames(file, &contents, &budget));
  return contents;
}

}  // namespace devrt::internal
