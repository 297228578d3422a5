// SPDX-License-Identifier: Apache-2.0
//
// HeldFindings: findings with an operation that comes after an open wait for a
// flag.  The set of the flag may order the two operations, so such a finding is
// made once the set is known, or never.
//
// Threads: one at a time; the caller has the lock.

#ifndef DEVRT_LAYERS_VALIDATE_HELD_FINDINGS_H_
#define DEVRT_LAYERS_VALIDATE_HELD_FINDINGS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "layers/validate/finding.h"
#include "layers/validate/flag_waits.h"

namespace devrt::race {

class HeldFindings {
 public:
  explicit HeldFindings(const FlagWaits* flags) : flags_(flags) {}

  // Returns true if the finding is not to be made now.  `later` is what the
  // later operation comes after.  `earlier` is that of the earlier operation,
  // or empty if that one comes after no wait that is known.
  bool Hold(const Finding& finding, const VectorClock& later,
            const VectorClock& earlier);
  // A set was seen, or a wait has ended: makes or drops what is decided now.
  void Settle(const std::function<void(const Finding&)>& make);
  // The sets will not come.
  void Clear() {
    lost_ += held_.size();
    held_.clear();
  }
  // Findings that are neither made nor dropped by order: those that are held,
  // and those that could not be held until their sets came.
  uint64_t undecided() const { return lost_ + held_.size(); }
  bool empty() const { return held_.empty(); }
  // Calls visit(operation) for the operations of the findings.
  template <typename Visit>
  void ForEachOperation(Visit visit) const {
    for (const Held& held : held_) {
      visit(held.finding.earlier);
      visit(held.finding.later);
    }
  }

 private:
  struct Held {
    Finding finding;
    VectorClock later;
    VectorClock earlier;
  };
  enum class Verdict { kMake, kDrop, kHold };
  Verdict Judge(const Held& held) const;

  const FlagWaits* const flags_;
  std::vector<Held> held_;
  uint64_t lost_ = 0;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_HELD_FINDINGS_H_
