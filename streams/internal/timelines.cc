// SPDX-License-Identifier: Apache-2.0

#include <utility>
#include <vector>

#include "devrt/runtime/status.h"
#include "streams/internal/timeline.h"

namespace devrt::internal {

Timeline* Timelines::Take(bool blocking) {
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
  auto* const made = new Timeline(device_, rule);
  MutexLock lock(&mutex_);
  all_.push_back(made);
  return made;
}

void Timelines::Retire(Timeline* timeline) {
  MutexLock lock(&mutex_);
  retired_.push_back(timeline);
}

absl::StatusOr<Check*> Timelines::TakeCheck() {
  {
    MutexLock lock(&mutex_);
    if (checks_ != nullptr) {
      Check* const check = checks_;
      checks_ = check->next;
      check->next = nullptr;
      return check;
    }
  }
  devrt_event event = nullptr;
  absl::Status status = FromPlugin(
      device_,
      device_->ops->event_create(device_->self, device_->ordinal, 0, &event),
      "checkpoint");
  if (!status.ok()) return status;
  auto* const check = new Check;
  check->event = event;
  return check;
}

void Timelines::PutCheck(Check* check) {
  MutexLock lock(&mutex_);
  check->next = checks_;
  checks_ = check;
}

absl::StatusOr<bool> Timelines::HasCaptured() {
  std::vector<Timeline*> all;
  {
    MutexLock lock(&mutex_);
    all = all_;
  }
  for (Timeline* timeline : all) {
    DEVRT_ASSIGN_OR_RETURN(const bool captured, timeline->IsCaptured());
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
  std::vector<Timeline*> all;
  {
    MutexLock lock(&mutex_);
    all = all_;
  }
  for (Timeline* t : all) t->Release();
  Check* checks = nullptr;
  {
    MutexLock lock(&mutex_);
    std::swap(checks, checks_);
  }
  while (checks != nullptr) {
    Check* const check = std::exchange(checks, checks->next);
    if (TakesHandlesBack(device_)) {
      (void)FromPlugin(device_,
                       device_->ops->event_destroy(device_->self, check->event),
                       "event destruction");
    }
    delete check;
  }
}

}  // namespace devrt::internal
