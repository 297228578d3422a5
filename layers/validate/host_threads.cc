// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/host_threads.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <utility>

namespace devrt::race {
namespace {

// More objects than this are dropped.  Races may then be missed, and none is
// invented.
constexpr size_t kMostObjects = 1 << 16;
constexpr size_t kMostNames = 1 << 10;  // of threads, for reports

// The state has no destructor: a thread's other objects may call devrt after
// the layer has seen the end of the thread.
struct ThisThread {
  Actor actor = kNoActor;
  Actor function = kNoActor;  // of the host functions that run in this thread
  uint64_t generation = 0;
  uint32_t functions = 0;  // that are running
};
thread_local ThisThread t_thread;

// The place for the actor of the calling thread, or of the host function that
// runs in it.
Actor* SlotOf(uint64_t generation) {
  ThisThread& self = t_thread;
  if (self.generation != generation) {
    self.actor = self.function = kNoActor;
    self.generation = generation;
  }
  return self.functions != 0 ? &self.function : &self.actor;
}

bool KnowsAllOf(const VectorClock& clock, const VectorClock& other,
                uint32_t actors) {
  for (Actor actor = 0; actor < actors; ++actor) {
    if (clock.TimeOf(actor) < other.TimeOf(actor)) return false;
  }
  return true;
}

// The name that the program gave a thread.  A thread that got none has the name
// of the program.
std::string SystemName(pid_t tid) {
  std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/comm");
  std::string name;
  std::getline(file, name);
  constexpr size_t kLongest = 15;
  const std::string program(program_invocation_short_name);
  return program.substr(0, kLongest) == name ? "" : name;
}

}  // namespace

Actor HostThreads::AddThread(const VectorClock& known) {
  const Actor actor = order_->AddThreadAfter(known);
  const uint32_t number = ++made_;
  const auto tid = static_cast<pid_t>(syscall(SYS_gettid));
  threads_[actor] = {number, tid == getpid() ? 0 : tid,
                     t_thread.functions == 0};
  on_start_();
  return actor;
}

Actor HostThreads::CurrentThread() {
  Actor& actor = *SlotOf(generation_);
  if (actor == kNoActor) actor = AddThread(base_);
  return actor;
}

void HostThreads::StartOver() {
  static std::atomic<uint64_t> last{0};
  generation_ = ++last;
  threads_.clear();
  objects_.clear();
  names_.clear();
  dropped_ = VectorClock();
  made_ = 0;
}

void HostThreads::SetExact(bool is_exact) {
  if (is_exact == is_exact_) return;
  const VectorClock known = KnownToAny();
  StartOver();
  is_exact_ = is_exact;
  base_ = known;
  if (!is_exact) order_->HostWait(CurrentHost(), known);
}

void HostThreads::WaitOfAll(const Mark& mark) {
  order_->HostWait(Current(), mark);
  if (!is_exact_) return;
  base_.Join(mark);
  for (const auto& [actor, thread] : threads_) order_->HostWait(actor, mark);
}

void HostThreads::EndCurrent() {
  ThisThread& self = t_thread;
  if (self.generation != generation_) return;
  for (Actor* const actor : {&self.actor, &self.function}) {
    if (*actor == kNoActor) continue;
    // The thread keeps the number: its objects may call devrt in their
    // destructors.
    Thread& thread = threads_[*actor];
    thread.lives = false;
    if (thread.tid != 0 && names_.size() < kMostNames) {
      std::string name = SystemName(std::exchange(thread.tid, 0));
      if (!name.empty()) names_[thread.number] = std::move(name);
    }
    order_->RemoveThread(*actor);
  }
}

void HostThreads::BeginFunction(const Mark& before) {
  if (!is_exact_) return;
  const bool is_inner = t_thread.functions++ != 0;
  const Actor actor = CurrentThread();
  completed_.Join(before);
  if (!is_inner) order_->ReplaceKnowledge(actor, before);
}

void HostThreads::EndFunction() {
  if (t_thread.functions != 0) --t_thread.functions;
}

void HostThreads::Release(uint64_t object) {
  if (!is_exact_) return;
  if (objects_.size() >= kMostObjects) {
    for (const auto& [number, clock] : objects_) dropped_.Join(clock);
    objects_.clear();
  }
  objects_[object].Join(order_->ClockOf(Current()));
}

void HostThreads::Acquire(uint64_t object) {
  if (!is_exact_) return;
  VectorClock known = dropped_;
  const auto found = objects_.find(object);
  if (found != objects_.end()) known.Join(found->second);
  Actor& actor = *SlotOf(generation_);
  if (actor == kNoActor) {
    known.Join(base_);
    actor = AddThread(known);
  } else {
    order_->HostWait(actor, known);
  }
}

void HostThreads::ForgetKnown(const VectorClock& known_to_all) {
  for (auto at = objects_.begin(); at != objects_.end();) {
    if (KnowsAllOf(known_to_all, at->second, order_->size())) {
      dropped_.Join(at->second);  // a new thread does not know it
      at = objects_.erase(at);
    } else {
      ++at;
    }
  }
}

VectorClock HostThreads::KnownToAll() {
  if (!is_exact_) return order_->ClockOf(CurrentHost());
  VectorClock known;
  for (Actor actor = 0; actor < order_->size(); ++actor) {
    uint64_t time = UINT64_MAX;
    for (const auto& [thread, state] : threads_) {
      if (!state.lives) continue;
      time = std::min(time, order_->ClockOf(thread).TimeOf(actor));
    }
    if (time != UINT64_MAX) known.Learn({actor, time});
  }
  return known;
}

VectorClock HostThreads::Completed() {
  if (!is_exact_) return order_->ClockOf(CurrentHost());
  VectorClock known = completed_;
  known.Join(base_);
  return known;
}

VectorClock HostThreads::KnownToAny() {
  VectorClock known = Completed();
  for (const auto& [actor, thread] : threads_) {
    known.Join(order_->ClockOf(actor));
  }
  return known;
}

uint32_t HostThreads::NumberOf(Actor actor) const {
  const auto found = threads_.find(actor);
  return found == threads_.end() ? 0 : found->second.number;
}

std::string HostThreads::NameOf(uint32_t number) const {
  std::string name;
  const auto ended = names_.find(number);
  if (ended != names_.end()) name = ended->second;
  for (const auto& [actor, thread] : threads_) {
    if (thread.number == number && thread.tid != 0) {
      name = SystemName(thread.tid);
    }
  }
  return "host thread " + std::to_string(number) +
         (name.empty() ? "" : " (" + name + ")");
}

}  // namespace devrt::race
