// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/threads/baton.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/mtia/engine/machine.h"
#include "backends/mtia/system/helper_thread.h"

namespace devrt::mtia {
namespace {

constexpr std::chrono::microseconds kPoll{150};
constexpr std::chrono::milliseconds kIdlePoll{20};
// A blocked thread takes a free baton after this time, to look for a deadlock.
constexpr std::chrono::milliseconds kLookAgain{5};

}  // namespace

void Baton::Configure(bool keep, uint64_t watchdog) {
  keep_ = keep;
  watchdog_ = std::chrono::nanoseconds(watchdog);
}

void Baton::EnterSlow(HostThread* me) {
  std::unique_lock<std::mutex> lock(threads_->mutex);
  // A reset may have come since the thread looked.
  if (me->epoch != threads_->epoch()) threads_->Add(me);
  me->state = HostState::kArriving;
  me->turn = threads_->turns();
  Sleep(lock, me, RealClock::time_point::max());
}

bool Baton::EnterToLeave(HostThread* me) {
  std::unique_lock<std::mutex> lock(threads_->mutex);
  if (me->epoch != threads_->epoch()) return false;
  uint64_t mine = Word(me, false);
  if (word_.compare_exchange_strong(mine, Word(me, true),
                                    std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
    return true;
  }
  me->is_leaving = true;
  me->state = HostState::kArriving;
  me->turn = threads_->turns();
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
}

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
        state == HostState::kBlocked ? RealClock::now() + kLookAgain
                                     : RealClock::time_point::max());
}

void Baton::SleepUntil(HostThread* me, RealClock::time_point deadline) {
  std::unique_lock<std::mutex> lock(threads_->mutex);
  me->state = HostState::kBlocked;
  word_.store(0, std::memory_order_release);
  WakePoller();
  Sleep(lock, me, deadline);
}

void Baton::Free() {
  const std::lock_guard<std::mutex> lock(threads_->mutex);
  for (HostThread* const thread : threads_->all()) {
    if (!threads_->CouldGoOn(thread)) continue;
    Grant(thread);
    return;
  }
  word_.store(0, std::memory_order_release);
}

void Baton::LetOthersGo(HostThread* me) {
  std::vector<HostThread*> able;
  for (uint64_t i = 0; i < ThreadList::kMostTurns && contended(); ++i) {
    able.clear();
    threads_->AppendAble(&able);
    if (able.empty()) return;
    HandOver(me, able.front(), HostState::kArriving);
  }
}

// Returns with the baton: it was granted, or was free, or was taken from its
// holder.  A blocked thread takes a free baton only after the deadline.
void Baton::Sleep(std::unique_lock<std::mutex>& lock, HostThread* me,
                  RealClock::time_point deadline) {
  const NoCancel no_cancel;
  sleepers_.fetch_add(1, std::memory_order_relaxed);
  while (!me->granted) {
    if (me->is_dropped) return;
    const bool late = RealClock::now() >= deadline;
    if ((me->state != HostState::kBlocked || late) && TryTake(me)) break;
    const bool poller = IsPoller(me);
    if (poller && TakeOver(me)) break;
    const auto next = RealClock::now() + (poller ? kPoll : kIdlePoll);
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
  return word_.compare_exchange_strong(nobody, Word(me, true),
                                       std::memory_order_acquire,
                                       std::memory_order_relaxed);
}

// Takes the baton from a holder that blocks outside of devrt, or that has
// computed there for as long as the watchdog allows.
bool Baton::TakeOver(HostThread* me) {
  uint64_t word = word_.load(std::memory_order_relaxed);
  if (word == 0 || (word & 1) != 0) {
    watch_.Forget();
    return false;
  }
  HostThread* holder = nullptr;
  for (HostThread* const thread : threads_->all()) {
    if (Word(thread, false) == word) holder = thread;
  }
  if (holder == nullptr || !watch_.MayTakeFrom(*holder, word, watchdog_) ||
      !word_.compare_exchange_strong(word, Word(me, true),
                                     std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
    return false;
  }
  holder->state = HostState::kOutside;
  watch_.Forget();
  g_machine->history.nondeterministic = true;
  return true;
}

// The first sleeping thread watches the holder of the baton.
bool Baton::IsPoller(const HostThread* me) const {
  for (const HostThread* const thread : threads_->all()) {
    if (Sleeps(thread)) return thread == me;
  }
  return false;
}

void Baton::WakePoller() {
  for (HostThread* const thread : threads_->all()) {
    if (!Sleeps(thread)) continue;
    thread->wake.notify_one();
    return;
  }
}

}  // namespace devrt::mtia
