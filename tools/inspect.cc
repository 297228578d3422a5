// SPDX-License-Identifier: Apache-2.0
//
// devrt inspect FILE: what a plugin's file says about itself, and whether devrt
// would open it.  Runs no code of the file.

#include "devrt/runtime/inspect.h"

#include <sha2.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/commands.h"
#include "tools/common/arguments.h"
#include "tools/common/describe.h"
#include "tools/common/json.h"
#include "tools/common/terminal.h"
#include "tools/common/text.h"

namespace devrt::tools {
namespace {

constexpr size_t kColumn = 16;

// A refused file that is larger is not read to its end: it may be the image of
// a disk, or terabytes of holes.
constexpr uint64_t kMostHashed = uint64_t{1} << 30;

struct Inspection {
  PluginReport report;
  std::string sha256;         // empty if it was not computed
  std::string why_no_sha256;  // empty if it was computed
};

Inspection Inspect(const std::string& path) {
  Inspection result;
  result.report = InspectPlugin(path);
  if (!result.report.status.ok() && result.report.size > kMostHashed) {
    result.why_no_sha256 = absl::StrFormat(
        "the file is refused and larger than %s", FormatBytes(kMostHashed));
    return result;
  }
  SHA2_CTX context;
  SHA256Init(&context);
  uint64_t bytes = 0;
  result.report = InspectPlugin(path, [&](std::string_view piece) {
    SHA256Update(&context, reinterpret_cast<const uint8_t*>(piece.data()),
                 piece.size());
    bytes += piece.size();
  });
  char digest[SHA256_DIGEST_STRING_LENGTH];
  SHA256End(&context, digest);
  const PluginReport& report = result.report;
  // Either the hash of the whole file or none.
  const bool is_file = report.rules[1].verdict == PluginRule::Verdict::kMet &&
                       report.rules[0].verdict == PluginRule::Verdict::kMet;
  if (is_file && bytes == report.size) {
    result.sha256 = digest;
  } else {
    result.why_no_sha256 = is_file ? "the file changed while it was read"
                                   : "there is no file to read";
  }
  return result;
}

using Lines = std::vector<std::pair<const char*, std::string>>;

void AddManifest(const char* name, const PluginManifest& manifest,
                 Lines* lines) {
  const std::vector<std::string> names = CapabilityNames(manifest.capabilities);
  lines->push_back({name, absl::StrFormat("%s %s, by %s", manifest.backend,
                                          manifest.version, manifest.vendor)});
  lines->push_back(
      {"ABI", absl::StrFormat("major %d, minor %d", manifest.abi_major,
                              manifest.abi_minor)});
  lines->push_back({"priority", std::to_string(manifest.priority)});
  lines->push_back({"capabilities", names.empty() ? std::string("none")
                                                  : absl::StrJoin(names, " ")});
}

std::string ExportsText(const PluginReport& report) {
  std::string text = absl::StrJoin(report.exports, " ");
  if (report.export_count > report.exports.size()) {
    text += absl::StrFormat(" and %d more",
                            report.export_count - report.exports.size());
  }
  return text;
}

Lines Describe(const Inspection& inspection) {
  const PluginReport& report = inspection.report;
  Lines lines;
  if (report.real_path != report.path) {
    lines.push_back({"real path", report.real_path});
  }
  if (report.manifest.has_value()) {
    AddManifest(report.kind == "layer" ? "layer" : "backend", *report.manifest,
                &lines);
  }
  lines.push_back({"machine", report.machine});
  lines.push_back({"build id", report.build_id});
  lines.push_back({"SONAME", report.soname});
  lines.push_back({"exports", ExportsText(report)});
  lines.push_back({"needs", absl::StrJoin(report.needed, " ")});
  lines.push_back({"run path", report.run_path});
  for (const BundledLibrary& library : report.bundled) {
    lines.push_back({"brings along", library.path});
  }
  if (!inspection.sha256.empty() || report.size > kMostHashed) {
    lines.push_back({"size", std::to_string(report.size) + " bytes"});
    lines.push_back({"SHA-256", inspection.sha256.empty()
                                    ? "none: " + inspection.why_no_sha256
                                    : inspection.sha256});
  }
  return lines;
}

// What a plugin does when it is opened cannot be read from its file.
std::string Verdict(const PluginReport& report) {
  if (!report.status.ok()) return "devrt would refuse it.";
  const std::string trial =
      report.kind == "layer" && report.manifest.has_value()
          ? "DEVRT_LAYERS=" + Printable(report.manifest->backend) +
                " devrt list"
          : "devrt list";
  return "devrt would open it. " + trial + " shows whether opening it works.";
}

std::string Text(const Inspection& inspection) {
  const PluginReport& report = inspection.report;
  std::string text = Printable(report.path) + "\n";
  for (const auto& [name, value] : Describe(inspection)) {
    if (value.empty()) continue;
    text += PadRight(std::string("  ") + name, kColumn) +
            Wrap(Printable(value), kTextWidth, kColumn) + "\n";
  }
  text += "\nWhat a plugin must be\n";
  Table table({"VERDICT", "RULE", "EXPECTED"});
  for (const PluginRule& rule : report.rules) {
    table.Add({ToString(rule.verdict), rule.name, rule.expectation},
              Printable(rule.reason));
  }
  text += table.Text(2);
  return text + "\n" + Verdict(report) + "\n";
}

void WriteTexts(const char* key, const std::vector<std::string>& texts,
                JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const std::string& text : texts) json->String(text);
  json->End();
}

void WriteManifest(const PluginManifest& manifest, JsonWriter* json) {
  json->BeginObject();
  json->Key("backend").String(manifest.backend);
  json->Key("vendor").String(manifest.vendor);
  json->Key("version").String(manifest.version);
  json->Key("abi_major").Unsigned(manifest.abi_major);
  json->Key("abi_minor").Unsigned(manifest.abi_minor);
  json->Key("priority").Unsigned(manifest.priority);
  WriteTexts("capabilities", CapabilityNames(manifest.capabilities), json);
  json->End();
}

void WriteRules(const std::vector<PluginRule>& rules, JsonWriter* json) {
  json->BeginArray();
  for (const PluginRule& rule : rules) {
    json->BeginObject().Key("rule").String(rule.name);
    json->Key("expectation").String(rule.expectation);
    json->Key("verdict").String(ToString(rule.verdict));
    json->Key("reason");
    rule.reason.empty() ? json->Null() : json->String(rule.reason);
    json->End();
  }
  json->End();
}

std::string Json(const Inspection& inspection) {
  const PluginReport& report = inspection.report;
  JsonWriter json;
  json.BeginObject().Key("devrt").String(DEVRT_VERSION);
  json.Key("file").String(report.path);
  json.Key("real_path").String(report.real_path);
  json.Key("kind").String(report.kind);
  json.Key("loadable").Bool(report.status.ok());
  json.Key("error");
  report.status.ok() ? void(json.Null()) : WriteError(report.status, &json);
  json.Key("manifest");
  report.manifest.has_value() ? WriteManifest(*report.manifest, &json)
                              : void(json.Null());
  json.Key("machine").String(report.machine);
  json.Key("build_id").String(report.build_id);
  json.Key("soname").String(report.soname);
  WriteTexts("exports", report.exports, &json);
  json.Key("export_count").Unsigned(report.export_count);
  WriteTexts("needed", report.needed, &json);
  json.Key("run_path").String(report.run_path);
  json.Key("bundled").BeginArray();
  for (const BundledLibrary& library : report.bundled) {
    json.BeginObject().Key("name").String(library.name);
    json.Key("path").String(library.path).End();
  }
  json.End();
  json.Key("size").Unsigned(report.size);
  json.Key("sha256");
  inspection.sha256.empty() ? json.Null() : json.String(inspection.sha256);
  json.Key("why_no_sha256");
  inspection.sha256.empty() ? json.String(inspection.why_no_sha256)
                            : json.Null();
  json.Key("rules");
  WriteRules(report.rules, &json);
  json.End();
  return std::move(json).Finish();
}

int RunInspectCommand(const Arguments& arguments) {
  if (arguments.words().empty() || arguments.words()[0].empty()) {
    return UsageError(kInspectCommand, "which FILE is to be inspected?");
  }
  // Not simplified: where "a" is a link, "a/.." is another folder than ".".
  std::error_code error;
  const std::string path =
      std::filesystem::absolute(arguments.words()[0], error).string();
  const Inspection inspection = Inspect(error ? arguments.words()[0] : path);
  Print(arguments.Has(kJsonFlag.name) ? Json(inspection) : Text(inspection));
  if (inspection.report.status.ok()) return kSuccess;
  return Failure(kInspectCommand, Printable(Explain(inspection.report.status)));
}

constexpr Flag kInspectFlags[] = {kJsonFlag, kHelpFlag};

}  // namespace

const Command kInspectCommand = {
    "inspect",
    "FILE",
    "A plugin's file: what it says, and whether it would be opened.",
    "Reads FILE, a plugin or a layer, without running any of it: the manifest "
    "and the capabilities "
    "that it claims, what it exports and needs, its checksum. Then says of "
    "each rule for plugins whether it is met, and how to mend what is not. Of "
    "a file that is damaged, or that is something else, as much is shown as "
    "can be read.\n\n"
    "Opening a plugin runs it, and may fail for what no file shows: devrt list "
    "tries that.\n\n"
    "Fails when devrt would not open the file.",
    kInspectFlags,
    &RunInspectCommand,
};

}  // namespace devrt::tools
