// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/drivers/virtual_choice.h"

#include <algorithm>

#include "backends/mtia/engine/machine.h"
#include "backends/mtia/threads/host_threads.h"

namespace devrt::mtia {
namespace {

// A thread polls so often before the timeout of a flag_wait passes for it.
constexpr uint32_t kPollsBeforeTimeout = 1'000;
constexpr uint32_t kLongestChain = 10'000;
constexpr uint32_t kGivesWayAt = 3;

bool Has(const std::vector<HostThread*>& hosts, const HostThread* host) {
  return std::find(hosts.begin(), hosts.end(), host) != hosts.end();
}

}  // namespace

// ---- candidates ----

bool VirtualChoice::LastIsCandidate() const {
  if (last_host_ != nullptr) return Has(hosts_, last_host_);
  return last_stream_ != nullptr && last_stream_->head != nullptr &&
         last_stream_->head_state == HeadState::kReady &&
         ReadyHeads::Runnable(last_stream_);
}

uint32_t VirtualChoice::CountCandidates() const {
  return static_cast<uint32_t>(hosts_.size()) + heads_->CountRunnable();
}

uint32_t VirtualChoice::IndexOf(const Pick& pick) const {
  const bool last = LastIsCandidate();
  if (pick.host != nullptr) {
    if (pick.host == last_host_) return 0;
    uint32_t index = last ? 1 : 0;
    for (const HostThread* const host : hosts_) {
      if (host == pick.host) break;
      if (host != last_host_) ++index;
    }
    return index;
  }
  if (last && pick.stream == last_stream_) return 0;
  auto index = static_cast<uint32_t>(hosts_.size());
  if (last && last_host_ == nullptr) ++index;
  for (const StreamCore* const s : heads_->by_age()) {
    if (s == pick.stream) break;
    if (ReadyHeads::Runnable(s) && !(last && s == last_stream_)) ++index;
  }
  return index;
}

Pick VirtualChoice::At(uint32_t index) const {
  const bool last = LastIsCandidate();
  Pick pick;
  if (last) {
    if (index == 0) {
      pick.host = last_host_;
      if (last_host_ == nullptr) pick.stream = last_stream_;
      return pick;
    }
    --index;
  }
  for (HostThread* const host : hosts_) {
    if (host == last_host_) continue;
    if (index-- == 0) {
      pick.host = host;
      return pick;
    }
  }
  for (StreamCore* const s : heads_->by_age()) {
    if (!ReadyHeads::Runnable(s) || (last && s == last_stream_)) continue;
    if (index-- == 0) {
      pick.stream = s;
      return pick;
    }
  }
  return pick;
}

// ---- the choice ----

void VirtualChoice::CollectHosts(HostThread* me, bool able) {
  hosts_.clear();
  if (g_threads->baton.contended()) {
    g_threads->list.AppendAble(&hosts_);
    if (able) {
      const auto at =
          std::lower_bound(hosts_.begin(), hosts_.end(), me,
                           [](const HostThread* a, const HostThread* b) {
                             return a->index < b->index;
                           });
      hosts_.insert(at, me);
    }
  } else if (able) {
    hosts_.push_back(me);
  }
}

// The first candidate is the default, also behind the decisions of a token.  A
// thread that spins until another one acts would else go on for ever.
void VirtualChoice::PutOverdueFirst(HostThread* me) {
  HostThread* const overdue = Overdue(me);
  if (overdue == nullptr) return;
  const bool can_go_on = Has(hosts_, overdue);
  StreamCore* const wanted = can_go_on ? nullptr : PreferHead(overdue);
  if (!can_go_on && wanted == nullptr) return;
  last_host_ = can_go_on ? overdue : nullptr;
  last_stream_ = wanted;
}

Pick VirtualChoice::Choose(HostThread* me, bool able, Until until) {
  CollectHosts(me, able);
  PutOverdueFirst(me);
  Decisions& decisions = g_machine->decisions;
  if (heads_->hardware()) {
    const Pick pick = ChooseHardware(me, until);
    if (pick.timeout || (pick.host == nullptr && pick.stream == nullptr)) {
      return pick;
    }
    if (!decisions.replaying()) {
      // A single candidate needs no decision.  The top of the heap is runnable.
      if (hosts_.size() + (heads_->by_time().empty() ? 0 : 1) < 2 &&
          hosts_.size() + heads_->CountRunnable(2) < 2) {
        return pick;
      }
      decisions.Choose(ChoiceKind::kSchedule, UINT32_MAX, IndexOf(pick));
      return pick;
    }
  }
  return ChooseOther(me, until);
}

// The choice of the strategies but hw, and that of a replay.
Pick VirtualChoice::ChooseOther(HostThread* me, Until until) {
  Decisions& decisions = g_machine->decisions;
  const uint32_t n = CountCandidates();
  if (n == 0) {
    Pick pick;
    pick.stream = NextTimeout(me, until);
    pick.timeout = pick.stream != nullptr;
    return pick;
  }
  if (n == 1) {
    if (!hosts_.empty()) return {hosts_.front(), nullptr, false};
    StreamCore* const only = RunnableHead(0);
    // What is held goes if nothing else can move.
    if (directed_.Holds(only->head)) directed_.Release();
    return {nullptr, only, false};
  }
  uint32_t preferred = 0;
  if (g_machine->config.strategy == StrategyKind::kRandom) {
    preferred = decisions.Uniform(n);
  } else if (decisions.replaying()) {
    preferred = 0;
  } else if (g_machine->config.strategy == StrategyKind::kDirected) {
    preferred = IndexOf(DrawDirected());
  } else if (ranks_.is_used()) {
    preferred = IndexOf(PickRanked(me));
  } else {
    preferred = IndexOf(Prefer(me));
  }
  const Pick pick = At(decisions.Choose(ChoiceKind::kSchedule, n, preferred));
  if (decisions.keeps()) {
    pick.host != nullptr ? decisions.DescribeLast(*pick.host)
                         : decisions.DescribeLast(*pick.stream);
  }
  return pick;
}

// Strategy directed: a host thread or a head that is not held, with equal
// chances, and any of them.
Pick VirtualChoice::DrawDirected() {
  Decisions& decisions = g_machine->decisions;
  free_heads_.clear();
  for (StreamCore* const s : heads_->by_age()) {
    if (ReadyHeads::Runnable(s) && !directed_.Holds(s->head)) {
      free_heads_.push_back(s);
    }
  }
  const auto hosts = static_cast<uint32_t>(hosts_.size());
  const auto heads = static_cast<uint32_t>(free_heads_.size());
  if (heads == 0 && hosts == 0) return {nullptr, RunnableHead(0), false};
  if (heads == 0 || (hosts != 0 && decisions.Uniform(2) == 0)) {
    return {hosts_[decisions.Uniform(hosts)], nullptr, false};
  }
  return {nullptr, free_heads_[decisions.Uniform(heads)], false};
}

HostThread* VirtualChoice::Overdue(HostThread* me) const {
  return g_threads->baton.contended() ? g_threads->list.MostOverdue(me)
                                      : nullptr;
}

// Strategies pos and pct.
Pick VirtualChoice::PickRanked(HostThread* me) {
  HostThread* const overdue = Overdue(me);
  if (overdue != nullptr && Has(hosts_, overdue)) {
    return {overdue, nullptr, false};
  }
  free_heads_.clear();
  for (StreamCore* const s : heads_->by_age()) {
    if (ReadyHeads::Runnable(s)) free_heads_.push_back(s);
  }
  const uint32_t best = ranks_.Greatest(hosts_, free_heads_);
  if (best < hosts_.size()) return {hosts_[best], nullptr, false};
  return {nullptr, free_heads_[best - hosts_.size()], false};
}

StreamCore* VirtualChoice::RunnableHead(uint32_t rank) const {
  for (StreamCore* const s : heads_->by_age()) {
    if (ReadyHeads::Runnable(s) && rank-- == 0) return s;
  }
  return nullptr;
}

// ---- hw: by time ----

StreamCore* VirtualChoice::NextTimeout(const HostThread* me,
                                       Until until) const {
  if (timeouts_->empty() ||
      (until == Until::kProgress && me->polled_any < kPollsBeforeTimeout)) {
    return nullptr;
  }
  return timeouts_->First();
}

Pick VirtualChoice::ChooseHardware(HostThread* me, Until until) {
  StreamCore* const head = heads_->First();
  HostThread* host = nullptr;
  for (HostThread* const candidate : hosts_) {
    if (host == nullptr || TimeOf(candidate) < TimeOf(host)) host = candidate;
  }
  Pick pick;
  StreamCore* const late = NextTimeout(me, until);
  if (late != nullptr && (head == nullptr || late->when < head->when) &&
      (host == nullptr || late->when <= TimeOf(host))) {
    pick.stream = late;
    pick.timeout = true;
  } else if (head != nullptr &&
             (host == nullptr || head->when <= TimeOf(host))) {
    pick.stream = head;
  } else {
    pick.host = host;
  }
  return pick;
}

// ---- the others ----

Pick VirtualChoice::Prefer(HostThread* me) {
  Pick pick;
  HostThread* wants = me;
  bool host_first = g_machine->config.strategy != StrategyKind::kAsap;
  HostThread* const overdue = Overdue(me);
  if (overdue != nullptr) {
    if (Has(hosts_, overdue)) {
      pick.host = overdue;
      return pick;
    }
    host_first = false;  // the device moves until that one can go on
    wants = overdue;
  }
  if (!host_first || hosts_.empty()) pick.stream = PreferHead(wants);
  if (pick.stream == nullptr) {
    pick.host = host_first ? PreferHost(me) : hosts_.front();
  }
  return pick;
}

// Strategies alap and lifo.  In alap the threads take turns, the newer ones
// first.  In lifo a thread goes on until it blocks, and the newest follows; but
// once, at its third chance, the thread lets the newest go before it.
HostThread* VirtualChoice::PreferHost(HostThread* me) {
  const bool is_able = Has(hosts_, me);
  if (is_able && given_ == me) return me;
  if (g_machine->config.strategy == StrategyKind::kLifo) {
    const bool has_moved = last_host_ == me || last_host_ == nullptr;
    if (is_able && has_moved && ++me->chances != kGivesWayAt) return me;
    HostThread* const newest = hosts_.back();
    return newest != me || hosts_.size() == 1 ? newest
                                              : hosts_[hosts_.size() - 2];
  }
  const auto next =
      std::lower_bound(hosts_.begin(), hosts_.end(), me,
                       [](const HostThread* a, const HostThread* b) {
                         return a->index < b->index;
                       });
  return next == hosts_.begin() ? hosts_.back() : *std::prev(next);
}

StreamCore* VirtualChoice::PreferHead(const HostThread* wants) const {
  StreamCore* best = nullptr;
  switch (g_machine->config.strategy) {
    case StrategyKind::kAsap:
      for (StreamCore* const s : heads_->by_age()) {
        if (!ReadyHeads::Runnable(s)) continue;
        if (best == nullptr || s->number < best->number) best = s;
      }
      return best;
    case StrategyKind::kLifo:
      for (StreamCore* const s : heads_->by_age()) {
        if (ReadyHeads::Runnable(s)) best = s;
      }
      return best;
    default:
      best = FollowWanted(wants);
      return best != nullptr ? best : RunnableHead(0);
  }
}

// Strategy alap: follows the dependencies of what the thread waits for to the
// first operation that can run.
StreamCore* VirtualChoice::FollowWanted(const HostThread* me) const {
  if (me->want_next >= me->want.size()) return nullptr;
  StreamCore* s = me->want[me->want_next].stream;
  for (uint32_t i = 0; s != nullptr && i < kLongestChain; ++i) {
    if (s->head == nullptr) return nullptr;
    if (s->head_state == HeadState::kReady) {
      return ReadyHeads::Runnable(s) ? s : nullptr;
    }
    s = s->head_state == HeadState::kBlocked ? s->waits_on : nullptr;
  }
  return nullptr;
}

}  // namespace devrt::mtia
