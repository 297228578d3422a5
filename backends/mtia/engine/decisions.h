// SPDX-License-Identifier: Apache-2.0
//
// Decisions of virtual mode.  Each choice of the machine goes through
// Decisions::Choose, which records it.  A replay token holds the record, and
// repeats the run.

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_DECISIONS_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_DECISIONS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace devrt::mtia {

enum class ChoiceKind : uint8_t {
  kSchedule,  // which thread or stream moves next
  kPageable,  // how a copy of pageable memory behaves: staged, sync, late
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
  struct Run {
    uint64_t zeros;  // how many choices of 0 come before
    uint32_t choice;
    uint64_t count;
  };
  const std::vector<Run>& runs() const { return runs_; }
  void AppendRun(const Run& run) { runs_.push_back(run); }

 private:
  void AddNonZero(uint32_t choice);
  std::vector<Run> runs_;
  uint64_t zeros_ = 0;
};

// Owns the log of the choices, the replay and the random generator.
//
// Threads: every member is called inside the machine.
class Decisions {
 public:
  void Start(uint64_t seed);
  // Starts, and repeats the choices of `log`.  Later choices are 0.
  void StartReplay(uint64_t seed, ChoiceLog log);

  // Returns a number below `n`, which is at least 2: the replayed choice, or
  // `preferred` if nothing is replayed.
  uint32_t Choose(ChoiceKind kind, uint32_t n, uint32_t preferred);
  // Returns true in a replay, in which Choose ignores `preferred`.
  bool replaying() const { return replaying_; }
  // Returns a number below `n`, for the random strategy.
  uint32_t Uniform(uint32_t n);

  const ChoiceLog& log() const { return log_; }

 private:
  uint32_t Follow(uint32_t n);

  ChoiceLog log_;
  ChoiceLog replay_;
  bool replaying_ = false;
  uint64_t run_ = 0;       // index of the run of replay_ that is followed
  uint64_t position_ = 0;  // in that run
  uint64_t random_ = 0;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_DECISIONS_H_
