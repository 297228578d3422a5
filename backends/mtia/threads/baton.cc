// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/threads/baton.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/mtia/engine/machine.h"
#include "backends/mtia/system/helper_thread.h"
#include "backends/mtia/threads/catching.h"

namespace devrt::mtia {
namespace {

// The time between two looks grows from the first to the second.  The thread
// sleeps meanwhile: where other programs use the core as well, sched_yield lets
// these go on for milliseconds.
constexpr std::chrono::microseconds kPoll{30};
constexpr std::chrono::microseconds kLongestPoll{1000};
constexpr std::chrono::milliseconds kIdlePoll{20};
// With baton=off a blocked thread takes a free baton after this time, to look
// for a deadlock.
constexpr std::chrono::milliseconds kLookAgain{5};

std::chrono::nanoseconds PauseAfter(uint32_t looks) {
  return std::min<std::chrono::nanoseconds>(kPoll * (1 + looks / 4),
                                            kLongestPoll);
}

}  // namespace

void Baton::Configure(bool keep, uint64_t watchdog) {
  keep_ = keep;
  watchdog_ = std::chrono::nanoseconds(watchdog);
}

void Baton::EnterSlow(HostThread* me) {
  Arrival arrival(this);
  std::unique_lock<std::mutex> lock(threads_->mutex);
  // A reset may have come since the thread looked.
  if (me->epoch != threads_->epoch()) threads_->Add(me, NumbersAtOnce());
  me->state = HostState::kArriving;
  me->turn = threads_->turns();
  arrival.End();
  Sleep(lock, me, RealClock::time_point::max());
}

bool Baton::EnterToLeave(HostThread* me) {
  Arrival arrival(this);
  std::unique_lock<std::mutex> lock(threads_->mutex);
  if (me->epoch != threads_->epoch()) return false;
  uint64_t mine = Word(me, false);
  if (word_.compare_exchange_strong(mine, Word(me, true),
                                    std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
    is_settled_ = false;
    return true;
  }
  me->is_leaving = true;
  me->state = HostState::kArriving;
  me->turn = threads_->turns();
  arrival.End();
  Sleep(lock, me, RealClock::time_point::max());
  me->is_leaving = false;
  return !std::exchange(me->is_dropped, false);
}

void Baton::WakeExiting(HostThread* thread) {
  thread->is_dropped = true;
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  thread->wake.notify_one();
}

void Baton::Restart(HostThread* me) {
  word_.store(Word(me, true), std::memory_order_release);
  is_stuck_ = has_given_up_ = false;
  quiet_.Readmit(me->tid);
  const char* const why = quiet_.WhyLeftOut();
  if (why != nullptr) g_machine->history.NoteUncontrolled(why);
}

bool Baton::NumbersAtOnce() const { return g_machine->threaded || !keeps(); }

void Baton::Grant(HostThread* to) {
  to->granted = true;
  word_.store(Word(to, true), std::memory_order_release);
  to->wake.notify_one();
}

void Baton::HandOver(HostThread* me, HostThread* to, HostState state) {
  std::unique_lock<std::mutex> lock(threads_->mutex);
  me->state = state;
  Grant(to);
  Sleep(lock, me,
        state == HostState::kBlocked && !keep_ ? RealClock::now() + kLookAgain
                                               : RealClock::time_point::max());
}

void Baton::SleepUntil(HostThread* me, RealClock::time_point deadline) {
  std::unique_lock<std::mutex> lock(threads_->mutex);
  me->state = HostState::kBlocked;
  is_stuck_ = true;
  word_.store(0, std::memory_order_release);
  WakePoller();
  Sleep(lock, me, deadline);
}

void Baton::Free() {
  const std::lock_guard<std::mutex> lock(threads_->mutex);
  if (!keep_) {
    for (HostThread* const thread : threads_->all()) {
      if (!threads_->CouldGoOn(thread)) continue;
      Grant(thread);
      return;
    }
  }
  word_.store(0, std::memory_order_release);
  if (keep_) WakePoller();
}

void Baton::LetOthersGo(HostThread* me) {
  Settle(me);
  std::vector<HostThread*> able;
  for (uint64_t i = 0; i < ThreadList::kMostTurns && contended(); ++i) {
    able.clear();
    threads_->AppendAble(&able);
    if (able.empty()) break;
    HandOver(me, able.front(), HostState::kArriving);
  }
  const std::lock_guard<std::mutex> lock(threads_->mutex);
  LetCaughtGo(false);
}

void Baton::LetCaughtHelp() {
  const std::lock_guard<std::mutex> lock(threads_->mutex);
  if (!LetCaughtGo(true)) return;
  g_machine->history.NoteUncontrolled(
      "a host function ran for long, and host threads went on beside it");
}

// ---- rest -------------------------------------------------------------------

// Looks whether all threads but `inside` and those that sleep in calls rest.
bool Baton::IsQuiet(const HostThread* inside) {
  known_.clear();
  if (inside != nullptr) known_.push_back(inside->tid);
  threads_->AppendSleepers(&known_);
  TheHelpers().AddIdle(&known_);
  // Threads that take part may go on at any time.
  const bool skips_idle = !threads_->HasOutside(inside);
  switch (quiet_.Look(&known_, watchdog_, skips_idle)) {
    case QuietWatch::Verdict::kMoving:
      return false;
    case QuietWatch::Verdict::kGaveUp:
      has_given_up_ = true;
      break;
    case QuietWatch::Verdict::kQuiet:
      break;
  }
  return arriving_.load() == 0;
}

void Baton::NoteGivenUp() {
  if (!std::exchange(has_given_up_, false)) return;
  g_machine->history.NoteUncontrolled(quiet_.reason());
}

void Baton::SettleSlow(HostThread* me) {
  if (!keep_) {
    is_settled_ = true;
    return;
  }
  const NoCancel no_cancel;
  std::unique_lock<std::mutex> lock(threads_->mutex);
  quiet_.Begin();
  settling_ = me;
  for (uint32_t looks = 0; !IsQuiet(me); ++looks) {
    me->wake.wait_for(lock, PauseAfter(looks));
  }
  settling_ = nullptr;
  threads_->NumberArrived();
  NoteGivenUp();
  is_settled_ = true;
}

// ---- sleep ------------------------------------------------------------------

// Returns with the baton: it was granted, or `me` has taken it when all threads
// rested.  A thread for which nothing can move takes a free baton after the
// deadline.
void Baton::Sleep(std::unique_lock<std::mutex>& lock, HostThread* me,
                  RealClock::time_point deadline) {
  const NoCancel no_cancel;
  sleepers_.fetch_add(1, std::memory_order_relaxed);
  quiet_.Readmit(me->tid);
  if (settling_ != nullptr) settling_->wake.notify_one();
  for (uint32_t looks = 0; !me->granted; ++looks) {
    if (me->is_dropped || me->is_let_go) return;
    const bool late = RealClock::now() >= deadline;
    if ((late || (!keep_ && me->state != HostState::kBlocked)) && TryTake(me)) {
      break;
    }
    const bool polls = keep_ && threads_->FirstSleeper() == me;
    if (polls && Arbitrate(me)) continue;
    const auto next =
        RealClock::now() + (polls ? PauseAfter(looks) : kIdlePoll);
    me->wake.wait_until(
        lock, late ? next : std::min<RealClock::time_point>(next, deadline));
  }
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
  me->granted = false;
  me->state = HostState::kHolding;
  WakePoller();
}

bool Baton::TryTake(HostThread* me) {
  uint64_t nobody = 0;
  if (!word_.compare_exchange_strong(nobody, Word(me, true),
                                     std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
    return false;
  }
  is_stuck_ = false;
  is_settled_ = false;
  return true;
}

// Called by the sleeping thread `me`.  If nobody has the baton, or its holder
// is outside of devrt, and all threads rest: gives the baton to a sleeping
// thread, perhaps to `me`, that decides who goes on.
bool Baton::Arbitrate(HostThread* me) {
  uint64_t word = word_.load(std::memory_order_relaxed);
  HostThread* holder = nullptr;
  uint64_t calls = 0;
  for (HostThread* const thread : threads_->all()) {
    if (Word(thread, false) != word) continue;
    holder = thread;
    calls = thread->calls.load(std::memory_order_relaxed);
  }
  if (word != watched_word_ || calls != watched_calls_) quiet_.Begin();
  watched_word_ = word;
  watched_calls_ = calls;
  if ((word & 1) != 0 || (word != 0 && holder == nullptr)) return false;
  if (!__libc_single_threaded && !IsQuiet(nullptr)) return false;
  threads_->NumberArrived();
  // A holder that has entered the machine meanwhile waits for the lock of the
  // list, which the caller has, and not in a lock of the program.
  if (word_.load(std::memory_order_acquire) != word) return false;
  if (holder != nullptr && Calls(holder)) return false;
  if (!word_.compare_exchange_strong(word, Word(me, true),
                                     std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
    return false;
  }
  HostThread* to = threads_->Arbiter(is_stuck_);
  if (to == nullptr) to = ChooseCaught();
  if (to == nullptr) {
    // Threads that only wait for each other, or for what devrt does not know,
    // do so as they would without devrt.
    if (threads_->Arbiter(false) == nullptr) LetCaughtGo(false);
    word_.store(0, std::memory_order_release);
    return me->is_let_go;
  }
  if (holder != nullptr) holder->state = HostState::kOutside;
  is_stuck_ = false;
  is_settled_ = true;
  NoteGivenUp();
  to->arbitrates = to->state == HostState::kArriving && !to->is_leaving &&
                   sleepers_.load(std::memory_order_relaxed) > 1;
  Grant(to);
  return true;
}

// ---- locks outside of devrt -------------------------------------------------

// Makes a holder that waits in a lock sleep in the handler, where it has no
// baton and nothing wakes it behind the baton's back.  Returns true if it is on
// its way.  All threads rest now, so a holder that was called before and still
// rests does not come: it blocks the signal.
bool Baton::Calls(HostThread* holder) {
  if (holder->is_called || !quiet_.WaitsInLock(holder->tid)) {
    holder->is_called = false;
    return false;
  }
  holder->is_called = CallIntoHandler(holder->tid);
  return holder->is_called;
}

void Baton::SleepCaught(HostThread* me, const uint32_t* word, uint32_t value) {
  Arrival arrival(this);
  std::unique_lock<std::mutex> lock(threads_->mutex);
  if (!std::exchange(me->is_called, false)) return;
  uint64_t mine = Word(me, false);
  if (me->epoch != threads_->epoch() ||
      !word_.compare_exchange_strong(mine, 0, std::memory_order_release,
                                     std::memory_order_relaxed)) {
    return;
  }
  me->lock_word = word;
  me->lock_value = value;
  me->state = HostState::kCaught;
  me->turn = threads_->turns();
  arrival.End();
  WakePoller();
  Sleep(lock, me, RealClock::time_point::max());
  me->lock_word = nullptr;
  if (std::exchange(me->is_let_go, false)) return;
  lock.unlock();
  Exit(me);
}

// Decides which of the caught threads that could go on does, while no other
// thread sleeps that could decide.  Called inside the machine.
HostThread* Baton::ChooseCaught() {
  std::vector<HostThread*> able = threads_->Caught();
  able.erase(std::remove_if(able.begin(), able.end(),
                            [this](const HostThread* thread) {
                              return !threads_->CouldGoOn(thread);
                            }),
             able.end());
  const auto n = static_cast<uint32_t>(able.size());
  if (n < 2) return n == 0 ? nullptr : able.front();
  Decisions& decisions = g_machine->decisions;
  const StrategyKind strategy = g_machine->config.strategy;
  const bool draws = strategy == StrategyKind::kRandom ||
                     strategy == StrategyKind::kDirected ||
                     strategy == StrategyKind::kPos ||
                     strategy == StrategyKind::kPct;
  HostThread* const chosen = able[decisions.Choose(
      ChoiceKind::kSchedule, n, draws ? decisions.Uniform(n) : 0)];
  if (decisions.keeps()) decisions.DescribeLast(*chosen);
  return chosen;
}

// Lets caught threads go on in their locks, without the baton.  Returns true if
// there were some.
bool Baton::LetCaughtGo(bool only_able) {
  bool any = false;
  for (HostThread* const thread : threads_->Caught()) {
    if (thread->granted || (only_able && !threads_->CouldGoOn(thread)))
      continue;
    any = thread->is_let_go = true;
    thread->state = HostState::kOutside;
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    thread->wake.notify_one();
  }
  return any;
}

// The first sleeping thread looks whether the others rest.
void Baton::WakePoller() {
  HostThread* const first = threads_->FirstSleeper();
  if (first != nullptr) first->wake.notify_one();
}

}  // namespace devrt::mtia
