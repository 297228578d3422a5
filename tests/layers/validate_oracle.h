// SPDX-License-Identifier: Apache-2.0
//
// The races of a small program by brute force, for the proof of the detector.
//
// Each operation and each wait is a node of a graph.  The edges are those of
// docs/reference/semantics.md 1.2, 1.3 and 1.14, for example from an operation
// to the next operation of its stream.  Each node has the set of all nodes that
// have a path to it.  Two accesses race if they conflict and neither has a path
// to the other.
//
//   Oracle oracle(&program);
//   for (const Step& step : program.steps) oracle.Take(step);
//   oracle.races();
//
// The detector keeps clocks and forgets accesses.  The oracle has no clock,
// forgets nothing, and shares no code with the detector.

#ifndef DEVRT_TESTS_LAYERS_VALIDATE_ORACLE_H_
#define DEVRT_TESTS_LAYERS_VALIDATE_ORACLE_H_

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/layers/validate_oracle_program.h"

namespace devrt::race::oracle {

inline constexpr size_t kMostNodes = 256;
using Nodes = std::bitset<kMostNodes>;

// Two steps that race for a cell, or a use after a free.
struct Race {
  int earlier = 0;
  int later = 0;
  int cell = 0;
  int born = 0;  // the step that allocated the cell; -1: none did
};

class Oracle {
 public:
  // The program gives the tables and outlives the oracle.
  explicit Oracle(const Program* program);

  // The races that the step would add.  It has the next number.
  std::vector<Race> RacesOf(const Step& step) const;
  // Takes the step, and adds its races.
  void Take(const Step& step);
  // Takes a step of a program whose races do not matter.
  void TakeOrder(const Step& step);

  const std::vector<Race>& races() const { return races_; }
  int steps() const { return steps_; }
  // True if the program is too long to take one more step.
  bool is_full() const { return before_.size() + 2 > kMostNodes; }

  // The node of the operation that the step enqueued, or of the host's access;
  // -1: the step has none.
  int NodeOf(int step) const { return node_of_[static_cast<size_t>(step)]; }
  // True if node `a` has a path to node `b`.
  bool IsBefore(int a, int b) const {
    return before_[static_cast<size_t>(b)][static_cast<size_t>(a)];
  }
  // True if node `a` has a path to the next call of the thread.
  bool IsBeforeThread(int a, int thread) const {
    return Closed({host_[Host(thread)]})[static_cast<size_t>(a)];
  }

  // ---- What the generator looks at.

  bool IsLive(int stream) const { return streams_[At(stream)].is_live; }
  bool WasLive(int stream) const {
    return IsLive(stream) || streams_[At(stream)].was_dropped;
  }
  bool IsRecorded(int event) const { return events_[At(event)] >= 0; }
  // True if the event's newest record has a path from the step.
  bool EventCovers(int event, int step) const;

 private:
  struct StreamState {
    bool is_live = false;
    bool was_dropped = false;
    int last = -1;  // the newest node of the stream
  };
  struct Access {
    int step = 0;
    int node = 0;
    uint64_t cells = 0;
    Effect effect = Effect::kRead;
    int op = 0;
  };

  static size_t At(int i) { return static_cast<size_t>(i); }
  size_t Host(int thread) const { return program_->one_order ? 0 : At(thread); }
  const StreamInfo& InfoOf(int stream) const {
    return program_->streams[At(stream)];
  }

  // A new node behind `edges`; -1 is no edge.
  int Add(const std::vector<int>& edges);
  // The nodes `edges` and all that have a path to one of them.
  Nodes Closed(const std::vector<int>& edges) const;

  // The edges of an operation that the thread enqueues now.
  std::vector<int> EdgesOfSubmit(int thread, int stream) const;
  // What a wait for the stream waits for.
  std::vector<int> EdgesOfSync(int stream) const;
  std::vector<int> EdgesOfDevice(int device) const;
  // What the next operation of the stream, or the thread, comes after.
  std::vector<int> EdgesOfHandOver(int thread, int stream) const;
  // The edges of the step's access; the accesses of the step are returned.
  std::vector<Access> AccessesOf(const Step& step,
                                 std::vector<int>* edges) const;

  void Enqueue(const Step& step, const std::vector<int>& more_edges);
  void HostWait(int thread, std::vector<int> edges);
  void Lifetime(const Step& step);

  const Program* const program_;
  std::vector<Nodes> before_;  // by node
  std::vector<int> host_;      // the newest node of each thread; -1: none
  std::vector<StreamState> streams_;
  std::vector<int> events_;  // the node of the newest record; -1: none
  std::vector<Access> accesses_;
  std::array<int, kCells> born_;   // by cell: see Race::born
  std::array<int, kCells> freed_;  // the step that freed the cell; -1: none
  std::vector<Race> races_;
  std::vector<int> node_of_;  // by step
  int steps_ = 0;
};

}  // namespace devrt::race::oracle

#endif  // DEVRT_TESTS_LAYERS_VALIDATE_ORACLE_H_
