// SPDX-License-Identifier: Apache-2.0
//
// The findings of the Validator: those that it makes, and those that it leaves
// out.
#include <mutex>

#include "layers/validate/validator.h"

namespace devrt::race {

using Lock = std::lock_guard<FindingsMutex>;

bool Validator::MayBeOrdered(const Finding& finding) const {
  if (!has_adopted_ || finding.kind == FindingKind::kUseAfterFree) return false;
  if (finding.block.kind != MemoryKind::kHost) {
    return !IsSimulated(finding.block.device);
  }
  // Host memory belongs to no device, and may be used by several ones.
  const auto is_unsimulated = [this](const Operation& operation) {
    const auto stream = actors_.find(operation.epoch.actor);
    return stream != actors_.end() && !IsSimulated(stream->second.device);
  };
  return is_unsimulated(finding.earlier) || is_unsimulated(finding.later);
}

void Validator::Found(const Finding& finding) {
  if (MayBeOrdered(finding)) {
    detector_.Forget(finding);
    return findings_->LeaveOut(
        "the program has adopted a stream, and the other library may have "
        "ordered them (DEVRT_RACE_FOREIGN)");
  }
  const std::string text = findings_->Add(finding, *this);
  if (first_.empty()) first_ = text;
}

uint64_t Validator::VisitFindings(
    uint64_t after,
    const std::function<void(const std::string& id, const Findings::Made&)>&
        visit) const {
  const Lock lock(mutex_);
  for (const auto& [id, made] : findings_->made()) {
    if (made.last > after) visit(id, made);
  }
  return findings_->total();
}

void Validator::AddDeadlock(const std::string& text) {
  const Lock lock(mutex_);
  findings_->Add(DeadlockNotice(text));
}

void Validator::NoteMade(const Caller& caller, DeviceKey device,
                         const void* object, const char* noun) {
  const Lock lock(mutex_);
  leaks_.Made(object, noun, device, ToCall(caller).site);
}

void Validator::NoteEnded(const void* object) {
  const Lock lock(mutex_);
  leaks_.Ended(object);
}

void Validator::AddLeaks() {
  const Lock lock(mutex_);
  for (const Notice& leak :
       leaks_.Find(detector_.memory().LiveOfProgram(), *this)) {
    findings_->Add(leak);
  }
}

}  // namespace devrt::race
