// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/history.h"

#include <algorithm>

namespace devrt::race {
namespace {

constexpr size_t kNearMisses = 3;

bool Covers(const EventUse& record, const Operation& operation) {
  return record.mark.actor == operation.epoch.actor &&
         record.mark.time >= operation.epoch.time;
}

}  // namespace

History::Actors& History::Of(Actor actor) {
  if (actor >= actors_.size()) actors_.resize(actor + 1);
  return actors_[actor];
}

void History::Add(const Operation& operation) {
  Of(operation.epoch.actor).operations.Push(operation);
}

void History::AddWait(const EventUse& wait) {
  Of(wait.stream).waits.Push(wait);
}

void History::AddRecord(const EventUse& record) {
  Records& records = events_[record.event];
  if (records.last.mark.actor != kNoActor) records.before = records.last;
  records.last = record;
}

Explanation History::Explain(const Operation& earlier, const Operation& later,
                             const VectorClock& clock) const {
  Explanation explanation;
  if (earlier.epoch.actor < actors_.size()) {
    const uint64_t known = clock.TimeOf(earlier.epoch.actor);
    actors_[earlier.epoch.actor].operations.NewestFirst(
        [&](const Operation& o) {
          if (o.epoch.time > known) return true;
          explanation.last_ordered = o;
          return false;
        });
  }
  auto& misses = explanation.near_misses;
  if (later.epoch.actor < actors_.size()) {
    actors_[later.epoch.actor].waits.NewestFirst([&](const EventUse& wait) {
      misses.push_back({WhyNot(wait, earlier), wait, RecordOf(wait)});
      return misses.size() < kNearMisses;
    });
  }
  for (const auto& [event, records] : events_) {
    if (misses.size() >= kNearMisses) break;
    if (Covers(records.last, earlier)) {
      misses.push_back(
          {NearMissKind::kNotWaitedFor, records.last, std::nullopt});
    }
  }
  return explanation;
}

std::optional<Operation> History::RecordOf(const EventUse& wait) const {
  const auto is_meant = [&](const EventUse& record) {
    return record.mark.actor == wait.mark.actor &&
           record.mark.time == wait.mark.time;
  };
  const auto records = events_.find(wait.event);
  if (wait.mark.actor == kNoActor || records == events_.end()) return {};
  if (is_meant(records->second.last)) return records->second.last.at;
  const std::optional<EventUse>& before = records->second.before;
  if (before.has_value() && is_meant(*before)) return before->at;
  return {};
}

NearMissKind History::WhyNot(const EventUse& wait,
                             const Operation& earlier) const {
  if (wait.mark.actor == kNoActor) return NearMissKind::kNeverRecorded;
  if (wait.mark.actor == earlier.epoch.actor) {
    return NearMissKind::kRecordedBefore;
  }
  const auto records = events_.find(wait.event);
  if (records != events_.end() && records->second.before.has_value() &&
      Covers(*records->second.before, earlier)) {
    return NearMissKind::kReplaced;
  }
  return NearMissKind::kOtherStream;
}

}  // namespace devrt::race
