// SPDX-License-Identifier: Apache-2.0
//
// Runs programs in a child process with the validate layer, and reads what the
// layer found.
//
//   FindingsFile file;
//   file.RunInChild([&] { ... devrt ... });
//   EXPECT_THAT(file.Kinds(), Contains("read-after-write"));
//
// Threads: one.

#ifndef DEVRT_TESTS_LAYERS_VALIDATE_FINDINGS_H_
#define DEVRT_TESTS_LAYERS_VALIDATE_FINDINGS_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/subprocess.h"

namespace devrt::testing {

class FindingsFile {
 public:
  FindingsFile()
      : path_(::testing::TempDir() + "findings." + std::to_string(getpid()) +
              ".json") {
    std::filesystem::remove(path_);  // the layer appends to a file
  }
  FindingsFile(const FindingsFile&) = delete;
  FindingsFile& operator=(const FindingsFile&) = delete;
  ~FindingsFile() { std::filesystem::remove(path_); }

  // The simulator may find a mistake, too, and fail the program: the result
  // says so, and is no failure of the test by itself.
  ProcessResult RunInChild(const std::function<void()>& program,
                           int seconds = kSubprocessSeconds) const {
    return testing::RunInChild(
        [&] {
          setenv("DEVRT_LAYERS", "validate", 1);
          setenv("DEVRT_RACE_FILE", path_.c_str(), 1);
          setenv("DEVRT_LOG", "off", 1);
          setenv("DEVRT_MTIA", "devices=2", 1);
          program();
        },
        seconds);
  }

  // Each finding is there as soon as the layer has made it.
  std::vector<nlohmann::json> Findings() const {
    std::vector<nlohmann::json> findings;
    std::ifstream lines(path_);
    for (std::string line; std::getline(lines, line);) {
      nlohmann::json record = nlohmann::json::parse(line);
      // The layer's first line names the program.
      if (record.contains("kind")) findings.push_back(std::move(record));
    }
    return findings;
  }
  uint64_t Count() const { return Findings().size(); }
  std::set<std::string> Kinds() const {
    std::set<std::string> kinds;
    for (const nlohmann::json& finding : Findings()) {
      kinds.insert(finding.at("kind"));
    }
    return kinds;
  }
  // All findings, for messages; empty if there are none.
  std::string Text() const {
    std::string text;
    for (const nlohmann::json& finding : Findings()) {
      text += finding.dump(2) + "\n";
    }
    return text;
  }

 private:
  const std::string path_;
};

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_LAYERS_VALIDATE_FINDINGS_H_
