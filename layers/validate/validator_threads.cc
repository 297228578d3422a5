// SPDX-License-Identifier: Apache-2.0
//
// The Validator's functions about the order of host threads, and what they have
// waited for.
#include <unistd.h>

#include <mutex>

#include "layers/validate/validator.h"

namespace devrt::race {
namespace {

using Lock = std::lock_guard<FindingsMutex>;

// Reports do not name the threads of calls with further names.
constexpr size_t kMostNamesInThreads = 1 << 16;

// Records of an event.  A wait without order may come before the last ones.
constexpr size_t kKeptRecords = 5;

// Tells the Validator of the end of a thread that it knows.
class ThreadEnd {
 public:
  ThreadEnd() = default;
  ThreadEnd(const ThreadEnd&) = delete;
  ThreadEnd& operator=(const ThreadEnd&) = delete;
  ~ThreadEnd() {
    // Another thread may have locked the Validator's mutex at a fork.  The
    // child lacks that thread, so nobody unlocks the mutex there.
    if (validator_ == nullptr || getpid() != process_) return;
    validator_->EndThread();
  }
  void Forget(Validator* validator) {
    if (validator_ == validator) validator_ = nullptr;
  }
  void Tell(Validator* validator) {
    validator_ = validator;
    process_ = getpid();
  }

 private:
  pid_t process_ = 0;  // that has the Validator's thread
  Validator* validator_ = nullptr;
};
thread_local ThreadEnd t_end;

}  // namespace

Validator::~Validator() { t_end.Forget(this); }

bool Validator::HasExactHostOrder() const {
  const Lock lock(mutex_);
  return threads_.is_exact();
}

void Validator::SetExactHostOrder(bool is_exact) {
  const Lock lock(mutex_);
  if (is_exact == threads_.is_exact()) return;
  threads_.SetExact(is_exact);
  records_.clear();
  if (is_exact) detector_.EndOwnQuery(threads_.Completed());
}

void Validator::Release(uint64_t object) {
  const Lock lock(mutex_);
  threads_.Release(object);
}

void Validator::Acquire(uint64_t object) {
  const Lock lock(mutex_);
  threads_.Acquire(object);
}

void Validator::ForgetObject(uint64_t object) {
  const Lock lock(mutex_);
  threads_.Forget(object);
}

void Validator::OwnEvent(devrt_event event) {
  const Lock lock(mutex_);
  EventEntry* const found = events_.Find(event);
  if (found != nullptr) found->is_own = true;
}

void Validator::NoteRecord(devrt_event event, const EventEntry& entry) {
  if (entry.is_own) return;
  std::deque<ThreadRecord>& records = records_[event];
  // Records of before the order became exact count as ordered.
  if (records.empty() && entry.before().now().actor != kNoActor) {
    records.push_back({Epoch(), entry.before()});
  }
  if (records.size() == kKeptRecords) records.pop_front();
  records.push_back({detector_.order().ClockOf(Thread()).now(), entry.mark()});
}

const Mark* Validator::CertainMark(devrt_event event, const EventEntry& entry) {
  const auto found = records_.find(event);
  if (entry.is_own || found == records_.end() || found->second.empty()) {
    return &entry.mark();
  }
  const std::deque<ThreadRecord>& records = found->second;
  const VectorClock& known = detector_.order().ClockOf(Thread());
  for (auto at = records.rbegin(); at != records.rend(); ++at) {
    if (at->by.actor != kNoActor && !known.Knows(at->by)) continue;
    return at == records.rbegin() ? &entry.mark() : &at->mark;
  }
  // The thread may know a record that is forgotten.
  return records.size() == kKeptRecords ? &records.front().mark : nullptr;
}

void Validator::EndThread() {
  const Lock lock(mutex_);
  threads_.EndCurrent();
}

void Validator::BeginHostFunction(WaitedWork work) {
  const Lock lock(mutex_);
  const Mark mark = work.Take();
  threads_.BeginFunction(mark);
  NoteWait(mark);
}

void Validator::EndHostWait(WaitedWork work) {
  const Lock lock(mutex_);
  NoteWait(work.Take());
}

void Validator::NoteWait(const Mark& mark) {
  detector_.HostWait(Thread(), mark);
  if (!threads_.is_exact()) return;
  threads_.NoteComplete(mark);
  detector_.EndOwnQuery(mark);
}

void Validator::UseByPointer(const Caller& caller, const void* ptr, Mode mode) {
  const Lock lock(mutex_);
  MemoryAccess access = {reinterpret_cast<uint64_t>(ptr), 1, mode};
  access.is_noted = !threads_.is_exact();
  Call call = ToCall(caller);
  if (threads_.is_exact()) {
    call.thread = threads_.AnyThread();
    call.name = texts_.Number(caller.name);
  }
  detector_.UseByHost(call, {&access, 1}, KnownInAllocators());
}

uint32_t Validator::NameInThread(uint32_t name) {
  const uint32_t thread = threads_.CurrentNumber();
  const auto known = names_in_threads_.find({name, thread});
  if (known != names_in_threads_.end()) return known->second;
  if (names_in_threads_.size() >= kMostNamesInThreads) return name;
  const uint32_t number = texts_.Alias(name);
  names_in_threads_[{name, thread}] = number;
  threads_of_names_[number] = thread;
  return number;
}

std::string Validator::ThreadOf(uint32_t name) const {
  const auto found = threads_of_names_.find(name);
  return found == threads_of_names_.end() ? "" : threads_.NameOf(found->second);
}

VectorClock Validator::KnownInAllocators() {
  return threads_.is_exact() ? threads_.KnownToAny() : VectorClock();
}

void Validator::WatchThread() { t_end.Tell(this); }

}  // namespace devrt::race
