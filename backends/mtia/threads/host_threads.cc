// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/threads/host_threads.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "backends/mtia/engine/machine.h"
#include "backends/mtia/system/helper_thread.h"

namespace devrt::mtia {

HostThreads* g_threads = nullptr;

namespace {

constexpr std::chrono::microseconds kPoll{150};
constexpr std::chrono::milliseconds kIdlePoll{20};
// A blocked thread takes a free baton after this time, to look for a deadlock.
constexpr std::chrono::milliseconds kLookAgain{5};
constexpr uint32_t kBlockedChecks = 3;  // in a row: about half a millisecond

pthread_key_t g_exit_key;

// The letter of /proc/self/task/<tid>/stat: R, S, D ...; '?' if unknown.
char StateOf(int32_t tid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return '?';
  char text[256];
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return '?';
  text[n] = 0;
  const char* const name_end = std::strrchr(text, ')');
  return name_end != nullptr && name_end[1] == ' ' ? name_end[2] : '?';
}

bool Sleeps(const HostThread* thread) {
  return thread->state != HostState::kOutside &&
         thread->state != HostState::kHolding;
}

}  // namespace

// ---- joining and leaving ----

HostThread* HostThreads::Join() {
  static const int made = pthread_key_create(&g_exit_key, &ThreadExit);
  const std::lock_guard<std::mutex> lock(mu_);
  HostThread* me = t_host;
  if (me == nullptr) {
    if (free_.empty()) free_.push_back(&pool_.emplace_back());
    me = free_.back();
    free_.pop_back();
    me->calls.store(0, std::memory_order_relaxed);
    me->tid = static_cast<int32_t>(syscall(SYS_gettid));
    t_host = me;
    if (made == 0) pthread_setspecific(g_exit_key, me);
  }
  Begin(me);
  me->state = HostState::kOutside;
  return me;
}

void HostThreads::Begin(HostThread* me) {
  me->index = next_index_++;
  me->epoch = epoch_.load(std::memory_order_relaxed);
  me->now = 0;
  me->jitter = g_machine->config.seed * 0x9e3779b97f4a7c15u + me->index;
  me->polled = nullptr;
  me->polled_same = me->polled_any = 0;
  me->soft_wait = false;
  me->turn = turns_;
  me->want.clear();
  me->per_thread.clear();
  threads_.push_back(me);
  if (pin_ && threads_.size() >= 2) Pin(me);
}

void HostThreads::ThreadExit(void* thread) {
  auto* const me = static_cast<HostThread*>(thread);
  HostThreads* const self = g_threads;
  Machine* const machine = g_machine;
  const auto is_here = [&] { return me->epoch == self->epoch_.load(); };
  bool leaves = is_here();
  if (leaves && !machine->threaded) {
    leaves = self->EnterToLeave(me);
  } else if (leaves) {
    machine->mutex.lock();
    leaves = is_here();
    if (!leaves) machine->mutex.unlock();
  }
  if (leaves) {
    for (Stream* const stream : me->per_thread) {
      if (stream != nullptr) machine->scheduler.ReleaseStream(stream, me);
    }
    me->per_thread.clear();
    ++machine->history.progress;
  }
  t_host = nullptr;
  {
    const std::lock_guard<std::mutex> lock(self->mu_);
    if (leaves) self->Remove(me);
    self->free_.push_back(me);
  }
  if (!leaves) return;
  if (machine->threaded) {
    machine->mutex.unlock();
  } else {
    self->Free();
  }
}

void HostThreads::Remove(HostThread* me) {
  threads_.erase(std::find(threads_.begin(), threads_.end(), me));
  Unpin(me);
  if (threads_.size() < 2) UnpinAll();
}

void HostThreads::Reset(HostThread* me, bool keep, bool pin,
                        uint64_t watchdog) {
  const std::lock_guard<std::mutex> lock(mu_);
  UnpinAll();
  const std::vector<HostThread*> before = std::exchange(threads_, {});
  for (HostThread* const thread : before) thread->per_thread.clear();
  next_index_ = 0;
  turns_ = 0;
  Configure(keep, pin, watchdog);
  epoch_.fetch_add(1);
  Begin(me);
  me->calls.store(0, std::memory_order_relaxed);
  for (HostThread* const thread : before) {
    if (thread == me || !Sleeps(thread)) continue;
    if (!thread->is_leaving) {
      Begin(thread);
      continue;
    }
    thread->is_dropped = true;
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    thread->wake.notify_one();
  }
  word_.store(Word(me, true), std::memory_order_release);
}

void HostThreads::Configure(bool keep, bool pin, uint64_t watchdog) {
  keep_ = keep;
  pin_ = pin;
  watchdog_ = std::chrono::nanoseconds(watchdog);
}

// ---- the baton ----

void HostThreads::EnterSlow(HostThread* me) {
  std::unique_lock<std::mutex> lock(mu_);
  // A reset may have come since the thread looked.
  if (me->epoch != epoch_.load(std::memory_order_relaxed)) Begin(me);
  me->state = HostState::kArriving;
  me->turn = turns_;
  Sleep(lock, me, RealClock::time_point::max());
}

// Returns false if a reset has come, so that `me` is of no machine.
bool HostThreads::EnterToLeave(HostThread* me) {
  std::unique_lock<std::mutex> lock(mu_);
  if (me->epoch != epoch_.load(std::memory_order_relaxed)) return false;
  uint64_t mine = Word(me, false);
  if (word_.compare_exchange_strong(mine, Word(me, true),
                                    std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
    return true;
  }
  me->is_leaving = true;
  me->state = HostState::kArriving;
  me->turn = turns_;
  Sleep(lock, me, RealClock::time_point::max());
  me->is_leaving = false;
  return !std::exchange(me->is_dropped, false);
}

void HostThreads::HandOver(HostThread* me, HostThread* to, HostState state) {
  std::unique_lock<std::mutex> lock(mu_);
  me->state = state;
  to->granted = true;
  word_.store(Word(to, true), std::memory_order_release);
  to->wake.notify_one();
  Sleep(lock, me,
        state == HostState::kBlocked ? RealClock::now() + kLookAgain
                                     : RealClock::time_point::max());
}

void HostThreads::SleepUntil(HostThread* me, RealClock::time_point deadline) {
  std::unique_lock<std::mutex> lock(mu_);
  me->state = HostState::kBlocked;
  word_.store(0, std::memory_order_release);
  WakePoller();
  Sleep(lock, me, deadline);
}

// Gives the baton to a thread that can go on, or to none.
void HostThreads::Free() {
  const std::lock_guard<std::mutex> lock(mu_);
  for (HostThread* const thread : threads_) {
    if (!CouldGoOn(thread)) continue;
    thread->granted = true;
    word_.store(Word(thread, true), std::memory_order_release);
    thread->wake.notify_one();
    return;
  }
  word_.store(0, std::memory_order_release);
}

bool HostThreads::CouldGoOn(const HostThread* thread) const {
  if (!Sleeps(thread) || thread->granted) return false;
  if (thread->state != HostState::kBlocked) return true;
  if (thread->soft_wait) {
    return g_machine->history.progress != thread->progress || IsOverdue(thread);
  }
  return AllDone(thread->want);
}

void HostThreads::AppendAble(std::vector<HostThread*>* out) {
  const std::lock_guard<std::mutex> lock(mu_);
  for (HostThread* const thread : threads_) {
    if (CouldGoOn(thread)) out->push_back(thread);
  }
}

void HostThreads::LetOthersGo(HostThread* me) {
  std::vector<HostThread*> able;
  for (uint64_t i = 0; i < kMostTurns && contended(); ++i) {
    able.clear();
    AppendAble(&able);
    if (able.empty()) return;
    HandOver(me, able.front(), HostState::kArriving);
  }
}

void HostThreads::GoesOn(HostThread* me) {
  if (!contended()) return;
  const std::lock_guard<std::mutex> lock(mu_);
  me->turn = ++turns_;
}

HostThread* HostThreads::MostOverdue(const HostThread* me) {
  if (!contended()) return nullptr;
  const std::lock_guard<std::mutex> lock(mu_);
  HostThread* most = nullptr;
  for (HostThread* const thread : threads_) {
    if ((thread == me || Sleeps(thread)) && IsOverdue(thread) &&
        (most == nullptr || thread->turn < most->turn)) {
      most = thread;
    }
  }
  return most;
}

// Returns with the baton: it was granted, or was free, or was taken from its
// holder.  A blocked thread takes a free baton only after the deadline.
void HostThreads::Sleep(std::unique_lock<std::mutex>& lock, HostThread* me,
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

bool HostThreads::TryTake(HostThread* me) {
  uint64_t nobody = 0;
  return word_.compare_exchange_strong(nobody, Word(me, true),
                                       std::memory_order_acquire,
                                       std::memory_order_relaxed);
}

// Takes the baton from a holder that blocks outside of devrt, or that has
// computed there for as long as the watchdog allows.
bool HostThreads::TakeOver(HostThread* me) {
  uint64_t word = word_.load(std::memory_order_relaxed);
  if (word == 0 || (word & 1) != 0) {
    seen_word_ = 0;
    return false;
  }
  HostThread* owner = nullptr;
  for (HostThread* const thread : threads_) {
    if (Word(thread, false) == word) owner = thread;
  }
  if (owner == nullptr) return false;
  const uint64_t calls = owner->calls.load(std::memory_order_relaxed);
  if (seen_word_ != word || seen_calls_ != calls) {
    seen_word_ = word;
    seen_calls_ = calls;
    seen_blocked_ = 0;
    seen_since_ = RealClock::now();
  }
  const char state = StateOf(owner->tid);
  seen_blocked_ = state == 'S' || state == 'D' ? seen_blocked_ + 1 : 0;
  if (seen_blocked_ < kBlockedChecks &&
      RealClock::now() - seen_since_ < watchdog_) {
    return false;
  }
  if (!word_.compare_exchange_strong(word, Word(me, true),
                                     std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
    return false;
  }
  owner->state = HostState::kOutside;
  seen_word_ = 0;
  g_machine->history.nondeterministic = true;
  return true;
}

// The first sleeping thread watches the holder of the baton.
bool HostThreads::IsPoller(const HostThread* me) const {
  for (const HostThread* thread : threads_) {
    if (Sleeps(thread)) return thread == me;
  }
  return false;
}

void HostThreads::WakePoller() {
  for (HostThread* const thread : threads_) {
    if (!Sleeps(thread)) continue;
    thread->wake.notify_one();
    return;
  }
}

// Appends the threads that act only if another thread does.  Returns false if
// a sleeping thread can go on now.
bool HostThreads::Known(const HostThread* me, std::vector<int32_t>* tids) {
  tids->push_back(me->tid);
  const std::lock_guard<std::mutex> lock(mu_);
  for (const HostThread* const thread : threads_) {
    // Only `me` is inside, so any other thread that does not sleep is outside.
    if (thread == me || !Sleeps(thread)) continue;
    if (thread->state != HostState::kBlocked || CouldGoOn(thread)) return false;
    // A thread that polls returns to its own code between polls.
    if (!thread->soft_wait) tids->push_back(thread->tid);
  }
  TheHelpers().AddIdle(tids);
  return true;
}

std::vector<const HostThread*> HostThreads::Waiting(const HostThread* me) {
  std::vector<const HostThread*> waiting = {me};
  const std::lock_guard<std::mutex> lock(mu_);
  for (const HostThread* const thread : threads_) {
    if (thread != me && thread->state == HostState::kBlocked) {
      waiting.push_back(thread);
    }
  }
  return waiting;
}

bool HostThreads::OthersExist(const HostThread* me) {
  std::vector<int32_t> known;
  if (!Known(me, &known)) return true;
  const auto others = ThreadWatch::CountOthers(std::move(known));
  if (others.has_value()) return *others > 0;
  // Without /proc only threads that have joined are known.
  const std::lock_guard<std::mutex> lock(mu_);
  return std::any_of(
      threads_.begin(), threads_.end(), [me](const HostThread* thread) {
        return thread != me && thread->state != HostState::kBlocked;
      });
}

ThreadWatch::Verdict HostThreads::Look(const HostThread* me,
                                       ThreadWatch* watch) {
  std::vector<int32_t> known;
  if (Known(me, &known)) return watch->Look(std::move(known));
  watch->Forget();
  return ThreadWatch::Verdict::kMayAct;
}

// ---- one core ----

void HostThreads::Pin(HostThread* me) {
  const auto set = [](int32_t tid, const cpu_set_t& cpus) {
    sched_setaffinity(tid, sizeof cpus, &cpus);
  };
  cpu_set_t one;
  CPU_ZERO(&one);
  if (!pinned_) {
    if (sched_getaffinity(0, sizeof unpinned_, &unpinned_) != 0) return;
    pinned_ = true;
    CPU_SET(static_cast<uint32_t>(std::max(sched_getcpu(), 0)), &one);
    for (const HostThread* const thread : threads_) set(thread->tid, one);
    return;
  }
  const HostThread* const first = threads_.front();
  if (sched_getaffinity(first->tid, sizeof one, &one) == 0) {
    set(me->tid, one);
  }
}

void HostThreads::Unpin(HostThread* me) {
  if (pinned_) sched_setaffinity(me->tid, sizeof unpinned_, &unpinned_);
}

void HostThreads::UnpinAll() {
  if (!pinned_) return;
  for (HostThread* const thread : threads_) Unpin(thread);
  pinned_ = false;
}

}  // namespace devrt::mtia
