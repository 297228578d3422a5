// SPDX-License-Identifier: Apache-2.0
#include "tools/check/findings_file.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "nlohmann/json.hpp"

namespace devrt::tools {
namespace {

using nlohmann::json;

CheckedOperation ToOperation(const json& value) {
  return {value.at("name"), value.at("actor"), value.value("access", ""),
          value.at("site"), value.at("number")};
}

std::optional<CheckedOperation> OptionalOperation(const json& object,
                                                  const char* key) {
  if (!object.contains(key)) return std::nullopt;
  return ToOperation(object.at(key));
}

CheckedFinding ToFinding(const json& value) {
  CheckedFinding finding;
  finding.id = value.at("id");
  finding.kind = value.at("kind");
  finding.text = value.at("text");
  finding.remedy = value.at("remedy");
  finding.earlier = ToOperation(value.at("earlier"));
  finding.later = ToOperation(value.at("later"));
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
    for (const auto& [id, count] : counts) counts_[id] += count;
    for (const json& line : value.at("unmatched")) ++unmatched_[line];
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
