// SPDX-License-Identifier: Apache-2.0
//
// The findings of a process: each kind and pair of places once, with a count.
// A finding is written when it is made, so that a program that dies loses none.
//
//   DEVRT_RACE_FILE=FILE          findings as lines of JSON, at the file's end
//   DEVRT_RACE_SUPPRESSIONS=FILE  findings that are expected, with reasons
//
// A line of the second file is a reason after what it covers:
//   id:race-7f3a21c4    the copy reads what it wrote, see BUG-12
//   site:*/train.cc:52  the buffer is a guess
//   pair:*/a.cc:*|*/b.cc:*  both update counters that are only printed
//
// Several processes may write one file: one call writes each line, behind the
// lines of the others.  Besides the findings the file has lines that tell
// "no findings" from "nothing was watched":
//   {"record":"begin","layer":"validate","pid":7,"program":"train"}
//   {"record":"backend","name":"mtia","pid":7}
//   {"record":"end","pid":7,"counts":{"race-7f3a21c4":2},"suppressed":0,
//    "left_out":0,"unmatched":[]}
// A process that is killed writes no end.
//
// Threads: one at a time; the caller has the lock.

#ifndef DEVRT_LAYERS_VALIDATE_FINDINGS_H_
#define DEVRT_LAYERS_VALIDATE_FINDINGS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "layers/validate/report.h"

namespace devrt::race {

class Findings {
 public:
  // Where a finding's text goes when it is first made.
  using Log = std::function<void(const std::string& text)>;

  explicit Findings(Log log) : log_(std::move(log)) {}

  ~Findings();
  Findings(const Findings&) = delete;
  Findings& operator=(const Findings&) = delete;

  // Opens the file for lines of JSON, and writes the first.  Returns what is
  // wrong, or "".
  std::string OpenFile(const std::string& path);
  // Writes that the calls to this backend are watched.
  void AddBackend(const std::string& name);
  std::string ReadSuppressions(const std::string& path);

  // Returns the text of the finding, or "" if it is suppressed.
  std::string Add(const Finding& finding, const Names& names);

  // Counts a finding that another library's work may have made unfounded.
  void LeaveOut() { ++left_out_; }

  // A finding that was made once or more often.
  struct Made {
    std::string kind;
    std::string text;  // of the first time
    std::string json;
    uint64_t count = 0;
    uint64_t last = 0;  // its number among all that were made, from 1
  };
  // By id.
  const std::map<std::string, Made>& made() const { return findings_; }
  // Findings so far; a finding that was made again counts again.
  uint64_t total() const { return total_; }

  // What the end of the program prints: counts of findings that were made
  // again, and suppressions that matched nothing.  Empty if there are none, or
  // if a file has them.
  std::string Summary() const;

  // Writes the last line of the file.  Does nothing in a forked child, whose
  // counts are those of the parent.
  void EndFile();

 private:
  struct Suppression {
    std::string id;      // or
    std::string site;    // a glob for either place, or
    std::string second;  // with `site`: globs for both places
    std::string line;    // of the file
    uint64_t matches = 0;
  };
  bool IsSuppressed(const Finding& finding, const std::string& id,
                    const Names& names);

  // Appends the line to the file, if there is one.
  void Write(std::string line);

  Log log_;
  std::string path_;
  int file_ = -1;
  pid_t opener_ = 0;  // the process that wrote the first line
  std::vector<Suppression> suppressions_;
  std::map<std::string, Made> findings_;
  uint64_t total_ = 0;
  uint64_t suppressed_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_FINDINGS_H_
