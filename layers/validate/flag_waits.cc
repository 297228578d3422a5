// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/flag_waits.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace devrt::race {

void FlagWaits::Waits::Add(Epoch at, bool is_open) {
  spans.push_back({at.time, at.time});
  if (is_open && open == 0) open = at.time;
  if (spans.size() <= kMostSpans) return;
  spans[1].from = spans[0].from;
  spans.pop_front();
}

uint64_t FlagWaits::Waits::FirstAfter(uint64_t time) const {
  for (const Span& span : spans) {
    if (span.to > time) return std::max(span.from, time + 1);
  }
  return 0;
}

void FlagWaits::Waits::EndOpen(uint64_t until) {
  if (open == 0 || open > until) return;
  unseen = {unseen.from == 0 ? open : unseen.from, until};
  open = FirstAfter(until);
}

void FlagWaits::Waits::Forget(uint64_t until) {
  while (!spans.empty() && spans.front().to <= until) spans.pop_front();
  if (!spans.empty() && spans.front().from <= until) {
    spans.front().from = until + 1;
  }
  if (unseen.from != 0 && unseen.from <= until) {
    unseen.from = FirstAfter(until);
    if (unseen.from > unseen.to) unseen.from = 0;
  }
  if (open != 0 && open <= until) open = FirstAfter(until);
}

bool FlagWaits::Flag::IsReachedBy(const VectorClock& clock) const {
  return std::any_of(waits.begin(), waits.end(), [&](const auto& of) {
    return clock.Knows({of.first, of.second.spans.front().from});
  });
}

void FlagWaits::Flag::Forget(const VectorClock& host) {
  for (auto at = waits.begin(); at != waits.end();) {
    at->second.Forget(host.TimeOf(at->first));
    at = at->second.spans.empty() ? waits.erase(at) : std::next(at);
  }
}

void FlagWaits::Set(uint64_t flag, const VectorClock& clock) {
  Flag& of = flags_[flag];
  of.is_set = true;
  of.sets.Join(clock);
  for (auto& [actor, waits] : of.waits) {
    waits.unseen = {};
    waits.open = 0;
  }
}

void FlagWaits::Wait(uint64_t flag, Epoch at, VectorClock* clock) {
  Flag& of = flags_[flag];
  clock->Join(of.sets);
  const auto [waits, is_new] = of.waits.try_emplace(at.actor);
  if (is_new) ++streams_;
  waits->second.Add(at, !of.is_set);
}

void FlagWaits::Remove(uint64_t flag) {
  const auto found = flags_.find(flag);
  if (found == flags_.end()) return;
  Flag removed = std::move(found->second);
  flags_.erase(found);
  if (removed.waits.empty()) return;
  for (auto& [actor, waits] : removed.waits) {
    waits.EndOpen(waits.spans.back().to);
  }
  removed_.push_back(std::move(removed));
  if (removed_.size() > kMostRemoved) MergeOldestRemoved();
}

// They become one flag, with the sets of both.
void FlagWaits::MergeOldestRemoved() {
  const Flag oldest = std::move(removed_.front());
  removed_.pop_front();
  Flag& into = removed_.front();
  into.sets.Join(oldest.sets);
  for (const auto& [actor, waits] : oldest.waits) {
    const auto [at, is_new] = into.waits.try_emplace(actor, waits);
    if (is_new) continue;
    --streams_;
    Waits& both = at->second;
    const Span all = {
        std::min(both.spans.front().from, waits.spans.front().from),
        std::max(both.spans.back().to, waits.spans.back().to)};
    both.spans = {all};
    if (waits.unseen.from != 0 || both.unseen.from != 0) both.unseen = all;
  }
}

void FlagWaits::Clear() {
  flags_.clear();
  removed_.clear();
  streams_ = 0;
}

size_t FlagWaits::waits() const {
  size_t count = 0;
  const auto add = [&](const Flag& flag) {
    for (const auto& [actor, waits] : flag.waits) count += waits.spans.size();
  };
  for (const auto& [number, flag] : flags_) add(flag);
  for (const Flag& flag : removed_) add(flag);
  return count;
}

FlagWaits::State FlagWaits::Complete(VectorClock* clock) const {
  std::vector<const Flag*> left;
  for (const auto& [number, flag] : flags_) {
    if (!flag.waits.empty()) left.push_back(&flag);
  }
  for (const Flag& flag : removed_) left.push_back(&flag);
  std::vector<const Flag*> reached;
  // A set may come after another wait, so this goes on until nothing is new.
  for (bool has_news = true; has_news;) {
    const auto rest = std::partition(
        left.begin(), left.end(),
        [&](const Flag* flag) { return !flag->IsReachedBy(*clock); });
    has_news = rest != left.end();
    for (auto at = rest; at != left.end(); ++at) clock->Join((*at)->sets);
    reached.insert(reached.end(), rest, left.end());
    left.erase(rest, left.end());
  }
  State state = State::kKnown;
  for (const Flag* const flag : reached) {
    for (const auto& [actor, waits] : flag->waits) {
      state = std::max(state, waits.StateAt(clock->TimeOf(actor)));
    }
  }
  return state;
}

void FlagWaits::EndKnown(const VectorClock& host) {
  ForEach([&](Flag& flag) {
    for (auto& [actor, waits] : flag.waits) waits.EndOpen(host.TimeOf(actor));
  });
}

void FlagWaits::Forget(const VectorClock& host) {
  streams_ = 0;
  ForEach([&](Flag& flag) {
    flag.Forget(host);
    streams_ += flag.waits.size();
  });
  removed_.erase(
      std::remove_if(removed_.begin(), removed_.end(),
                     [](const Flag& flag) { return flag.waits.empty(); }),
      removed_.end());
}

}  // namespace devrt::race
