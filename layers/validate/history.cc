// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/history.h"

#include <algorithm>

namespace devrt::race {
namespace {

constexpr size_t kNearMisses = 3;

// `mark` is that of an event.
bool Covers(Epoch mark, const Operation& operation) {
  return mark.actor == operation.epoch.actor &&
         mark.time >= operation.epoch.time;
}

// A wait that may be early is one for the event.
bool HasMiss(const std::vector<NearMiss>& misses, uint64_t event) {
  return std::any_of(misses.begin(), misses.end(), [&](const NearMiss& miss) {
    return miss.kind == NearMissKind::kMayBeEarly && miss.use.event == event;
  });
}

}  // namespace

History::Actors& History::Add(Actor actor) {
  if (actor >= actors_.size()) actors_.resize(actor + 1);
  actors_[actor] = std::make_unique<Actors>();
  return *actors_[actor];
}

Explanation History::Explain(const Operation& earlier, const Operation& later,
                             const VectorClock& clock) const {
  Explanation explanation;
  if (const Actors* const actor = Find(earlier.epoch.actor)) {
    const uint64_t known = clock.TimeOf(earlier.epoch.actor);
    actor->operations.NewestFirst([&](const Operation& o) {
      if (o.epoch.time > known) return true;
      explanation.last_ordered = o;
      return false;
    });
  }
  auto& misses = explanation.near_misses;
  if (const Actors* const actor = Find(later.epoch.actor)) {
    actor->waits.NewestFirst([&](const EventUse& wait) {
      misses.push_back({WhyNot(wait, earlier), wait, RecordOf(wait)});
      return misses.size() < kNearMisses;
    });
  }
  AddUnused(earlier, &misses);
  return explanation;
}

void History::AddUnused(const Operation& earlier,
                        std::vector<NearMiss>* misses) const {
  // There may be many events: only the first records are kept.
  std::vector<EventUse> records;
  const size_t most = kNearMisses - std::min(kNearMisses, misses->size());
  const auto is_before = [](const EventUse& a, const EventUse& b) {
    return a.at.number < b.at.number;
  };
  for (const auto& [event, of_event] : events_.entries()) {
    const Operation& last = of_event.last;
    if (!Covers(last.epoch, earlier) || HasMiss(*misses, event)) continue;
    const EventUse record = {event, last.epoch.actor, false, last, last.epoch};
    records.insert(
        std::upper_bound(records.begin(), records.end(), record, is_before),
        record);
    if (records.size() > most) records.pop_back();
  }
  for (const EventUse& record : records) {
    misses->push_back({NearMissKind::kNotWaitedFor, record, std::nullopt});
  }
}

std::optional<Operation> History::RecordOf(const EventUse& wait) const {
  const Records* const records = events_.FindEntry(wait.event);
  if (wait.mark.actor == kNoActor || records == nullptr) return {};
  if (records->last.epoch == wait.mark) return records->last;
  if (records->before.epoch == wait.mark) return records->before;
  return {};
}

NearMissKind History::WhyNot(const EventUse& wait,
                             const Operation& earlier) const {
  if (wait.mark.actor == kNoActor) return NearMissKind::kNeverRecorded;
  if (wait.may_be_early && Covers(wait.mark, earlier)) {
    return NearMissKind::kMayBeEarly;
  }
  if (wait.mark.actor == earlier.epoch.actor) {
    return NearMissKind::kRecordedBefore;
  }
  const Records* const records = events_.FindEntry(wait.event);
  if (records != nullptr && Covers(records->before.epoch, earlier)) {
    return NearMissKind::kReplaced;
  }
  return NearMissKind::kOtherStream;
}

}  // namespace devrt::race
