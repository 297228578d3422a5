// SPDX-License-Identifier: Apache-2.0
//
// Virtual mode: the steps, and the waits.
#include "backends/mtia/drivers/virtual_driver.h"

#include <algorithm>

#include "backends/mtia/system/helper_thread.h"
#include "backends/mtia/threads/host_threads.h"

namespace devrt::mtia {
namespace {

constexpr int32_t kLaunchTimeout = 702;
constexpr uint32_t kSoftWaitSame = 2;  // "not ready" in a row, one object
constexpr uint32_t kSoftWaitAny = 8;   // in a row, any objects
// A thread may poll so often, while nothing can move, before it gets an error:
// it may set a flag itself after a few polls.
constexpr uint32_t kPollsBeforeError = 10'000;
// Threads that poll wait for what one of them does between two polls, or for a
// thread outside.  From this poll on each sleeps first, so that threads outside
// can run.
constexpr uint32_t kStuckPollsBeforePause = 16;

bool WantDone(HostThread* me) {
  for (; me->want_next < me->want.size(); ++me->want_next) {
    if (!Done(me->want[me->want_next])) return false;
  }
  return true;
}

// The time of a call: a small amount that depends on the seed.
VTime CallCost(HostThread* me) {
  const uint64_t base = g_machine->config.host_call;
  me->jitter = me->jitter * 6364136223846793005u + 1442695040888963407u;
  return base - base / 4 + ((me->jitter >> 33) * (base / 2 + 1) >> 31);
}

}  // namespace

Driver* TheVirtualDriver() {
  static auto* const driver = new VirtualDriver();
  return driver;
}

VTime VirtualDriver::Now(const HostThread* me) const {
  if (me == &g_threads->borrower()) return clock_;
  return std::max(me->now, clock_);
}

void VirtualDriver::Stop() {
  heads_.Clear();
  timeouts_.clear();
  choice_.Reset();
  clock_ = 0;
}

void VirtualDriver::Start() {
  heads_.set_hardware(g_machine->config.strategy == StrategyKind::kHardware);
  choice_.Start(g_machine->config);
}

// ---- calls of the scheduler ----

void VirtualDriver::HeadReady(StreamCore* s) {
  Op* const op = s->head;
  if (op->engine == EngineClass::kNone) {
    s->when = After(s->when, op->duration);  // one step, at its end
  } else if (op->part != nullptr) {
    s->when = After(s->when, op->part->late);
  }
  if (Tokens::NeedsToken(op)) ++g_machine->tokens.Of(op).pending;
  heads_.Insert(s);
}

void VirtualDriver::Unpark(StreamCore* s) {
  // The kernel goes on at the end of the call or operation that set the flag.
  Op* const op = s->head;
  timeouts_.Remove(s);
  s->when = After(std::max(op->began, clock_), op->duration);
  heads_.Insert(s);
}

void VirtualDriver::SlotsAdded(uint32_t device) {
  EngineTokens& slots = g_machine->tokens.Slots(device);
  while (!slots.waiting.empty()) heads_.Grant(&slots, clock_);
}

void VirtualDriver::HeadGone(StreamCore* s) {
  Op* const op = s->head;
  if (s->head_state == HeadState::kParked) {
    timeouts_.Remove(s);
    g_machine->flags.StopWaiting(s);
    if (op->part != nullptr) g_machine->collectives.StopWaiting(op);
    return;
  }
  heads_.Remove(s);
  if (op->state == OpState::kPending && Tokens::NeedsToken(op)) {
    --g_machine->tokens.Of(op).pending;
  }
}

// ---- steps ----

void VirtualDriver::Step(StreamCore* s) {
  Op* const op = s->head;
  Machine* const machine = g_machine;
  ++machine->history.steps;
  choice_.NoteMoved(s);
  const bool begins =
      op->state == OpState::kPending && op->engine != EngineClass::kNone;
  machine->history.trace.Add(begins ? 2 : 3, s->number, op->seq - s->base);
  if (begins) {
    Begin(s, op);
  } else {
    End(s, op);
  }
}

void VirtualDriver::Begin(StreamCore* s, Op* op) {
  Machine* const machine = g_machine;
  ++machine->history.progress;
  heads_.Remove(s);
  if (Tokens::NeedsToken(op)) {
    EngineTokens& tokens = machine->tokens.Of(op);
    --tokens.pending;
    machine->tokens.Take(op);
  }
  op->state = OpState::kRunning;
  s->when = std::max(s->when, clock_);
  op->began = clock_ = s->when;
  if (op->timeline != kNever) machine->history.timeline.Update(op);
  if (!machine->fault_rules.empty() && BeginFaulty(s, op)) return;
  if (op->action == Action::kFlagWait && !machine->flags.IsSet(op)) {
    machine->flags.Park(s);
    timeouts_.Add(s);
    return;
  }
  if (op->part != nullptr && !machine->collectives.Begin(op)) {
    timeouts_.Add(s);
    return;
  }
  machine->execution.Begin(op);
  s->when = After(op->began, op->duration);
  heads_.Insert(s);
}

// Applies the rules that hit an operation at its begin.  Returns true if it
// hangs.
bool VirtualDriver::BeginFaulty(StreamCore* s, Op* op) {
  FaultRules& rules = g_machine->fault_rules;
  rules.SlowDown(op);
  if (!rules.Hangs(op, &op->timeout)) return false;
  op->hangs = true;
  s->head_state = HeadState::kParked;
  timeouts_.Add(s);
  return true;
}

void VirtualDriver::End(StreamCore* s, Op* op) {
  Machine* const machine = g_machine;
  VTime end = std::max({s->when, s->last_end + 1, clock_});
  heads_.Remove(s);
  s->head_state = HeadState::kNone;
  if (op->state == OpState::kPending) {  // one step for begin and end
    if (!heads_.hardware()) end = std::max(end, After(clock_, op->duration));
    op->began = end - op->duration;
  }
  clock_ = end;
  if (op->kind == OpKind::kHostFunc) {
    EndHostFunc(s, op, end);
    return;
  }
  if (op->engine == EngineClass::kNone && !IsLifetime(op)) {
    machine->scheduler.Complete(op, end);
    return;
  }
  Fault fault = machine->execution.End(op);
  if (!fault) fault = machine->injection.TakeFor(op);
  if (fault) {
    choice_.NoteEnded(op);
    machine->faults.FailOp(op, std::move(fault), end);
    return;
  }
  if (op->action == Action::kFlagSet)
    machine->flags.Set(op->flag, op->value, this);
  Finish(op, end);
}

void VirtualDriver::Finish(Op* op, VTime end) {
  choice_.NoteEnded(op);
  EngineTokens* const tokens = op->holds_token && heads_.hardware()
                                   ? &g_machine->tokens.Of(op)
                                   : nullptr;
  g_machine->scheduler.Complete(op, end);
  if (tokens != nullptr && !tokens->waiting.empty()) heads_.Grant(tokens, end);
}

void VirtualDriver::EndHostFunc(StreamCore* s, Op* op, VTime end) {
  Machine* const machine = g_machine;
  ++machine->history.host_funcs_run;
  op->runs_elsewhere = true;
  s->when = end;
  ThreadWatch watch;
  HostThread* const me = g_threads->Me();
  g_threads->baton.Unsettle();
  if (executor_.Run(op, std::chrono::nanoseconds(machine->config.watchdog),
                    [&watch, me] {
                      g_threads->baton.LetCaughtHelp();
                      return IsCertain(me, &watch);
                    })) {
    op->runs_elsewhere = false;
    Finish(op, end);
    return;
  }
  machine->history.NoteUncontrolled(
      "a host function did not return, and the machine went on without it");
  s->head_state = HeadState::kParked;
  machine->reports.WarnHostFunc(*op);
}

// Completes host functions that were left behind and have returned.
void VirtualDriver::CompleteReturned() {
  while (Op* const op = executor_.Finished()) {
    op->runs_elsewhere = false;
    if (op->stream == nullptr) {
      g_machine->scheduler.Abandon(op);
    } else {
      Finish(op, std::max(clock_, op->stream->when));
    }
  }
}

void VirtualDriver::Expire(StreamCore* s) {
  Op* const op = s->head;
  if (op->part == nullptr || op->hangs) {
    ExpireFlag(s);
    return;
  }
  timeouts_.Remove(s);
  choice_.NoteMoved(s);
  g_machine->history.trace.Add(4, s->number, op->seq - s->base);
  clock_ = std::max(clock_, s->when);
  if (g_machine->collectives.Expire(op)) timeouts_.Add(s);
}

void VirtualDriver::ExpireFlag(StreamCore* s) {
  timeouts_.Remove(s);
  g_machine->flags.StopWaiting(s);
  s->head_state = HeadState::kNone;
  choice_.NoteMoved(s);
  g_machine->history.trace.Add(4, s->number, s->head->seq - s->base);
  clock_ = std::max({clock_, s->when, s->last_end + 1});
  Fault fault = s->head->hangs ? DescribeFault(*s->head, kLaunchTimeout,
                                               "injected: it never ended",
                                               g_machine->config)
                               : g_machine->injection.TakeFor(s->head);
  if (fault) {
    choice_.NoteEnded(s->head);
    g_machine->faults.FailOp(s->head, std::move(fault), clock_);
  } else {
    Finish(s->head, clock_);
  }
}

// ---- the pump ----

void VirtualDriver::Spend(HostThread* me) { me->now = Now(me) + CallCost(me); }

void VirtualDriver::Decide(HostThread* me) {
  g_threads->baton.Settle(me);
  if (executor_.any_finished()) CompleteReturned();
  if (!g_threads->baton.contended()) {
    if (heads_.by_age().empty() && timeouts_.empty()) return;
    if (heads_.hardware() && DecideAlone(me)) return;
  }
  Pump(me, Until::kNow);
}

// The fast path of Pump and Choose for a single host thread that can go on.  It
// makes the decisions that they would make.  Returns false if they are needed.
bool VirtualDriver::DecideAlone(HostThread* me) {
  if (g_machine->decisions.replaying() || !timeouts_.empty() ||
      g_machine->config.step_limit != 0) {
    return false;
  }
  choice_.SetOnlyHost(me);
  while (!heads_.by_time().empty()) {
    StreamCore* const head = heads_.by_time().top();
    if (!ReadyHeads::Runnable(head)) return false;
    if (!choice_.HeadGoesFirst(me, head)) {
      choice_.NoteMoved(me);
      return true;
    }
    Step(head);
    if (executor_.any_finished() || !timeouts_.empty() ||
        !g_threads->baton.is_settled()) {
      return false;
    }
  }
  if (!heads_.by_age().empty()) return false;
  choice_.NoteMoved(me);
  return true;
}

devrt_status VirtualDriver::Wait(HostThread* me) {
  return WantDone(me) ? nullptr : Pump(me, Until::kWanted);
}

devrt_status VirtualDriver::SoftWait(HostThread* me) {
  if (me->polled_same < kSoftWaitSame && me->polled_any < kSoftWaitAny) {
    return nullptr;
  }
  me->progress = g_machine->history.progress;
  me->soft_wait = true;
  devrt_status error = Pump(me, Until::kProgress);
  me->soft_wait = false;
  return error;
}

devrt_status VirtualDriver::AwaitChange(HostThread* me) {
  return Pump(me, Until::kChanged);
}

bool VirtualDriver::CanGoOn(HostThread* me, Until until) const {
  switch (until) {
    case Until::kNow:
      return true;
    case Until::kWanted:
      return WantDone(me);
    case Until::kProgress:
      return g_machine->history.progress != me->progress ||
             g_threads->list.IsOverdue(me);
    case Until::kChanged:
      return HasChanged(me);
  }
  return true;
}

devrt_status VirtualDriver::Pump(HostThread* me, Until until) {
  const NoCancel no_cancel;
  for (;;) {
    g_threads->baton.Settle(me);
    if (executor_.any_finished()) CompleteReturned();
    const Pick pick = choice_.Choose(me, CanGoOn(me, until), until);
    if (pick.stream != nullptr) {
      if (pick.timeout) {
        Expire(pick.stream);
      } else {
        Step(pick.stream);
      }
      const uint64_t limit = g_machine->config.step_limit;
      if (limit != 0 && g_machine->history.steps > limit) {
        if (until == Until::kNow) return nullptr;  // the next wait says so
        return g_machine->reports.Deadlock(g_threads->list.Waiting(me),
                                           StuckReason::kSteps);
      }
      continue;
    }
    if (pick.host == me) {
      if (g_threads->baton.contended()) g_threads->list.GoesOn(me);
      choice_.NoteMoved(me);
      return nullptr;
    }
    if (pick.host != nullptr) {
      GiveTo(pick.host, me,
             until == Until::kNow ? HostState::kPaused : HostState::kBlocked);
      continue;
    }
    if (until == Until::kProgress && me->polled_any < kPollsBeforeError &&
        !g_threads->list.OthersExist(me)) {
      return nullptr;
    }
    devrt_status error =
        until == Until::kProgress ? StuckPoll(me) : StuckWait(me, until);
    if (error != nullptr) return error;
  }
}

// Lets the thread go on, while `me` sleeps in `state`.
void VirtualDriver::GiveTo(HostThread* thread, HostThread* me,
                           HostState state) {
  g_machine->history.trace.Add(5, thread->index, me->index);
  choice_.NoteGiven(thread);
  g_threads->baton.HandOver(me, thread, state);
}

// Lets other threads run until `deadline`.  Returns true if something changed.
bool VirtualDriver::SleepStuck(HostThread* me, Until until,
                               RealClock::time_point deadline) {
  const uint64_t progress = g_machine->history.progress;
  g_threads->baton.SleepUntil(me, deadline);
  if (executor_.any_finished()) CompleteReturned();
  return g_machine->history.progress != progress || CanGoOn(me, until);
}

// Nothing can move.  Returns NULL when something has changed, or the report.
devrt_status VirtualDriver::StuckWait(HostThread* me, Until until) {
  StuckWatch watch;
  watch.Start();
  // The order of the two questions matters: a host function that ends is in the
  // list of finished ones before its thread counts as idle.
  while (g_threads->list.OthersExist(me) || executor_.any_finished()) {
    const auto soon = RealClock::now() + std::chrono::milliseconds(1);
    if (SleepStuck(me, until, std::min(watch.look_at, soon))) {
      return nullptr;
    }
    // A thread that polls goes on when this one does not.
    HostThread* const poller = g_threads->list.AnswerPoller(me);
    if (poller != nullptr) {
      GiveTo(poller, me, HostState::kBlocked);
      return nullptr;
    }
    if (Look(me, &watch)) break;
  }
  return g_machine->reports.Deadlock(g_threads->list.Waiting(me),
                                     StuckReason::kWait);
}

// `me` polls and nothing can move.  Lets other threads that poll go on, and
// threads outside run for a moment, unless none can act.  Returns NULL.  After
// many polls it returns the report if none can act.
devrt_status VirtualDriver::StuckPoll(HostThread* me) {
  StuckWatch& watch = me->stuck_watch;
  if (watch.progress != g_machine->history.progress) {
    watch = StuckWatch();
    watch.progress = g_machine->history.progress;
    watch.Start();
  }
  const bool has_polled_long = me->polled_any >= kPollsBeforeError;
  // Between polls the program may have woken a thread, so that the last poll
  // looks again.
  if (has_polled_long) watch.look_at = RealClock::now();
  const bool alone = Look(me, &watch) || (!g_threads->list.OthersExist(me) &&
                                          !executor_.any_finished());
  if (has_polled_long && alone) {
    return g_machine->reports.Deadlock(g_threads->list.Waiting(me),
                                       StuckReason::kPoll);
  }
  HostThread* poller = nullptr;
  if (!alone && ++watch.polls < kStuckPollsBeforePause) {
    poller = g_threads->list.AnswerPoller(me);
  }
  if (!alone && poller == nullptr) {
    const auto soon = RealClock::now() + std::chrono::microseconds(200);
    if (SleepStuck(me, Until::kProgress, soon)) return nullptr;
    poller = g_threads->list.AnswerPoller(me);
  }
  if (poller != nullptr) {
    GiveTo(poller, me, HostState::kBlocked);
    return nullptr;
  }
  me->progress = g_machine->history.progress - 1;  // answer
  return nullptr;
}

// Returns true if no other thread could act at the last look.  Looks only from
// time to time, and warns once, when the watchdog has passed.
bool VirtualDriver::Look(HostThread* me, StuckWatch* watch) {
  const auto now = RealClock::now();
  if (now < watch->look_at) return watch->is_certain;
  watch->is_certain =
      IsCertain(me, &watch->threads) && !executor_.any_finished();
  if (watch->is_certain) {
    watch->look_at = now + ThreadWatch::kSecondLook;
    return true;
  }
  const std::chrono::nanoseconds patience(g_machine->config.watchdog);
  if (now - watch->began >= patience && !watch->warned) {
    watch->warned = true;
    g_machine->reports.WarnWaiting(g_threads->list.Waiting(me));
  }
  watch->look_at =
      now + std::min<std::chrono::nanoseconds>(watch->pause, patience);
  watch->pause *= 2;
  return false;
}

// Returns true if at this look and at the one before all other threads slept
// until another thread wakes them.
bool VirtualDriver::IsCertain(HostThread* me, ThreadWatch* watch) {
  return g_threads->list.Judge(me, watch) != ThreadWatch::Verdict::kMayAct;
}

}  // namespace devrt::mtia
