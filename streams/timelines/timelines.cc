// SPDX-License-Identifier: Apache-2.0

#include "streams/timelines/timelines.h"

#include <cstdint>
#include <utility>

#include "devrt/runtime/status.h"

namespace devrt::internal {

Timeline* Timelines::Acquire(bool blocking) {
  const Timeline::Rule rule =
      blocking ? Timeline::Rule::kBlocking : Timeline::Rule::kNone;
  Timeline* ended = nullptr;
  {
    MutexLock lock(&mutex_);
    if (!retired_.empty()) {
      next_retired_ %= retired_.size();
      ended = std::exchange(retired_[next_retired_], retired_.back());
      retired_.pop_back();
      ++next_retired_;
    }
  }
  if (ended != nullptr) {
    if (!ended->IsSpent()) ended->Poll(false);
    if (ended->IsSpent()) {
      ended->Revive(rule);
      return ended;
    }
    Retire(ended);
  }
  if (Timeline* const kept = TakeKept()) {
    kept->Revive(rule);
    return kept;
  }
  auto* const made = new Timeline(device_, checkpoints_, capture_, rule);
  MutexLock lock(&mutex_);
  all_.push_back(made);
  return made;
}

Timeline* Timelines::TakeKept() {
  Timeline* kept = nullptr;
  {
    MutexLock lock(&mutex_);
    if (kept_.empty()) return nullptr;
    kept = kept_.back();
    kept_.pop_back();
  }
  if (kept->IsSpent()) return kept;
  MutexLock lock(&mutex_);
  kept_.insert(kept_.begin(), kept);
  return nullptr;
}

void Timelines::Retire(Timeline* timeline) {
  MutexLock lock(&mutex_);
  retired_.push_back(timeline);
}

std::vector<Timeline*> Timelines::All() {
  MutexLock lock(&mutex_);
  return all_;
}

absl::StatusOr<bool> Timelines::HasCaptured() {
  for (Timeline* timeline : All()) {
    DEVRT_ASSIGN_OR_RETURN(const bool captured,
                           timeline->native().IsCaptured());
    if (captured) return true;
  }
  return false;
}

absl::Status Timelines::Synchronize(absl::FunctionRef<absl::Status()> wait) {
  std::vector<std::pair<Timeline*, uint64_t>> looks;
  {
    MutexLock lock(&mutex_);
    looks.reserve(all_.size());
    for (Timeline* t : all_) looks.emplace_back(t, t->BeginWait());
  }
  absl::Status status = wait();
  if (!status.ok()) return status;
  for (const auto& [timeline, epoch] : looks) timeline->Complete(epoch);
  return status;
}

void Timelines::Release() {
  for (Timeline* timeline : All()) timeline->Release();
  MutexLock lock(&mutex_);
  kept_.insert(kept_.end(), retired_.begin(), retired_.end());
  retired_.clear();
  next_retired_ = 0;
}

}  // namespace devrt::internal
