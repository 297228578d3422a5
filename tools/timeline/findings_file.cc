// SPDX-License-Identifier: Apache-2.0
#include "tools/timeline/findings_file.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace devrt::tools {
namespace {

using nlohmann::json;

CheckedOperation ToOperation(const json& value) {
  CheckedOperation operation = {value.at("name"),          value.at("actor"),
                                value.value("access", ""), value.at("site"),
                                value.at("number"),        {}};
  for (const json& frame : value.value("stack", json::array())) {
    operation.stack.push_back({frame.at("function"), frame.at("file"),
                               frame.at("line"), frame.value("module", "")});
  }
  return operation;
}

std::optional<CheckedOperation> OptionalOperation(const json& object,
                                                  const char* key) {
  if (!object.contains(key)) return std::nullopt;
  return ToOperation(object.at(key));
}

// {"op": [0, 17]} as "0.17".  "next_op" is what the thread of a host access
// submits next.
std::string SimulatorsName(const json& operation, bool may_be_next) {
  const char* const key =
      may_be_next && !operation.contains("op") ? "next_op" : "op";
  if (!operation.contains(key)) return "";
  const json& id = operation.at(key);
  return absl::StrCat(id.at(0).get<uint64_t>(), ".", id.at(1).get<uint64_t>());
}

CheckedFinding::Subject SubjectOf(const json& value) {
  using Subject = CheckedFinding::Subject;
  if (value.contains("participants")) return Subject::kObjects;
  const std::string kind = value.at("kind");
  return kind == "use-after-free" || kind == "wrong-device" ? Subject::kUse
                                                            : Subject::kOrder;
}

CheckedFinding ToFinding(const json& value) {
  CheckedFinding finding;
  finding.subject = SubjectOf(value);
  finding.id = value.at("id");
  finding.kind = value.at("kind");
  finding.text = value.at("text");
  finding.remedy = value.at("remedy");
  if (!finding.IsOfPair()) {
    finding.heading = value.at("heading");
    for (const json& part : value.at("participants")) {
      finding.participants.push_back(ToOperation(part));
    }
    return finding;
  }
  finding.earlier = ToOperation(value.at("earlier"));
  finding.later = ToOperation(value.at("later"));
  finding.hold = SimulatorsName(value.at("earlier"), false);
  finding.until = SimulatorsName(value.at("later"), true);
  // The layer tells the order of every pair, also where it says nothing.
  if (!finding.LacksOrder()) return finding;
  finding.last_ordered = OptionalOperation(value, "last_ordered");
  for (const json& miss : value.at("near_misses")) {
    finding.near_misses.push_back({miss.at("kind"), miss.at("text"),
                                   OptionalOperation(miss, "record"),
                                   OptionalOperation(miss, "wait")});
  }
  return finding;
}

class Reader {
 public:
  void Add(const json& value) {
    const std::string record = value.value("record", "finding");
    if (record == "finding") {
      AddFinding(ToFinding(value));
    } else if (record == "begin") {
      ++run_.begun;
    } else if (record == "backend") {
      ++run_.backends;
      if (value.value("simulated", false)) ++run_.simulators;
    } else if (record == "end") {
      AddEnd(value);
    }
  }
  void CountDamaged() { ++run_.damaged; }

  CheckedRun Finish() {
    for (CheckedFinding& finding : run_.findings) {
      finding.count = counts_[finding.id];
    }
    if (run_.ended < run_.begun) return std::move(run_);
    for (const auto& [line, processes] : unmatched_) {
      if (processes == run_.ended) run_.unmatched.push_back(line);
    }
    return std::move(run_);
  }

 private:
  void AddFinding(CheckedFinding finding) {
    const bool known = std::any_of(
        run_.findings.begin(), run_.findings.end(),
        [&](const CheckedFinding& other) { return other.id == finding.id; });
    if (!known) run_.findings.push_back(std::move(finding));
  }

  void AddEnd(const json& value) {
    const std::map<std::string, uint64_t> counts = value.at("counts");
    run_.suppressed += value.at("suppressed").get<uint64_t>();
    run_.left_out += value.at("left_out").get<uint64_t>();
    run_.undeclared += value.value("undeclared", uint64_t{0});
    if (run_.undeclared_at.empty()) {
      run_.undeclared_at = value.value("undeclared_at", "");
    }
    for (const auto& [id, count] : counts) counts_[id] += count;
    for (const json& line : value.at("unmatched")) ++unmatched_[line];
    for (const json& run : value.value("runs", json::array())) {
      run_.outcomes.push_back({run.value("outcome", ""), run.value("token", ""),
                               run.at("restarts")});
    }
    ++run_.ended;
  }

  CheckedRun run_;
  std::map<std::string, uint64_t> counts_;   // by id
  std::map<std::string, size_t> unmatched_;  // the processes, by line
};

}  // namespace

CheckedRun ReadFindings(const std::string& text) {
  Reader reader;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    try {
      reader.Add(json::parse(line));
    } catch (const json::exception&) {
      reader.CountDamaged();  // the disk was full, or others wrote there
    }
  }
  return reader.Finish();
}

SourceLine SourceLineOf(const std::string& site) {
  const size_t colon = site.rfind(':');
  int line = 0;
  if (colon == std::string::npos ||
      !absl::SimpleAtoi(site.substr(colon + 1), &line)) {
    return {site, 0};
  }
  return {site.substr(0, colon), line};
}

}  // namespace devrt::tools
