// SPDX-License-Identifier: Apache-2.0
#include "devrt/streams/sync.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "devrt/backends/abi/devrt_sim.h"
#include "devrt/runtime/turns.h"
#include "runtime/registry/records.h"
#include "streams/common/host_order.h"

namespace devrt::sync {

using internal::HasExactHostOrder;
using internal::TakePart;

namespace {

// True if a simulator may have scheduled a thread, which may still wait there
// after Shutdown.
bool HadTurns() {
  return internal::g_had_turns.load(std::memory_order_relaxed);
}

// The word as the simulator reads it.
const uint32_t* WordOf(const std::atomic<uint32_t>& word) {
  static_assert(sizeof word == sizeof(uint32_t));
  return reinterpret_cast<const uint32_t*>(&word);
}

// A decision of the simulator; TakePart has returned true.
void LetOthersMove() {
  const internal::Turns* const turns =
      internal::g_turns.load(std::memory_order_acquire);
  if (turns == nullptr) return;
  internal::FromPlugin(turns->device, turns->table->pause(turns->self),
                       "devrt::sync")
      .IgnoreError();
}

// Other threads move until `word` is not `value`; `status` says if no thread
// can change it.  Returns false if there is no simulator since Shutdown.
bool AwaitChange(const std::atomic<uint32_t>& word, uint32_t value,
                 absl::Status* status) {
  const internal::Turns* const turns =
      internal::g_turns.load(std::memory_order_acquire);
  if (turns == nullptr) return false;
  *status = internal::FromPlugin(
      turns->device,
      turns->table->await_change(turns->self, WordOf(word), value),
      "devrt::sync");
  return true;
}

[[noreturn]] void ThrowDeadlock(const absl::Status& status) {
  throw std::system_error(
      std::make_error_code(std::errc::resource_deadlock_would_occur),
      std::string(status.message()));
}

}  // namespace

absl::Status SetHostOrder(HostOrder order) {
  return internal::SetHostOrder(order == HostOrder::kExact);
}

HostOrder GetHostOrder() {
  return internal::IsExactChosen() ? HostOrder::kExact : HostOrder::kObserved;
}

void Release(const void* object) {
  if (HasExactHostOrder()) internal::TellRelease(object);
}

void Acquire(const void* object) {
  if (HasExactHostOrder()) internal::TellAcquire(object);
}

void Forget(const void* object) {
  if (HasExactHostOrder()) internal::TellForget(object);
}

// ---- Mutex ------------------------------------------------------------------

Mutex::Mutex() = default;
Mutex::~Mutex() { Forget(this); }

void Mutex::lock() {
  if (!HadTurns()) {
    mutex_.lock();
  } else {
    TakePart() ? LockScheduled() : LockBeside();
    TellLock(DEVRT_SIM_LOCK_HELD);
  }
  Acquire(this);
}

// The lock of a thread that no simulator schedules, as in a host function.
void Mutex::LockBeside() {
  if (mutex_.try_lock()) return;
  TellLock(DEVRT_SIM_LOCK_AWAITED);
  mutex_.lock();
}

// Tells the simulator about the lock, for its reports.
void Mutex::TellLock(uint32_t state) const {
  const internal::Turns* const turns =
      internal::g_turns.load(std::memory_order_acquire);
  if (turns == nullptr ||
      !DEVRT_HAS_FIELD(turns->table, devrt_sim_v1, note_lock)) {
    return;
  }
  internal::FromPlugin(
      turns->device,
      turns->table->note_lock(turns->self, WordOf(unlocks_), state),
      "devrt::sync")
      .IgnoreError();
}

void Mutex::LockScheduled() {
  LetOthersMove();
  for (;;) {
    const uint32_t seen = unlocks_.load(std::memory_order_relaxed);
    if (mutex_.try_lock()) return;
    absl::Status status;
    if (!AwaitChange(unlocks_, seen, &status)) {
      mutex_.lock();
      return;
    }
    if (status.ok()) continue;
    // A thread that is not scheduled may have unlocked meanwhile.
    if (mutex_.try_lock()) return;
    ThrowDeadlock(status);
  }
}

bool Mutex::try_lock() {
  if (TakePart()) LetOthersMove();
  if (!mutex_.try_lock()) return false;
  if (HadTurns()) TellLock(DEVRT_SIM_LOCK_HELD);
  Acquire(this);
  return true;
}

void Mutex::unlock() {
  GiveBack();
  if (HadTurns() && TakePart()) LetOthersMove();
}

// No decision: a wait has one of its own.
void Mutex::GiveBack() {
  Release(this);
  TellUnlock();
  mutex_.unlock();
}

// Called before the unlock, because the next owner may end the mutex.  Threads
// that a simulator schedules do not run before the unlock.
void Mutex::TellUnlock() {
  if (!HadTurns()) return;
  unlocks_.fetch_add(1, std::memory_order_relaxed);
  TellLock(DEVRT_SIM_LOCK_FREE);
}

// ---- ConditionVariable ------------------------------------------------------

ConditionVariable::ConditionVariable() = default;
ConditionVariable::~ConditionVariable() = default;

// Before its first turn a thread must not change who waits.
void ConditionVariable::notify_one() noexcept {
  const bool takes_part = HadTurns() && TakePart();
  if (!TellScheduled()) {
    changed_.notify_one();
  } else if (takes_part) {
    LetOthersMove();
  }
}

void ConditionVariable::notify_all() noexcept {
  const bool takes_part = HadTurns() && TakePart();
  const bool has_told = TellScheduled();
  while (TellScheduled()) {
  }
  changed_.notify_all();
  if (has_told && takes_part) LetOthersMove();
}

// Tells the thread that has waited longest.  Returns false if none waits in a
// simulator.
bool ConditionVariable::TellScheduled() {
  if (!HadTurns()) return false;
  const std::lock_guard<std::mutex> guard(waiting_mutex_);
  if (waiting_.empty()) return false;
  waiting_.front()->store(1, std::memory_order_release);
  waiting_.pop_front();
  return true;
}

// Takes a wait back.  Returns false if a notification has ended it.
bool ConditionVariable::Withdraw(std::atomic<uint32_t>* told) {
  const std::lock_guard<std::mutex> guard(waiting_mutex_);
  const auto mine = std::find(waiting_.begin(), waiting_.end(), told);
  if (mine == waiting_.end()) return false;
  waiting_.erase(mine);
  return true;
}

// Without a simulator since Shutdown, it returns as after a spurious wake-up.
void ConditionVariable::WaitScheduled(Lock& lock) {
  std::atomic<uint32_t> told{0};
  {
    const std::lock_guard<std::mutex> guard(waiting_mutex_);
    waiting_.push_back(&told);
  }
  Mutex* const mutex = lock.release();
  mutex->GiveBack();
  absl::Status status;
  AwaitChange(told, 0, &status);
  const bool is_stuck = Withdraw(&told) && !status.ok();
  lock = Lock(*mutex, std::defer_lock);
  lock.lock();
  if (is_stuck) ThrowDeadlock(status);
}

void ConditionVariable::wait(Lock& lock) {
  if (TakePart()) {
    WaitScheduled(lock);
    return;
  }
  Mutex* const mutex = lock.mutex();
  std::unique_lock<std::mutex> inner(mutex->mutex_, std::adopt_lock);
  Release(mutex);
  mutex->TellUnlock();
  changed_.wait(inner);
  if (HadTurns()) mutex->TellLock(DEVRT_SIM_LOCK_HELD);
  Acquire(mutex);
  inner.release();  // `lock` owns it
}

std::cv_status ConditionVariable::WaitUntil(Lock& lock, Time time) {
  Mutex* const mutex = lock.mutex();
  std::unique_lock<std::mutex> inner(mutex->mutex_, std::adopt_lock);
  Release(mutex);
  mutex->TellUnlock();
  const std::cv_status status = changed_.wait_until(inner, time);
  if (HadTurns()) mutex->TellLock(DEVRT_SIM_LOCK_HELD);
  Acquire(mutex);
  inner.release();
  return status;
}

// ---- Thread -----------------------------------------------------------------

// The addresses of members stand for the start and for the end.
struct Thread::State {
  explicit State(Function f) : function(std::move(f)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    Forget(&start);
    Forget(&end);
  }

  void Run() {
    TakePart();
    Acquire(&start);
    std::move(function)();
    function = nullptr;  // its objects end inside the thread
    Release(&end);
  }

  Function function;
  char start = 0;
  char end = 0;
  std::thread thread;
};

Thread::Thread() = default;

Thread::Thread(Function function)
    : state_(std::make_unique<State>(std::move(function))) {
  Release(&state_->start);
  state_->thread = std::thread([state = state_.get()] { state->Run(); });
  if (TakePart()) LetOthersMove();
}

Thread::Thread(Thread&& other) noexcept = default;

Thread& Thread::operator=(Thread&& other) noexcept {
  if (this == &other) return *this;
  if (joinable()) join();
  state_ = std::move(other.state_);
  return *this;
}

Thread::~Thread() {
  if (joinable()) join();
}

bool Thread::joinable() const { return state_ != nullptr; }

void Thread::join() {
  if (state_ == nullptr) {
    throw std::system_error(std::make_error_code(std::errc::invalid_argument),
                            "devrt::sync::Thread::join: there is no thread, or "
                            "it was joined before");
  }
  state_->thread.join();
  Acquire(&state_->end);
  state_ = nullptr;
}

}  // namespace devrt::sync
