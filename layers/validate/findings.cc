// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/findings.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace devrt::race {
namespace {

using nlohmann::json;

// Bytes that are not UTF-8 become U+FFFD: paths may hold any bytes.
std::string OneLine(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// A number that JSON keeps exactly in all its readers.
std::string Hexadecimal(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, value);
  return text;
}

json RunJson(const RunSummary& run) {
  json out = {{"backend", run.backend}, {"restarts", run.restarts}};
  if (run.outcome.has_value()) out["outcome"] = Hexadecimal(*run.outcome);
  if (!run.token.empty()) out["token"] = run.token;
  return out;
}

bool Matches(const std::string& glob, const std::string& text) {
  return fnmatch(glob.c_str(), text.c_str(), 0) == 0;
}

}  // namespace

std::string Findings::OpenFile(const std::string& path) {
  // The program may change its folder.
  path_ = std::filesystem::absolute(path).string();
  opener_ = getpid();
  if (Append(OneLine({{"record", "begin"},
                      {"layer", "validate"},
                      {"pid", opener_},
                      {"program", program_invocation_short_name}}))) {
    return "";
  }
  return "cannot write the findings to " + path + ": " + std::strerror(errno);
}

Findings::~Findings() {
  if (HasOpenFile()) close(file_);
}

bool Findings::HasOpenFile() const {
  struct stat now = {};
  return file_ >= 0 && fstat(file_, &now) == 0 && now.st_dev == device_ &&
         now.st_ino == inode_;
}

bool Findings::OpenAgain() {
  file_ = open(path_.c_str(),
               O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
  struct stat now = {};
  if (file_ < 0 || fstat(file_, &now) != 0) return false;
  device_ = now.st_dev;
  inode_ = now.st_ino;
  return true;
}

void Findings::AddBackend(const std::string& name, bool is_simulated) {
  Write(OneLine({{"record", "backend"},
                 {"name", name},
                 {"simulated", is_simulated},
                 {"pid", getpid()}}));
}

// One call writes the whole line, since the lines of other processes may come
// between two calls.
bool Findings::Append(std::string line) {
  // A program may close all files that it does not know, and open its own.
  if (!HasOpenFile() && !OpenAgain()) return false;
  line += '\n';
  for (size_t done = 0; done < line.size();) {
    const ssize_t n = write(file_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

void Findings::Write(std::string line) {
  if (path_.empty() || Append(std::move(line))) return;
  log_("cannot write the findings to " + path_ + ": " + std::strerror(errno) +
       "; the file lacks further findings");
  path_.clear();
}

void Findings::EndFile() {
  if (getpid() != opener_) return;
  json counts = json::object();
  for (const auto& [id, made] : findings_) counts[id] = made.count;
  uint64_t left_out = 0;
  for (const auto& [why, count] : left_out_) left_out += count;
  json unmatched = json::array();
  for (const Suppression& one : suppressions_) {
    if (one.matches == 0) unmatched.push_back(one.line);
  }
  json end = {{"record", "end"},
              {"pid", opener_},
              {"counts", std::move(counts)},
              {"suppressed", suppressed_},
              {"left_out", left_out},
              {"undeclared", undeclared_},
              {"undeclared_at", undeclared_at_},
              {"unmatched", std::move(unmatched)}};
  for (const RunSummary& run : runs_) end["runs"].push_back(RunJson(run));
  Write(OneLine(end));
}

std::string Findings::ReadSuppressions(const std::string& path) {
  std::ifstream file(path);
  if (!file) return "cannot read the suppressions " + path;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    const auto wrong = [&](const char* why) {
      return path + ":" + std::to_string(number) + ": " + why + ": " + line;
    };
    const size_t colon = line.find(':');
    const size_t space = line.find_first_of(" \t");
    if (space == std::string::npos ||
        line.find_first_not_of(" \t", space) == std::string::npos) {
      return wrong("a suppression needs a reason after what it covers");
    }
    if (colon == std::string::npos || colon > space) {
      return wrong("a suppression begins with id:, site: or pair:");
    }
    const std::string kind = line.substr(0, colon);
    const std::string what = line.substr(colon + 1, space - colon - 1);
    Suppression made;
    made.line = path + ":" + std::to_string(number) + ": " + line;
    if (kind == "id") {
      made.id = what;
    } else if (kind == "site") {
      made.site = what;
    } else if (kind == "pair" && what.find('|') != std::string::npos) {
      made.site = what.substr(0, what.find('|'));
      made.second = what.substr(what.find('|') + 1);
    } else {
      return wrong("a suppression is id:ID, site:GLOB or pair:GLOB|GLOB");
    }
    suppressions_.push_back(std::move(made));
  }
  if (file.bad()) return "cannot read the suppressions " + path;  // a folder
  return "";
}

bool Findings::IsSuppressed(const std::string& id,
                            const std::vector<std::string>& sites) {
  const auto has = [&](const std::string& glob, size_t except) {
    for (size_t i = 0; i < sites.size(); ++i) {
      if (i != except && Matches(glob, sites[i])) return true;
    }
    return false;
  };
  for (Suppression& one : suppressions_) {
    bool matches = false;
    if (!one.id.empty()) {
      matches = one.id == id;
    } else if (one.second.empty()) {
      matches = has(one.site, sites.size());
    } else {
      for (size_t i = 0; i < sites.size() && !matches; ++i) {
        matches = Matches(one.site, sites[i]) && has(one.second, i);
      }
    }
    if (!matches) continue;
    ++one.matches;
    return true;
  }
  return false;
}

void Findings::LeaveOut(const std::string& why) {
  if (++left_out_[why] != 1) return;
  log_("validate: an unordered pair is left out, and maybe more: " + why);
}

Findings::Made& Findings::Count(const std::string& id) {
  Made& made = findings_[id];
  made.last = ++total_;
  ++made.count;
  return made;
}

const std::string& Findings::Publish(const Made& made) {
  log_(made.text);
  Write(made.json);
  return made.text;
}

std::string Findings::Add(const Finding& finding, const Names& names) {
  const std::string id = FindingId(finding, names);
  if (IsSuppressed(id, {names.Text(finding.earlier.site),
                        names.Text(finding.later.site)})) {
    ++suppressed_;
    return "";
  }
  Made& made = Count(id);
  if (made.count == 1 || made.run != run_) {
    const OpId hold = names.OpOf(finding.earlier);
    const OpId until = names.OpOf(finding.later);
    made.hold = hold.kind == OpId::Kind::kOwn ? hold.Text() : "";
    made.until = until.known() ? until.Text() : "";
    made.run = run_;
  }
  if (made.count > 1) return made.text;
  made.kind = KindName(finding.kind);
  made.text = FindingText(finding, names);
  made.json = FindingJson(finding, names);
  return Publish(made);
}

std::string Findings::Add(const Notice& notice) {
  const std::string id = NoticeId(notice);
  std::vector<std::string> sites;
  for (const Notice::Part& part : notice.parts) sites.push_back(part.site);
  if (IsSuppressed(id, sites)) {
    ++suppressed_;
    return "";
  }
  Made& made = Count(id);
  if (made.count > 1) return made.text;
  made.kind = notice.kind;
  made.text = NoticeText(notice);
  made.json = NoticeJson(notice);
  return Publish(made);
}

std::string Findings::Summary() const {
  // Each finding was printed when it was made.
  std::string text;
  if (!path_.empty()) return text;
  const auto add = [&text](const std::string& line) {
    text += (text.empty() ? "validate: " : "\n  ") + line;
  };
  for (const auto& [id, made] : findings_) {
    if (made.count > 1) add(id + ": " + std::to_string(made.count) + " times");
  }
  if (suppressed_ != 0) add(std::to_string(suppressed_) + " suppressed");
  for (const auto& [why, count] : left_out_) {
    add(std::to_string(count) + " unordered pairs left out: " + why);
  }
  for (const Suppression& one : suppressions_) {
    if (one.matches == 0) add("matched nothing: " + one.line);
  }
  return text;
}

}  // namespace devrt::race
