// SPDX-License-Identifier: Apache-2.0
//
// Reads what the validate layer wrote to DEVRT_RACE_FILE: lines of JSON from
// one process or several (layers/validate/findings.h).

#ifndef DEVRT_TOOLS_TIMELINE_FINDINGS_FILE_H_
#define DEVRT_TOOLS_TIMELINE_FINDINGS_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace devrt::tools {

// A function of a call stack.
struct CheckedFrame {
  std::string function;  // "Trainer::epoch"; may be empty
  std::string file;      // empty: the module has no debug information
  int line = 0;
  std::string module;  // "train+0x1234"; only without a file
};

// A call of the program that submitted work, or used memory on the host.
struct CheckedOperation {
  std::string name;     // "scale"
  std::string actor;    // "stream 1 of mtia:0"
  std::string access;   // "write"; empty for a record and a wait
  std::string site;     // "train.cc:52"; empty if the program told no line
  uint64_t number = 0;  // in the order of the calls of its process
  std::vector<CheckedFrame> stack;  // the innermost first; may be empty
};

// An event that nearly ordered the two operations.
struct CheckedNearMiss {
  std::string kind;  // "recorded-before"
  std::string text;  // a sentence without a full stop
  std::optional<CheckedOperation> record;
  std::optional<CheckedOperation> wait;
};

// The result of the directed runs on the simulator for a finding.
struct CheckedWitness {
  enum class Result : uint8_t {
    kNone,         // no directed run is possible
    kUnconfirmed,  // all runs computed what the reference run did
    kWrongValue,
    kOtherExit,  // another exit code than that of the reference run
    kHang,       // the run did not end in its time
  };
  Result result = Result::kNone;
  int runs = 0;       // directed runs; of a result, the last one showed it
  std::string text;   // a sentence without a full stop
  std::string token;  // of that run; may be empty
  // The variables of the environment that repeat that run.
  std::vector<std::pair<std::string, std::string>> variables;

  bool confirmed() const { return result >= Result::kWrongValue; }
};

struct CheckedFinding {
  enum class Subject : uint8_t {
    kOrder,    // nothing orders two operations: a wait mends it
    kUse,      // of two operations; no wait mends it: the memory is freed, or
               // on a device that the second operation cannot reach
    kObjects,  // those of a leak or a deadlock
  };
  Subject subject = Subject::kOrder;
  std::string id;    // "race-7f3a21c4"
  std::string kind;  // "read-after-write"; a newer layer may have others
  std::string text;  // several lines
  std::string remedy;
  // Of objects.  They have no two operations.
  std::string heading;  // "1 stream of mtia:0 is alive at the end"
  std::vector<CheckedOperation> participants;
  CheckedOperation earlier;
  CheckedOperation later;
  // The newest operation of the earlier stream that the later one comes after.
  std::optional<CheckedOperation> last_ordered;
  std::vector<CheckedNearMiss> near_misses;
  // How often it occurred, in all processes that told.
  uint64_t count = 0;
  // The operations as the simulator names them, "0.17"; empty: it does not.
  std::string hold;
  std::string until;
  std::optional<CheckedWitness> witness;  // if one was asked for

  bool IsOfPair() const { return subject != Subject::kObjects; }
  bool LacksOrder() const { return subject == Subject::kOrder; }
};

// The outcome of a process on a simulator.
struct CheckedOutcome {
  std::string hash;   // empty if the simulator kept none
  std::string token;  // of its schedule; may be empty
  uint64_t restarts = 0;
};

struct CheckedRun {
  std::vector<CheckedFinding> findings;  // each id once, in order of the file
  size_t begun = 0;                      // processes that loaded the layer
  size_t backends = 0;                   // opened under it, in all processes
  size_t ended = 0;  // those of them that wrote their counts
  uint64_t suppressed = 0;
  uint64_t left_out = 0;    // another library's work may have ordered the pair
  uint64_t undeclared = 0;  // kernels and host functions without accesses
  std::string undeclared_at;  // the site of the first; may be empty
  // Lines of the file of suppressions that matched nothing in any process.
  // Empty if a process did not tell.
  std::vector<std::string> unmatched;
  size_t damaged = 0;     // lines that are no record of the layer
  size_t simulators = 0;  // among `backends`
  // Of the processes that ended and were asked for it.
  std::vector<CheckedOutcome> outcomes;
};

CheckedRun ReadFindings(const std::string& text);

// The file and the line of "train.cc:52"; line 0 if there is none.
struct SourceLine {
  std::string file;
  int line = 0;
};
SourceLine SourceLineOf(const std::string& site);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_TIMELINE_FINDINGS_FILE_H_
