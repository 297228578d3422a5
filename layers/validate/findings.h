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
//   {"record":"backend","name":"mtia","simulated":true,"pid":7}
//   {"record":"end","pid":7,"counts":{"race-7f3a21c4":2},"suppressed":0,
//    "left_out":0,"undeclared":0,"undeclared_at":"","unmatched":[]}
// With DEVRT_RACE=witness the last line has "runs", one for each simulator:
//   {"backend":"mtia","restarts":0,"outcome":"0f3c...","token":"dvs1:..."}
// A process that is killed writes no end.
//
// Threads: one at a time; the caller has the lock.

#ifndef DEVRT_LAYERS_VALIDATE_FINDINGS_H_
#define DEVRT_LAYERS_VALIDATE_FINDINGS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layers/validate/notice.h"
#include "layers/validate/report.h"

namespace devrt::race {

// The result of a run on a simulator.
struct RunSummary {
  std::string backend;
  uint64_t restarts = 0;  // by the program: only the last part is told of
  std::optional<uint64_t> outcome;  // none: the simulator keeps no outcome
  std::string token;                // repeats the run; may be empty
};

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
  void AddBackend(const std::string& name, bool is_simulated);
  // A simulator was restarted, and names operations anew.
  void StartRun() { ++run_; }
  // For the last line of the file.
  void AddRun(RunSummary run) { runs_.push_back(std::move(run)); }
  std::string ReadSuppressions(const std::string& path);

  // Returns the text of the finding, or "" if it is suppressed.
  std::string Add(const Finding& finding, const Names& names);

  std::string Add(const Notice& notice);

  // Counts an unordered pair that is no finding, and logs the first one with
  // this reason.
  void LeaveOut(const std::string& why);
  // Counts `count` more of them, without a log.
  void CountLeftOut(const std::string& why, uint64_t count) {
    if (count != 0) left_out_[why] += count;
  }

  // Work at `site` that declares no memory: what it uses is not seen.
  void CountUndeclared(const std::string& site) {
    if (++undeclared_ == 1) undeclared_at_ = site;
  }

  // A finding that was made once or more often.
  struct Made {
    std::string kind;
    std::string text;  // of the first time
    std::string json;
    // The operations of the first time in the newest run of the simulator, as
    // it names them; may be empty.
    std::string hold;
    std::string until;
    uint64_t run = 0;  // of these names
    uint64_t count = 0;
    uint64_t last = 0;  // its number among all that were made, from 1
  };
  // By id.
  const std::map<std::string, Made>& made() const { return findings_; }
  // Findings so far; a finding that was made again counts again.
  uint64_t total() const { return total_; }

  // The text that the end of the program prints: counts of findings that were
  // made again or left out, and suppressions that matched nothing.  Empty if
  // there are none, or if a file has them.
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
  // `sites` are the places of the finding.
  bool IsSuppressed(const std::string& id,
                    const std::vector<std::string>& sites);
  // Counts the finding `id`.  Returns its entry, for the rest if it is new.
  Made& Count(const std::string& id);
  const std::string& Publish(const Made& made);

  // Appends the line to the file, if there is one.
  void Write(std::string line);
  // Returns false and sets errno if the line cannot be written.
  bool Append(std::string line);
  bool HasOpenFile() const;
  bool OpenAgain();

  Log log_;
  std::string path_;  // empty: there is no file, or it cannot be written
  int file_ = -1;
  dev_t device_ = 0;  // of the file
  ino_t inode_ = 0;
  pid_t opener_ = 0;  // the process that wrote the first line
  std::vector<Suppression> suppressions_;
  std::map<std::string, Made> findings_;
  std::vector<RunSummary> runs_;
  uint64_t run_ = 0;  // of a simulator
  uint64_t total_ = 0;
  uint64_t suppressed_ = 0;
  std::map<std::string, uint64_t> left_out_;  // by reason
  uint64_t undeclared_ = 0;
  std::string undeclared_at_;  // the first site of them
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_FINDINGS_H_
