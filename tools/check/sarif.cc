// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/check/reports.h"
#include "tools/check/witness.h"
#include "tools/common/json.h"
#include "tools/common/text.h"

namespace devrt::tools {
namespace {

namespace fs = std::filesystem;

constexpr char kRoot[] = "%SRCROOT%";  // the base of relative paths

struct Rule {
  const char* kind;
  const char* meaning;
};
constexpr Rule kRules[] = {
    {"write-after-write",
     "Two operations write the same memory, and nothing orders them."},
    {"read-after-write",
     "An operation reads memory without waiting for the operation that writes "
     "it."},
    {"write-after-read",
     "An operation writes memory without waiting for an operation that reads "
     "it."},
    {"use-before-allocation",
     "A stream uses memory without waiting for its allocation on another "
     "stream."},
    {"use-after-free", "An operation uses memory that was freed."},
    {"free-while-used",
     "Memory is freed without waiting for work that uses it."},
    {"reuse-while-used",
     "An allocator hands memory out again while work still uses it."},
    {"host-access-in-flight",
     "The host uses memory without waiting for work that uses it."},
    {"leak", "An object of the program is alive at the end."},
    {"deadlock", "A thread waits for work that cannot go on."},
    {"wrong-device",
     "A kernel uses memory of a device that its own device cannot reach."},
};

std::string MeaningOf(const std::string& kind) {
  for (const Rule& rule : kRules) {
    if (kind == rule.kind) return rule.meaning;
  }
  return absl::StrCat("The validate layer reports ", kind, ".");
}

// Percent-encodes what may not stand in the path of a URI.
std::string UriPath(std::string_view path) {
  std::string out;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) ||
        std::string_view("-._~/").find(c) != std::string_view::npos) {
      out += c;
    } else {
      absl::StrAppendFormat(&out, "%%%02X", byte);
    }
  }
  return out;
}

// The path of a source, relative to the current folder if the file is in it.
// Compilers note the path from the folder of the build: "../src/train.cc".
std::string RelativePath(const std::string& file) {
  std::error_code ignored;
  const fs::path path = fs::path(file).lexically_normal();
  if (path.is_absolute()) {
    const fs::path relative =
        path.lexically_relative(fs::current_path(ignored));
    return relative.empty() || *relative.begin() == ".." ? path.string()
                                                         : relative.string();
  }
  fs::path inside;
  for (const fs::path& part : path) {
    if (part != "..") inside /= part;
  }
  return fs::exists(inside, ignored) ? inside.string() : path.string();
}

class SarifWriter {
 public:
  explicit SarifWriter(const CheckedRun& run) : run_(run) {
    for (const CheckedFinding& finding : run.findings) {
      if (RuleIndex(finding.kind) == kinds_.size()) {
        kinds_.push_back(finding.kind);
      }
    }
  }

  std::string Text(const std::vector<std::string>& command, int exit_code) {
    json_.BeginObject();
    json_.Key("$schema").String(
        "https://json.schemastore.org/sarif-2.1.0.json");
    json_.Key("version").String("2.1.0");
    json_.Key("runs").BeginArray().BeginObject();
    WriteTool();
    WriteInvocation(command, exit_code);
    json_.Key("columnKind").String("utf16CodeUnits");
    json_.Key("results").BeginArray();
    for (const CheckedFinding& finding : run_.findings) WriteResult(finding);
    json_.End().End().End().End();
    return std::move(json_).Finish();
  }

 private:
  size_t RuleIndex(const std::string& kind) const {
    return static_cast<size_t>(std::find(kinds_.begin(), kinds_.end(), kind) -
                               kinds_.begin());
  }

  void WriteText(const char* key, std::string_view text) {
    json_.Key(key).BeginObject().Key("text").String(text).End();
  }

  void WriteTool() {
    json_.Key("tool").BeginObject().Key("driver").BeginObject();
    json_.Key("name").String("devrt check");
    json_.Key("version").String(DEVRT_VERSION);
    json_.Key("rules").BeginArray();
    for (const std::string& kind : kinds_) {
      json_.BeginObject().Key("id").String(kind);
      WriteText("shortDescription", MeaningOf(kind));
      json_.Key("defaultConfiguration").BeginObject();
      json_.Key("level").String("error").End();
      json_.End();
    }
    json_.End().End().End();
  }

  void WriteInvocation(const std::vector<std::string>& command, int exit_code) {
    std::error_code ignored;
    // Ends with a slash, as the format asks.
    const fs::path folder = fs::current_path(ignored) / "";
    json_.Key("originalUriBaseIds").BeginObject();
    json_.Key(kRoot).BeginObject();
    json_.Key("uri").String("file://" + UriPath(folder.string()));
    json_.End().End();
    json_.Key("invocations").BeginArray().BeginObject();
    json_.Key("commandLine")
        .String(absl::StrJoin(command, " ",
                              [](std::string* out, const std::string& word) {
                                out->append(ShellWord(word));
                              }));
    json_.Key("exitCode").Number(exit_code);
    json_.Key("executionSuccessful").Bool(exit_code == 0);
    json_.End().End();
  }

  void WriteResult(const CheckedFinding& finding) {
    json_.BeginObject().Key("ruleId").String(finding.kind);
    json_.Key("ruleIndex").Unsigned(RuleIndex(finding.kind));
    json_.Key("level").String("error");
    WriteText("message", Message(finding));
    json_.Key("locations").BeginArray();
    if (finding.IsOfPair()) {
      WriteLocation(finding.later, "later: ");
      WriteLocation(finding.earlier, "earlier: ");
    } else {
      WriteLocation(finding.participants[0], "");
    }
    json_.End();
    json_.Key("relatedLocations").BeginArray();
    for (size_t i = 1; i < finding.participants.size(); ++i) {
      WriteLocation(finding.participants[i], "participant: ");
    }
    if (finding.last_ordered) {
      WriteLocation(*finding.last_ordered, "last common order: ");
    }
    for (const CheckedNearMiss& miss : finding.near_misses) {
      if (miss.record) WriteLocation(*miss.record, "near miss: ");
      if (miss.wait) WriteLocation(*miss.wait, "near miss: ");
    }
    json_.End();
    WriteStacks(finding);
    json_.Key("partialFingerprints").BeginObject();
    json_.Key("devrtFindingId/v1").String(finding.id).End();
    if (finding.witness.has_value() && finding.witness->confirmed()) {
      json_.Key("properties").BeginObject();
      json_.Key("witness").String(VariablesText(*finding.witness)).End();
    }
    if (finding.count > 0) {
      json_.Key("occurrenceCount").Unsigned(finding.count);
    }
    json_.End();
  }

  static bool HasStacks(const CheckedFinding& finding) {
    const auto has = [](const CheckedOperation& operation) {
      return !operation.stack.empty();
    };
    return has(finding.later) || has(finding.earlier) ||
           std::any_of(finding.participants.begin(), finding.participants.end(),
                       has);
  }

  void WriteStacks(const CheckedFinding& finding) {
    if (!HasStacks(finding)) return;
    json_.Key("stacks").BeginArray();
    WriteStack(finding.later, "later: ");
    WriteStack(finding.earlier, "earlier: ");
    for (const CheckedOperation& part : finding.participants) {
      WriteStack(part, "");
    }
    json_.End();
  }

  void WriteStack(const CheckedOperation& operation, const char* role) {
    if (operation.stack.empty()) return;
    json_.BeginObject();
    WriteText("message", role + OperationText(operation));
    json_.Key("frames").BeginArray();
    for (const CheckedFrame& frame : operation.stack) {
      json_.BeginObject();
      if (!frame.module.empty()) json_.Key("module").String(frame.module);
      json_.Key("location").BeginObject();
      if (!frame.file.empty()) WritePlace({frame.file, frame.line});
      if (!frame.function.empty()) {
        json_.Key("logicalLocations").BeginArray().BeginObject();
        json_.Key("fullyQualifiedName").String(frame.function);
        json_.Key("kind").String("function").End().End();
      }
      json_.End().End();
    }
    json_.End().End();
  }

  static std::string OperationText(const CheckedOperation& operation) {
    return absl::StrFormat("%s%s\"%s\" on %s", operation.access,
                           operation.access.empty() ? "" : " ", operation.name,
                           operation.actor);
  }

  // The first sentence says what is wrong: viewers show it in lists.
  static std::string Message(const CheckedFinding& finding) {
    if (!finding.IsOfPair()) {
      return absl::StrFormat("%s: %s. To mend it: %s.", finding.kind,
                             finding.heading, finding.remedy);
    }
    const std::string earlier = OperationText(finding.earlier);
    const std::string later = OperationText(finding.later);
    std::string text =
        finding.LacksOrder()
            ? absl::StrFormat("%s: nothing orders the %s after the %s.",
                              finding.kind, later, earlier)
            : absl::StrFormat("%s: the %s, after the %s.", finding.kind, later,
                              earlier);
    text += absl::StrFormat(" To mend it: %s.", finding.remedy);
    for (const CheckedNearMiss& miss : finding.near_misses) {
      text += absl::StrFormat(" Near miss: %s.", miss.text);
    }
    if (finding.witness.has_value()) {
      text += absl::StrFormat(" Witness: %s.", finding.witness->text);
    }
    return text;
  }

  // Nothing for an operation whose line is unknown.
  void WriteLocation(const CheckedOperation& operation, const char* role) {
    const SourceLine source = SourceLineOf(operation.site);
    if (source.file.empty()) return;
    json_.BeginObject();
    WritePlace(source);
    WriteText("message", role + OperationText(operation));
    json_.End();
  }

  void WritePlace(const SourceLine& source) {
    const std::string path = RelativePath(source.file);
    json_.Key("physicalLocation").BeginObject();
    json_.Key("artifactLocation").BeginObject();
    if (fs::path(path).is_absolute()) {
      json_.Key("uri").String("file://" + UriPath(path));
    } else {
      json_.Key("uri").String(UriPath(path));
      json_.Key("uriBaseId").String(kRoot);
    }
    json_.End();
    if (source.line > 0) {
      json_.Key("region").BeginObject().Key("startLine").Number(source.line);
      json_.End();
    }
    json_.End();
  }

  const CheckedRun& run_;
  std::vector<std::string> kinds_;  // of the findings, each once
  JsonWriter json_;
};

}  // namespace

std::string CheckSarif(const CheckedRun& run,
                       const std::vector<std::string>& command, int exit_code) {
  return SarifWriter(run).Text(command, exit_code);
}

}  // namespace devrt::tools
