// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/held_findings.h"

#include <algorithm>
#include <utility>

namespace devrt::race {
namespace {

// More are lost: a program may enqueue without end behind a closed flag.
constexpr size_t kMostHeld = 1024;

// Returns true if the operations are right in the other order, too.
bool MayBeReversed(FindingKind kind) {
  return kind == FindingKind::kWriteAfterWrite ||
         kind == FindingKind::kReadAfterWrite ||
         kind == FindingKind::kWriteAfterRead ||
         kind == FindingKind::kHostAccess;
}

}  // namespace

HeldFindings::Verdict HeldFindings::Judge(const Held& held) const {
  using State = FlagWaits::State;
  VectorClock later = held.later;
  State state = flags_->Complete(&later);
  if (later.Knows(held.finding.earlier.epoch)) return Verdict::kDrop;
  if (MayBeReversed(held.finding.kind)) {
    VectorClock earlier = held.earlier;
    state = std::max(state, flags_->Complete(&earlier));
    if (earlier.Knows(held.finding.later.epoch)) return Verdict::kDrop;
  }
  if (state == State::kUnseen) return Verdict::kDrop;
  return state == State::kOpen ? Verdict::kHold : Verdict::kMake;
}

bool HeldFindings::Hold(const Finding& finding, const VectorClock& later,
                        const VectorClock& earlier) {
  if (!LacksOrder(finding.kind)) return false;
  Held held = {finding, later, earlier};
  const Verdict verdict = Judge(held);
  if (verdict == Verdict::kMake) return false;
  if (verdict != Verdict::kHold) return true;
  if (held_.size() < kMostHeld) {
    held_.push_back(std::move(held));
  } else {
    ++lost_;
  }
  return true;
}

void HeldFindings::Settle(const std::function<void(const Finding&)>& make) {
  std::vector<Held> still;
  for (Held& held : std::exchange(held_, {})) {
    const Verdict verdict = Judge(held);
    if (verdict == Verdict::kMake) make(held.finding);
    if (verdict == Verdict::kHold) still.push_back(std::move(held));
  }
  held_ = std::move(still);
}

}  // namespace devrt::race
