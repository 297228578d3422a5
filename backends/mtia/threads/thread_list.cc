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
  made->tid = static_cast<int32_t>(syscall(SYS_gettid));
  return made;
}

void ThreadList::Add(HostThread* me) {
  me->index = next_index_++;
  me->epoch = epoch();
  me->now = 0;
  me->jitter = g_machine->config.seed * 0x9e3779b97f4a7c15u + me->index;
  me->polled = nullptr;
  me->polled_same = me->polled_any = 0;
  me->soft_wait = false;
  me->turn = turns_;
  me->want.clear();
  me->per_thread.clear();
  threads_.push_back(me);
  if (pin_ && threads_.size() >= 2) core_.Add(threads_, me);
}

void ThreadList::Remove(HostThread* me) {
  threads_.erase(std::find(threads_.begin(), threads_.end(), me));
  core_.Remove(me);
  if (threads_.size() < 2) core_.RemoveAll(threads_);
}

std::vector<HostThread*> ThreadList::Restart(bool pin) {
  core_.RemoveAll(threads_);
  std::vector<HostThread*> before = std::exchange(threads_, {});
  for (HostThread* const thread : before) thread->per_thread.clear();
  next_index_ = 0;
  turns_ = 0;
  pin_ = pin;
  epoch_.fetch_add(1);
  return before;
}

bool ThreadList::CouldGoOn(const HostThread* thread) const {
  if (!Sleeps(thread) || thread->granted) return false;
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

HostThread* ThreadList::MostOverdue(const HostThread* me) {
  const std::lock_guard<std::mutex> lock(mutex);
  HostThread* most = nullptr;
  for (HostThread* const thread : threads_) {
    if ((thread == me || Sleeps(thread)) && IsOverdue(thread) &&
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
    if (thread->state != HostState::kBlocked || CouldGoOn(thread)) return false;
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
