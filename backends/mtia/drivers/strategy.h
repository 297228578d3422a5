// SPDX-License-Identifier: Apache-2.0
//
// Decisions of virtual mode.  Each choice of the machine goes through
// Decisions::Choose, which records it.  A replay token holds the record, and
// repeats the run.

#ifndef DEVRT_BACKENDS_MTIA_DRIVERS_STRATEGY_H_
#define DEVRT_BACKENDS_MTIA_DRIVERS_STRATEGY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/mtia/config/config.h"

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
  // True if Choose ignores `preferred`.
  bool replaying() const { return replaying_; }
  // A number below `n` for the random strategy.
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

// The hash of all steps of a run in their order.  Two runs with one hash took
// the same steps, on any system.
class TraceHash {
 public:
  void Clear() {
    hash_ = 0xcbf29ce484222325u;
    steps_ = 0;
  }
  void Add(uint32_t what, uint64_t a, uint64_t b) {
    ++steps_;
    hash_ = Mix(Mix(hash_ ^ what, a), b);
  }
  uint64_t hash() const { return hash_; }
  uint64_t steps() const { return steps_; }

 private:
  static uint64_t Mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9fb21c651e98df25u;
    return hash ^ (hash >> 32);
  }
  uint64_t hash_ = 0xcbf29ce484222325u;
  uint64_t steps_ = 0;
};

const char* StrategyName(StrategyKind kind);

// "dvs1:<config hash>:<seed>:<strategy>:<decisions>", numbers in hexadecimal,
// the decisions as base32 of run-length coded varints without trailing zeros.
std::string MakeToken(const Config& config, const ChoiceLog& log);

struct Token {
  uint64_t config_hash = 0;
  uint64_t seed = 0;
  StrategyKind strategy = StrategyKind::kHardware;
  ChoiceLog log;
};
// Returns false and sets `*error` when `text` is no token.
bool ParseToken(std::string_view text, Token* token, std::string* error);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_DRIVERS_STRATEGY_H_
