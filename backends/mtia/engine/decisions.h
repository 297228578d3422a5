// SPDX-License-Identifier: Apache-2.0
//
// Decisions of virtual mode.  Each choice of the machine goes through
// Decisions::Choose, which records it.  A replay token holds the record, and
// repeats the run.

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_DECISIONS_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_DECISIONS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "backends/mtia/engine/op.h"
#include "backends/text/replay_token.h"

namespace devrt::mtia {

enum class ChoiceKind : uint8_t {
  kSchedule,  // which thread or stream moves next
  kPageable,  // how a copy of pageable memory behaves: staged, sync, late
  kFault,     // whether a rule of the key faults hits: no, yes
};

// A generator with one sequence for a seed on every system (SplitMix64).
inline uint64_t NextRandom(uint64_t* state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// The choices so far, run-length coded.  It stops growing at kMostRuns: a
// program that runs for days has no use for a token of its first minutes.
class ChoiceLog {
 public:
  static constexpr size_t kMostRuns = size_t{1} << 18;

  ChoiceLog() = default;
  explicit ChoiceLog(std::vector<internal::ChoiceRun> runs)
      : runs_(std::move(runs)) {}
  // False if choices were left out.
  bool complete() const { return runs_.size() < kMostRuns; }
  void Clear() {
    runs_.clear();
    zeros_ = 0;
  }
  void Add(uint32_t choice) {
    if (choice == 0) {
      ++zeros_;
      return;
    }
    AddNonZero(choice);
  }
  using Run = internal::ChoiceRun;
  const std::vector<Run>& runs() const { return runs_; }

 private:
  void AddNonZero(uint32_t choice);
  std::vector<Run> runs_;
  uint64_t zeros_ = 0;
};

// A choice with what it was about, for the decision calls of devrt.sim/1.
struct Decision {
  ChoiceKind kind;
  uint32_t count;
  uint32_t choice;
  uint32_t thread = 0;  // the host thread that moves, or that submitted ...
  uint64_t stream = 0;  // ... the operation that moves: its stream's number
  uint64_t seq = 0;     // and its number there, from 1
  Site site = {};
};

// Owns the log of the choices, the replay and the random generator.
//
// Threads: every member is called inside the machine.
class Decisions {
 public:
  void Start(uint64_t seed);
  // Starts, and repeats the choices of `log`.  Later choices are 0, and so is
  // one that the run lacks.  `warns`: the first of these is logged.
  void StartReplay(uint64_t seed, ChoiceLog log, bool warns = false);

  // Returns a number below `n`, which is at least 2: the replayed choice, or
  // `preferred` if nothing is replayed.
  uint32_t Choose(ChoiceKind kind, uint32_t n, uint32_t preferred);
  // Returns true in a replay, in which Choose ignores `preferred`.
  bool replaying() const { return replaying_; }
  // The first choice of the replay that the run lacked.
  const internal::TokenMisfit& misfit() const { return misfit_; }
  // How many choices of the replay, other than 0, the run has not come to.
  uint64_t CountLeft() const;
  // Returns a number below `n`, for the random strategy.
  uint32_t Uniform(uint32_t n);

  const ChoiceLog& log() const { return log_; }

  // Turns the record of whole decisions on or off; Start empties it.
  void Keep(bool on) { keeps_ = on; }
  bool keeps() const { return keeps_; }
  // Adds to the last decision what moves.
  void DescribeLast(const HostThread& host);
  void DescribeLast(const StreamCore& stream);
  const std::vector<Decision>& kept() const { return kept_; }

 private:
  uint32_t Follow(uint32_t n);
  void NoteMisfit(uint32_t choice, uint32_t n);

  ChoiceLog log_;
  ChoiceLog replay_;
  bool replaying_ = false;
  uint64_t run_ = 0;       // index of the run of replay_ that is followed
  uint64_t position_ = 0;  // in that run
  uint64_t followed_ = 0;  // decisions of the replay
  internal::TokenMisfit misfit_;
  bool warns_ = false;
  uint64_t random_ = 0;
  bool keeps_ = false;
  std::vector<Decision> kept_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_DECISIONS_H_
