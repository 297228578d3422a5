// SPDX-License-Identifier: Apache-2.0
//
// Reads what the validate layer wrote to DEVRT_RACE_FILE: lines of JSON from
// one process or several (layers/validate/findings.h).

#ifndef DEVRT_TOOLS_CHECK_FINDINGS_FILE_H_
#define DEVRT_TOOLS_CHECK_FINDINGS_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace devrt::tools {

// A call of the program that submitted work, or used memory on the host.
struct CheckedOperation {
  std::string name;     // "scale"
  std::string actor;    // "stream 1 of mtia:0"
  std::string access;   // "write"; empty for a record and a wait
  std::string site;     // "train.cc:52"; empty if the program told no line
  uint64_t number = 0;  // in the order of the calls of its process
};

// An event that nearly ordered the two operations.
struct CheckedNearMiss {
  std::string kind;  // "recorded-before"
  std::string text;  // a sentence without a full stop
  std::optional<CheckedOperation> record;
  std::optional<CheckedOperation> wait;
};

struct CheckedFinding {
  std::string id;    // "race-7f3a21c4"
  std::string kind;  // "read-after-write"
  std::string text;  // several lines
  std::string remedy;
  CheckedOperation earlier;
  CheckedOperation later;
  // The newest operation of the earlier stream that the later one comes after.
  std::optional<CheckedOperation> last_ordered;
  std::vector<CheckedNearMiss> near_misses;
  // How often it occurred, in all processes that told.
  uint64_t count = 0;

  // False for a use after a free and on a wrong device, which no wait mends.
  bool LacksOrder() const {
    return kind != "use-after-free" && kind != "wrong-device";
  }
};

struct CheckedRun {
  std::vector<CheckedFinding> findings;  // each id once, in order of the file
  size_t begun = 0;                      // processes that loaded the layer
  size_t backends = 0;                   // opened under it, in all processes
  size_t ended = 0;  // those of them that wrote their counts
  uint64_t suppressed = 0;
  uint64_t left_out = 0;  // another library's work may have ordered the pair
  // Lines of the file of suppressions that matched nothing in any process.
  // Empty if a process did not tell.
  std::vector<std::string> unmatched;
  size_t damaged = 0;  // lines that are no record of the layer
};

CheckedRun ReadFindings(const std::string& text);

// The file and the line of "train.cc:52"; line 0 if there is none.
struct SourceLine {
  std::string file;
  int line = 0;
};
SourceLine SourceLineOf(const std::string& site);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_CHECK_FINDINGS_FILE_H_
