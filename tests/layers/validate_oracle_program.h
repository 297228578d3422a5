// SPDX-License-Identifier: Apache-2.0
//
// Small programs for the proof of the validation layer: calls in the order in
// which the host threads make them.
//
// Memory is a row of kCells cells.  A set of cells is a bit mask, so that two
// accesses overlap if their masks have a bit in common.  A block is a run of
// cells.
//
// A Program is a value and knows nothing of the detector.

#ifndef DEVRT_TESTS_LAYERS_VALIDATE_ORACLE_PROGRAM_H_
#define DEVRT_TESTS_LAYERS_VALIDATE_ORACLE_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

namespace devrt::race::oracle {

inline constexpr int kCells = 64;

// Cells [begin, end).
struct Run {
  int begin = 0;
  int end = 0;

  uint64_t mask() const {
    uint64_t cells = 0;
    for (int cell = begin; cell < end; ++cell) cells |= uint64_t{1} << cell;
    return cells;
  }
};

enum class Effect { kRead, kWrite, kReadWrite, kReduce };

struct Use {
  Run cells;
  Effect effect = Effect::kRead;
  int op = 0;  // the operator of kReduce
};

enum class Kind { kLegacy, kBlocking, kNonBlocking };

enum class Do {
  kNewThread,    // other: the thread that `thread` starts
  kNewStream,    // stream
  kDropStream,   // stream
  kSubmit,       // stream, uses
  kRecord,       // event, stream
  kWait,         // stream, event
  kSyncStream,   // stream
  kSyncEvent,    // event
  kSyncDevice,   // device
  kQueryStream,  // stream; answer
  kQueryEvent,   // event; answer
  kHostUse,      // uses: the thread's own
  kAllocate,     // block
  kFree,         // block
  kAllocateOn,   // block, stream
  kFreeOn,       // block, stream
  kCarve,        // block: an allocator makes parts of it
  kHandOut,      // block, stream or none
  kTakeBack,     // block, stream or none
};

struct Step {
  Do what = Do::kSubmit;
  int thread = 0;
  int other = -1;
  int device = 0;
  int stream = -1;
  int event = -1;
  bool answer = false;  // of a query
  Run block;
  std::vector<Use> uses;
};

struct StreamInfo {
  int device = 0;
  Kind kind = Kind::kNonBlocking;
};

struct Program {
  int devices = 1;
  int threads = 1;  // those that run from the start, and those of kNewThread
  // True: the calls of all threads are ordered as they stand.  False: a thread
  // is ordered after the thread that started it, and by waits.
  bool one_order = true;
  std::vector<StreamInfo> streams;
  int events = 0;
  std::vector<Step> steps;
};

// True for the steps that only order other steps.
bool IsEdge(const Step& step);
// The program without step `index`.
Program Without(const Program& program, size_t index);
// A step a line, numbered from 0.
std::string ToText(const Program& program);

}  // namespace devrt::race::oracle

#endif  // DEVRT_TESTS_LAYERS_VALIDATE_ORACLE_PROGRAM_H_
