// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/threads/thread_list.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "backends/mtia/engine/machine.h"
#include "backends/mtia/system/helper_thread.h"

namespace devrt::mtia {

HostThread* ThreadList::New() {
  if (free_.empty()) free_.push_back(&pool_.emplace_back());
  HostThread* const made = free_.back();
  free_.pop_back();
  made->calls.store(0, std::memory_order_relaxed);
  made->is_leaving = made->is_dropped = made->arbitrates = false;
  made->is_called = made->is_let_go = made->granted = false;
  made->tid = static_cast<int32_t>(syscall(SYS_gettid));
  core_.DropInherited(made);
  return made;
}

void ThreadList::Add(HostThread* me, bool gets_number) {
  me->index = kNoThreadIndex;
  me->epoch = epoch();
  me->now = 0;
  me->work = me->allocations = me->host_copies = 0;
  me->observed = 0;
  me->rank = 0;
  me->chances = 0;
  me->polled = {};
  me->polled_same = me->polled_any = 0;
  me->soft_wait = false;
  me->arbitrates = false;
  me->lock_word = nullptr;
  me->site = Site();
  me->is_called = false;
  me->turn = turns_;
  me->want.clear();
  me->per_thread.clear();
  if (gets_number) {
    Number(me);
  } else {
    arrived_.push_back(me);
  }
  const std::vector<HostThread*> everyone = Everyone();
  if (pin_ && everyone.size() >= 2) core_.Keep(everyone);
}

void ThreadList::Number(HostThread* me) {
  me->index = next_index_++;
  me->jitter = g_machine->config.seed * 0x9e3779b97f4a7c15u + me->index;
  threads_.push_back(me);
}

void ThreadList::NumberArrived() {
  if (arrived_.empty()) return;
  std::sort(arrived_.begin(), arrived_.end(),
            [](const HostThread* a, const HostThread* b) {
              return ThreadWatch::IsOlder(a->tid, b->tid);
            });
  auto kept = arrived_.begin();
  for (HostThread* const thread : arrived_) {
    if (Sleeps(thread)) {
      Number(thread);
    } else {
      *kept++ = thread;
    }
  }
  arrived_.erase(kept, arrived_.end());
}

std::vector<HostThread*> ThreadList::Everyone() const {
  std::vector<HostThread*> everyone = threads_;
  everyone.insert(everyone.end(), arrived_.begin(), arrived_.end());
  return everyone;
}

HostThread* ThreadList::FirstSleeper() const {
  for (const auto* const list : {&threads_, &arrived_}) {
    for (HostThread* const thread : *list) {
      if (Sleeps(thread)) return thread;
    }
  }
  return nullptr;
}

HostThread* ThreadList::Arbiter(bool only_able) const {
  HostThread* best = nullptr;
  int best_merit = 0;
  for (HostThread* const thread : threads_) {
    if (!Sleeps(thread) || thread->state == HostState::kCaught) continue;
    const bool is_able = CouldGoOn(thread);
    if (only_able && !is_able) continue;
    // One at its end decides nothing.
    const int merit = thread->is_leaving ? 1 : is_able ? 3 : 2;
    if (merit > best_merit) best = thread, best_merit = merit;
  }
  return best;
}

std::vector<HostThread*> ThreadList::Caught() const {
  std::vector<HostThread*> caught;
  for (HostThread* const thread : threads_) {
    if (thread->state == HostState::kCaught) caught.push_back(thread);
  }
  return caught;
}

bool ThreadList::HasOutside(const HostThread* inside) const {
  for (const auto* const list : {&threads_, &arrived_}) {
    for (const HostThread* const thread : *list) {
      if (thread != inside && !Sleeps(thread)) return true;
    }
  }
  return false;
}

void ThreadList::AppendSleepers(std::vector<int32_t>* tids) const {
  for (const auto* const list : {&threads_, &arrived_}) {
    for (const HostThread* const thread : *list) {
      if (Sleeps(thread)) tids->push_back(thread->tid);
    }
  }
}

void ThreadList::Remove(HostThread* me) {
  for (auto* const list : {&threads_, &arrived_}) {
    list->erase(std::remove(list->begin(), list->end(), me), list->end());
  }
  core_.Release(me);
  const std::vector<HostThread*> everyone = Everyone();
  if (everyone.size() == 1) core_.Release(everyone.front());
}

std::vector<HostThread*> ThreadList::Restart(bool pin) {
  std::vector<HostThread*> before = Everyone();
  threads_.clear();
  arrived_.clear();
  for (HostThread* const thread : before) {
    core_.Release(thread);
    thread->per_thread.clear();
  }
  next_index_ = 0;
  turns_ = 0;
  pin_ = pin;
  epoch_.fetch_add(1);
  return before;
}

bool ThreadList::CouldGoOn(const HostThread* thread) const {
  if (!Sleeps(thread) || thread->granted) return false;
  if (thread->lock_word != nullptr) return HasChanged(thread);
  if (thread->state != HostState::kBlocked) return true;
  if (thread->soft_wait) {
    return g_machine->history.progress != thread->progress || IsOverdue(thread);
  }
  return AllDone(thread->want);
}

void ThreadList::AppendAble(std::vector<HostThread*>* out) {
  const std::lock_guard<std::mutex> lock(mutex);
  for (HostThread* const thread : threads_) {
    if (CouldGoOn(thread)) out->push_back(thread);
  }
}

std::vector<const HostThread*> ThreadList::Waiting(const HostThread* me) {
  std::vector<const HostThread*> waiting = {me};
  const std::lock_guard<std::mutex> lock(mutex);
  for (const HostThread* const thread : threads_) {
    if (thread != me && thread->state == HostState::kBlocked) {
      waiting.push_back(thread);
    }
  }
  return waiting;
}

void ThreadList::GoesOn(HostThread* me) {
  const std::lock_guard<std::mutex> lock(mutex);
  me->turn = ++turns_;
}

HostThread* ThreadList::AnswerPoller(const HostThread* me) {
  const std::lock_guard<std::mutex> lock(mutex);
  HostThread* oldest = nullptr;
  for (HostThread* const thread : threads_) {
    if (thread != me && thread->state == HostState::kBlocked &&
        thread->soft_wait && thread->lock_word == nullptr &&
        (oldest == nullptr || thread->turn < oldest->turn)) {
      oldest = thread;
    }
  }
  if (oldest != nullptr) oldest->progress = g_machine->history.progress - 1;
  return oldest;
}

HostThread* ThreadList::MostOverdue(const HostThread* me) {
  const std::lock_guard<std::mutex> lock(mutex);
  HostThread* most = nullptr;
  for (HostThread* const thread : threads_) {
    if ((thread == me || Sleeps(thread)) && IsOverdue(thread) &&
        (thread->state != HostState::kCaught || CouldGoOn(thread)) &&
        (most == nullptr || thread->turn < most->turn)) {
      most = thread;
    }
  }
  return most;
}

// Appends the threads that act only if another thread does.  Returns false if
// a sleeping thread can go on now.
bool ThreadList::Known(const HostThread* me, std::vector<int32_t>* tids) {
  tids->push_back(me->tid);
  const std::lock_guard<std::mutex> lock(mutex);
  for (const HostThread* const thread : threads_) {
    // Only `me` is inside, so any other thread that does not sleep is outside.
    if (thread == me || !Sleeps(thread)) continue;
    const bool waits = thread->state == HostState::kBlocked ||
                       thread->state == HostState::kCaught;
    if (!waits || CouldGoOn(thread)) return false;
    // A thread that polls returns to its own code between polls.
    if (!thread->soft_wait) tids->push_back(thread->tid);
  }
  TheHelpers().AddIdle(tids);
  return true;
}

bool ThreadList::OthersExist(const HostThread* me) {
  std::vector<int32_t> known;
  if (!Known(me, &known)) return true;
  const auto others = ThreadWatch::CountOthers(std::move(known));
  if (others.has_value()) return *others > 0;
  // Without /proc only threads that have joined are known.
  const std::lock_guard<std::mutex> lock(mutex);
  return std::any_of(
      threads_.begin(), threads_.end(), [me](const HostThread* thread) {
        return thread != me && thread->state != HostState::kBlocked;
      });
}

ThreadWatch::Verdict ThreadList::Judge(const HostThread* me,
                                       ThreadWatch* watch) {
  std::vector<int32_t> known;
  if (Known(me, &known)) return watch->Judge(std::move(known));
  watch->Forget();
  return ThreadWatch::Verdict::kMayAct;
}

}  // namespace devrt::mtia
