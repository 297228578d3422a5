// SPDX-License-Identifier: Apache-2.0
//
// Runs the detector over a small program, and compares it with the oracle.
//
// The two agree if each finding is a race of the oracle, and if each cell with
// a race has a finding by the time of the race.  The detector does not promise
// a finding for each pair.

#ifndef DEVRT_TESTS_LAYERS_VALIDATE_ORACLE_COMPARE_H_
#define DEVRT_TESTS_LAYERS_VALIDATE_ORACLE_COMPARE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "layers/validate/detector.h"
#include "tests/layers/validate_oracle_program.h"

namespace devrt::race::oracle {

// A finding, as steps and cells.
struct Found {
  int earlier = 0;
  int later = 0;
  uint64_t cells = 0;
};

// Makes the calls of a program on a detector.
class Watched {
 public:
  explicit Watched(const Program& program);

  void Take(const Step& step);

  Detector& detector() { return detector_; }
  const std::vector<Found>& found() const { return found_; }
  Actor ThreadOf(int thread) const {
    return threads_[program_.one_order ? 0 : static_cast<size_t>(thread)];
  }
  Actor StreamOf(int stream) const {
    return streams_[static_cast<size_t>(stream)];
  }

 private:
  void Note(const Finding& finding);
  std::vector<MemoryAccess> AccessesOf(const Step& step) const;

  const Program& program_;
  Detector detector_;
  std::vector<Actor> threads_;
  std::vector<Actor> streams_;
  std::map<int, Mark> marks_;  // by event
  std::vector<Found> found_;
  int steps_ = 0;
};

// What the two think of a program.
struct Comparison {
  bool has_race = false;     // by the oracle
  bool has_finding = false;  // by the detector
  std::string difference;    // empty if they agree
};
Comparison Compare(const Program& program);

// Compares the order of every two operations.  Empty if all are equal.
std::string CompareOrder(const Program& program);

}  // namespace devrt::race::oracle

#endif  // DEVRT_TESTS_LAYERS_VALIDATE_ORACLE_COMPARE_H_
