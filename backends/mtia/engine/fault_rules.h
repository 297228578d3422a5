// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_FAULT_RULES_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_FAULT_RULES_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/mtia/common/error.h"
#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/decisions.h"
#include "backends/mtia/engine/lazy_memory.h"
#include "backends/mtia/engine/op.h"

namespace devrt::mtia {

// The rules of the key `faults`: says what they hit.  A rule with a probability
// draws by a decision, so that a replay repeats what was drawn.
//
// Threads: every member is called inside the machine.
class FaultRules {
 public:
  // All of them outlive this object.
  FaultRules(const Config* config, Decisions* decisions, LazyMemory* memory)
      : config_(config), decisions_(decisions), memory_(memory) {}

  // Begins to count, for a machine with new rules.
  void Start();
  bool empty() const { return armed_.empty(); }
  // How often rules have hit something since Start.
  uint64_t fired() const;

  // The fault of `op`, which has run; without a code if there is none.  Flips a
  // bit of what `op` wrote if a rule says so.
  Fault TakeFor(const Op* op);
  // True if `op`, which begins now, never ends.  `*timeout` is after how many
  // nanoseconds the device gives up, or 0.
  bool Hangs(const Op* op, uint64_t* timeout);
  // Makes `op`, which begins now, take as much longer as the rules say.
  void SlowDown(Op* op);
  // True if a rule of this class, one of the ranks of communicators, hits what
  // `rank` does now.
  bool HitsRank(internal::FaultClass kind, uint32_t rank);
  // By how many nanoseconds an operation of `rank` begins late.
  uint64_t Lateness(uint32_t rank);
  // The error of an allocation that finds `free` bytes, or NULL.
  devrt_status Fragmentation(const char* call, uint32_t device, uint64_t size,
                             uint64_t free);
  // True if the query of `object`, which is complete since `ended`, says "not
  // ready".  The next query of the object says "ready".
  bool IsStale(const void* object, uint32_t device, VTime ended);

  // True if TakeLost may return a fault.
  bool has_timed() const { return has_timed_; }
  // The fault of a device whose time has come at `now`; without a code if there
  // is none.  Each is returned once.
  Fault TakeLost(VTime now);

 private:
  struct Armed {
    internal::FaultRule rule;
    internal::FaultCounter counter;
    bool is_lost = false;  // device_lost: TakeLost has returned it
  };

  // True if the rule fires at this match.
  bool Fires(Armed* armed);
  bool Fires(Armed* armed, const Op* op);
  bool Crosses(const internal::FaultRule& rule, const Op* op) const;
  uint32_t DeviceOf(const void* ptr, uint32_t otherwise) const;
  void Flip(const Op* op) const;

  const Config* const config_;
  Decisions* const decisions_;
  LazyMemory* const memory_;
  std::vector<Armed> armed_;
  bool has_timed_ = false;
  // What was "not ready" by a rule, and since when it is complete: another
  // object may get the address.  One entry for each address.
  std::unordered_map<const void*, VTime> stale_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_FAULT_RULES_H_
