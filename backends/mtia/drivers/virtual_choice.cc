// SPDX-License-Identifier: Apache-2.0
//
// The strategies: which thread or stream moves next.  The candidates in
// canonical order are the last that moved, then host threads by index, then
// stream heads by age.  A decision is an index in that order.
#include <algorithm>

#include "backends/mtia/drivers/virtual_driver.h"
#include "backends/mtia/threads/host_threads.h"

namespace devrt::mtia {
namespace {

// A thread polls so often before the timeout of a flag_wait passes for it.
constexpr uint32_t kPollsBeforeTimeout = 1'000;
constexpr uint32_t kLongestChain = 10'000;

bool Has(const std::vector<HostThread*>& hosts, const HostThread* host) {
  return std::find(hosts.begin(), hosts.end(), host) != hosts.end();
}

}  // namespace

VTime VirtualDriver::Now(const HostThread* me) const {
  if (me == &g_threads->borrower()) return clock_;
  return std::max(me->now, clock_);
}

void VirtualDriver::Stop() {
  ready_.clear();
  timeouts_.clear();
  for (; !heap_.empty();) heap_.Remove(heap_.top());
  last_stream_ = nullptr;
  last_host_ = nullptr;
  clock_ = 0;
}

void VirtualDriver::Start() {
  hardware_ = g_machine->config.strategy == StrategyKind::kHardware;
}

// ---- candidates ----

bool VirtualDriver::Runnable(const StreamCore* s) {
  const Op* const op = s->head;
  return op->state == OpState::kRunning || !Tokens::NeedsToken(op) ||
         g_machine->tokens.Of(op).available();
}

bool VirtualDriver::LastIsCandidate() const {
  if (last_host_ != nullptr) return Has(hosts_, last_host_);
  return last_stream_ != nullptr && last_stream_->head != nullptr &&
         last_stream_->head_state == HeadState::kReady &&
         Runnable(last_stream_);
}

uint32_t VirtualDriver::CountCandidates() const {
  auto count = static_cast<uint32_t>(hosts_.size());
  for (const StreamCore* const s : ready_) count += Runnable(s) ? 1 : 0;
  return count;
}

uint32_t VirtualDriver::IndexOf(const Pick& pick) const {
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
  for (const StreamCore* const s : ready_) {
    if (s == pick.stream) break;
    if (Runnable(s) && !(last && s == last_stream_)) ++index;
  }
  return index;
}

VirtualDriver::Pick VirtualDriver::At(uint32_t index) const {
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
  for (StreamCore* const s : ready_) {
    if (!Runnable(s) || (last && s == last_stream_)) continue;
    if (index-- == 0) {
      pick.stream = s;
      return pick;
    }
  }
  return pick;
}

// ---- the choice ----

void VirtualDriver::CollectHosts(HostThread* me, bool able) {
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

VirtualDriver::Pick VirtualDriver::Choose(HostThread* me, bool able,
                                          Until until) {
  CollectHosts(me, able);
  Decisions& decisions = g_machine->decisions;
  if (hardware_) {
    const Pick pick = ChooseHardware(me, until);
    if (pick.timeout || (pick.host == nullptr && pick.stream == nullptr)) {
      return pick;
    }
    if (!decisions.replaying()) {
      // A single candidate needs no decision.  The top of the heap is runnable.
      if (hosts_.size() + (heap_.empty() ? 0 : 1) < 2 &&
          CountCandidates() < 2) {
        return pick;
      }
      decisions.Choose(ChoiceKind::kSchedule, UINT32_MAX, IndexOf(pick));
      return pick;
    }
  }
  return ChooseOther(me, until);
}

// The choice of the strategies but hw, and that of a replay.
VirtualDriver::Pick VirtualDriver::ChooseOther(HostThread* me, Until until) {
  Decisions& decisions = g_machine->decisions;
  const uint32_t n = CountCandidates();
  if (n == 0) {
    Pick pick;
    pick.stream = NextTimeout(me, until);
    pick.timeout = pick.stream != nullptr;
    return pick;
  }
  if (n == 1) {
    return hosts_.empty() ? Pick{nullptr, RunnableHead(0), false}
                          : Pick{hosts_.front(), nullptr, false};
  }
  uint32_t preferred = 0;
  if (g_machine->config.strategy == StrategyKind::kRandom) {
    preferred = decisions.Uniform(n);
  } else if (!decisions.replaying()) {
    preferred = IndexOf(Prefer(me));
  }
  return At(decisions.Choose(ChoiceKind::kSchedule, n, preferred));
}

StreamCore* VirtualDriver::RunnableHead(uint32_t rank) const {
  for (StreamCore* const s : ready_) {
    if (Runnable(s) && rank-- == 0) return s;
  }
  return nullptr;
}

// ---- hw: by time ----

VTime VirtualDriver::TimeOf(const HostThread* host) const {
  return std::max(host->now, host == last_host_ ? 0 : clock_);
}

// The head that moves first.  Moves heads that find no token to the list of
// those that wait for one.
StreamCore* VirtualDriver::FirstByTime() {
  while (!heap_.empty()) {
    StreamCore* const s = heap_.top();
    if (Runnable(s)) return s;
    heap_.Remove(s);
    s->in_token_list = true;
    g_machine->tokens.Of(s->head).waiting.push_back(s);
  }
  return nullptr;
}

StreamCore* VirtualDriver::NextTimeout(const HostThread* me,
                                       Until until) const {
  if (timeouts_.empty() ||
      (until == Until::kProgress && me->polled_any < kPollsBeforeTimeout)) {
    return nullptr;
  }
  return timeouts_.First();
}

VirtualDriver::Pick VirtualDriver::ChooseHardware(HostThread* me, Until until) {
  StreamCore* const head = FirstByTime();
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

// The fast path of Pump and Choose for a single host thread that can go on.  It
// makes the decisions that they would make.  Returns false if they are needed.
bool VirtualDriver::DecideAlone(HostThread* me) {
  Decisions& decisions = g_machine->decisions;
  if (decisions.replaying() || !timeouts_.empty() ||
      g_machine->config.step_limit != 0) {
    return false;
  }
  hosts_.assign(1, me);
  while (!heap_.empty()) {
    StreamCore* const head = heap_.top();
    if (!Runnable(head)) return false;
    const bool steps = head->when <= TimeOf(me);
    uint32_t index = steps ? 1 : 0;
    if (last_host_ != me || ready_.size() > 1) {
      index = IndexOf(steps ? Pick{nullptr, head, false}
                            : Pick{me, nullptr, false});
    }
    decisions.Choose(ChoiceKind::kSchedule, UINT32_MAX, index);
    if (!steps) {
      last_host_ = me;
      last_stream_ = nullptr;
      return true;
    }
    Step(head);
    if (executor_.any_finished() || !timeouts_.empty()) return false;
  }
  if (!ready_.empty()) return false;
  last_host_ = me;
  last_stream_ = nullptr;
  return true;
}

// ---- the others ----

VirtualDriver::Pick VirtualDriver::Prefer(HostThread* me) {
  Pick pick;
  HostThread* wants = me;
  bool host_first = g_machine->config.strategy != StrategyKind::kAsap;
  HostThread* const overdue =
      g_threads->baton.contended() ? g_threads->list.MostOverdue(me) : nullptr;
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
    pick.host = host_first && Has(hosts_, me) ? me : hosts_.front();
  }
  return pick;
}

StreamCore* VirtualDriver::PreferHead(const HostThread* wants) const {
  StreamCore* best = nullptr;
  switch (g_machine->config.strategy) {
    case StrategyKind::kAsap:
      for (StreamCore* const s : ready_) {
        if (!Runnable(s)) continue;
        if (best == nullptr || s->number < best->number) best = s;
      }
      return best;
    case StrategyKind::kLifo:
      for (StreamCore* const s : ready_) {
        if (Runnable(s)) best = s;
      }
      return best;
    default:
      best = FollowWanted(wants);
      return best != nullptr ? best : RunnableHead(0);
  }
}

// Strategy alap: follows the dependencies of what the thread waits for to the
// first operation that can run.
StreamCore* VirtualDriver::FollowWanted(const HostThread* me) const {
  if (me->want_next >= me->want.size()) return nullptr;
  StreamCore* s = me->want[me->want_next].stream;
  for (uint32_t i = 0; s != nullptr && i < kLongestChain; ++i) {
    if (s->head == nullptr) return nullptr;
    if (s->head_state == HeadState::kReady) {
      return Runnable(s) ? s : nullptr;
    }
    s = s->head_state == HeadState::kBlocked ? s->waits_on : nullptr;
  }
  return nullptr;
}

}  // namespace devrt::mtia
