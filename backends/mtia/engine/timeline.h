// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_TIMELINE_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_TIMELINE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "backends/mtia/engine/op.h"
#include "backends/mtia/engine/trace_hash.h"
#include "devrt/backends/abi/devrt_sim.h"

namespace devrt::mtia {

// Owns the record of which operation ran when, for the timeline calls of
// devrt.sim/1.  Nothing is recorded until one of them has been made.
//
// Threads: every member is called inside the machine.
class Timeline {
 public:
  using Visit = void (*)(void* arg, const devrt_sim_op_v1* op);

  // `trace` outlives this object and counts the steps.
  explicit Timeline(const TraceHash* trace) : trace_(trace) {}

  // True if submissions are recorded.
  bool is_kept() const { return enabled_ || taken_from_; }
  // timeline_enable.
  void Enable(bool on) { enabled_ = on; }
  // Adds `op`, which has been submitted.
  void Add(Op* op);
  // Records the state and the times of `op`, which was added.
  void Update(const Op* op);
  // Calls `visit` for every operation that is recorded.
  void VisitAll(Visit visit, void* arg) const;
  // Calls `visit` for every operation that has ended and that no call before
  // has visited, and drops the entries that no later call needs.  The first
  // call visits nothing and starts the record.
  void VisitEnded(Visit visit, void* arg);
  // Drops all entries.  A tracer that takes goes on with the next machine.
  void Reset();

 private:
  struct Entry {
    devrt_sim_op_v1 op = {};
    std::string name;
    std::string file;
    std::vector<uint64_t> dep_stream;
    std::vector<uint64_t> dep_seq;
    std::vector<devrt_access_v0> accesses;
    bool taken = false;

    devrt_sim_op_v1 View() const;  // valid as long as the entry
  };

  const TraceHash* const trace_;
  std::deque<Entry> entries_;
  uint64_t base_ = 0;        // how many entries were dropped
  uint64_t next_ = 0;        // all entries before this one are taken
  bool enabled_ = false;     // by timeline_enable
  bool taken_from_ = false;  // timeline_take was called
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_TIMELINE_H_
