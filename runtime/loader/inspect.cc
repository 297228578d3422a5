// SPDX-License-Identifier: Apache-2.0
#include "devrt/runtime/inspect.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "runtime/common/text.h"
#include "runtime/loader/bundle.h"
#include "runtime/loader/elf_manifest.h"
#include "runtime/loader/plugin_file.h"
#include "runtime/loader/trust.h"

namespace devrt {
namespace {

using internal::Bundle;
using internal::PluginContents;
using internal::PluginFile;
using Verdict = PluginRule::Verdict;

template <size_t kSize>
std::string FieldText(const char (&field)[kSize]) {
  return std::string(field, strnlen(field, kSize));
}

PluginManifest ManifestOf(const devrt_manifest_v0& manifest) {
  PluginManifest result;
  result.struct_size = manifest.struct_size;
  result.abi_major = manifest.abi_major;
  result.abi_minor = manifest.abi_minor;
  result.priority = manifest.priority;
  result.capabilities = manifest.capabilities;
  result.backend = FieldText(manifest.backend);
  result.vendor = FieldText(manifest.vendor);
  result.version = FieldText(manifest.version);
  return result;
}

// Collects the rules in order.  A rule that depends on a broken one is unknown.
class Rules {
 public:
  explicit Rules(PluginReport* report) : report_(report) {}

  void Add(const char* name, std::string expectation, bool judged,
           const absl::Status& status) {
    PluginRule rule;
    rule.name = name;
    rule.expectation = std::move(expectation);
    if (!status.ok()) {
      rule.verdict = Verdict::kBroken;
      rule.reason = std::string(internal::ToStd(status.message()));
    } else if (judged) {
      rule.verdict = Verdict::kMet;
    }
    report_->rules.push_back(std::move(rule));
  }

 private:
  PluginReport* report_;
};

void AddRules(const PluginFile& file, const Bundle& bundle,
              PluginReport* report) {
  const PluginContents& contents = file.contents;
  const std::string who = internal::Trust::OfThisProcess().Who();
  const bool found = file.found.ok();
  const bool read = file.fd.is_open();
  const bool library = read && contents.library.ok();
  Rules rules(report);
  rules.Add("path", "an absolute path that leads to a readable file", true,
            file.found);
  rules.Add("regular_file", "a regular file", found, file.regular);
  rules.Add("owner",
            absl::StrCat("the file and what leads to it belong to ", who),
            found, file.owner);
  rules.Add("writers",
            absl::StrCat("nobody else than ", who, " can write there"), found,
            file.writers);
  rules.Add("library", "a shared object for this machine", read,
            contents.library);
  rules.Add("plugin", "a manifest and an open function of a known ABI major",
            read && library,
            read && library ? contents.plugin : absl::OkStatus());
  rules.Add("exports", "nothing else is exported but what compilers add",
            library, library ? contents.exported : absl::OkStatus());
  rules.Add("run_path",
            absl::StrCat("absolute directories and $ORIGIN only, and only ",
                         who, " can put libraries there"),
            library, bundle.run_paths);
  rules.Add("bundled", "each library that it leads to meets these rules",
            library, bundle.trusted);
}

bool IsLayer(const PluginFile& file) {
  const std::vector<std::string>& exports = file.contents.exports;
  return !file.contents.manifest.has_value() &&
         std::any_of(exports.begin(), exports.end(), [](const auto& name) {
           return internal::IsSymbolOf(internal::kLayerLibrary, name);
         });
}

void FeedBytes(const PluginFile& file, const BytesSink& sink) {
  char buffer[1 << 16];
  const uint64_t size = file.size();
  for (uint64_t at = 0; at < size; at += sizeof buffer) {
    const uint64_t length = std::min<uint64_t>(size - at, sizeof buffer);
    if (!file.bytes().Read(at, buffer, length)) return;
    sink(std::string_view(buffer, length));
  }
}

}  // namespace

std::string CapabilityNames(uint64_t capabilities) {
  static constexpr std::pair<uint64_t, const char*> kNames[] = {
#define DEVRT_CAPABILITY(name) {DEVRT_CAP_##name, #name},
#include "devrt/backends/abi/devrt_capabilities.inc"
  };
  std::vector<std::string> names;
  for (const auto& [bit, name] : kNames) {
    if ((capabilities & bit) != 0) names.emplace_back(name);
    capabilities &= ~bit;
  }
  for (int bit = 0; capabilities != 0; ++bit, capabilities >>= 1) {
    if ((capabilities & 1) != 0) names.push_back(absl::StrCat("bit ", bit));
  }
  return absl::StrJoin(names, ", ");
}

const char* ToString(PluginRule::Verdict verdict) {
  switch (verdict) {
    case Verdict::kMet:
      return "met";
    case Verdict::kBroken:
      return "broken";
    case Verdict::kUnknown:
      return "unknown";
  }
  return "unknown";
}

PluginReport InspectPlugin(std::string_view path, const BytesSink& sink) {
  PluginFile file = internal::OpenPluginFile(std::string(path));
  PluginReport report;
  report.kind = internal::kPluginLibrary.noun;
  if (IsLayer(file)) {
    report.kind = internal::kLayerLibrary.noun;
    file.contents =
        internal::ReadContents(file.bytes(), internal::kLayerLibrary);
  }
  report.path = std::string(path);
  Bundle bundle;
  if (file.contents.library.ok()) bundle = internal::FindBundle(file);
  AddRules(file, bundle, &report);
  report.status = file.status();
  report.status.Update(bundle.status());
  if (sink != nullptr && file.fd.is_open()) FeedBytes(file, sink);
  if (file.found.ok()) {
    report.real_path = file.real_path;
    report.size = file.size();
  }
  for (const PluginFile& library : bundle.libraries) {
    report.bundled.push_back({library.contents.soname, library.real_path});
  }
  PluginContents& contents = file.contents;
  if (contents.manifest.has_value()) {
    report.manifest = ManifestOf(*contents.manifest);
  }
  report.machine = std::move(contents.machine);
  report.build_id = std::move(contents.build_id);
  report.soname = std::move(contents.soname);
  report.needed = std::move(contents.needed);
  report.run_path = std::move(contents.run_path);
  report.exports = std::move(contents.exports);
  report.export_count = contents.export_count;
  return report;
}

}  // namespace devrt
