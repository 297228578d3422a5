// SPDX-License-Identifier: Apache-2.0
//
// Threaded mode.  Workers run the bodies of operations outside the lock.  There
// are as many workers as tokens were ever in use at a time; each is started
// when it is first needed.
#include "backends/mtia/drivers/threaded_driver.h"

#include <algorithm>

#include "backends/mtia/engine/deferred.h"
#include "backends/mtia/engine/user_code.h"
#include "backends/mtia/system/helper_thread.h"

namespace devrt::mtia {
namespace {

constexpr uint32_t kPollsBeforePause = 64;
constexpr std::chrono::microseconds kPause{20};
// An hour.  A wait does not count on what ends later.
constexpr VTime kFarAhead = 3'600'000'000'000;
// How long after a refusal the system is asked for a thread again.
constexpr std::chrono::milliseconds kRetry{10};

}  // namespace

Driver* TheThreadedDriver() {
  static auto* const driver = new ThreadedDriver();
  return driver;
}

void ThreadedDriver::Start() {
  start_ = RealClock::now();
  stopping_ = false;
}

VTime ThreadedDriver::Now(const HostThread* me) const {
  static_cast<void>(me);
  const std::chrono::nanoseconds since = RealClock::now() - start_;
  return static_cast<VTime>(since.count());
}

// The time for the next look at the clock, `when` or before it.
RealClock::time_point ThreadedDriver::RealTime(VTime when) const {
  const VTime now = Now(nullptr);
  const VTime left = when > now ? when - now : 0;
  return RealClock::now() +
         std::chrono::nanoseconds(std::min<VTime>(left, kFarAhead));
}

// ---- calls of the scheduler ----

void ThreadedDriver::HeadReady(StreamCore* s) {
  Op* const op = s->head;
  if (op->engine == EngineClass::kNone || op->action == Action::kFlagSet) {
    op->began = Now(nullptr);
    Finish(op, IsLifetime(op) ? g_machine->execution.End(op)
                              : g_machine->injection.TakeFor(op));
  } else if (op->action == Action::kFlagWait) {
    StartFlagWait(s, op);
  } else {
    ready_.push_back(s);
    Dispatch();
  }
}

void ThreadedDriver::StartFlagWait(StreamCore* s, Op* op) {
  op->state = OpState::kRunning;
  op->began = Now(nullptr);
  if (op->timeline != kNever) g_machine->history.timeline.Update(op);
  if (g_machine->flags.IsSet(op)) {
    Finish(op, g_machine->injection.TakeFor(op));
    return;
  }
  g_machine->flags.Park(s);
  if (!timeouts_.Add(s)) return;
  StartTimer();
  timer_.notify_one();
}

void ThreadedDriver::HeadGone(StreamCore* s) {
  if (s->head_state == HeadState::kParked) {
    timeouts_.Remove(s);
    g_machine->flags.StopWaiting(s);
    if (s->head->part != nullptr) g_machine->collectives.StopWaiting(s->head);
  } else if (s->head->runs_elsewhere) {
    spin_.notify_all();
  } else {
    ready_.erase(std::find(ready_.begin(), ready_.end(), s));
  }
}

void ThreadedDriver::SlotsAdded(uint32_t device) {
  static_cast<void>(device);
  Dispatch();
}

void ThreadedDriver::Unpark(StreamCore* s) {
  timeouts_.Remove(s);
  if (s->head->part != nullptr) {
    Post(s->head);
    return;
  }
  Finish(s->head, g_machine->injection.TakeFor(s->head));
}

void ThreadedDriver::Finish(Op* op, Fault fault) {
  StreamCore* const s = op->stream;
  s->head_state = HeadState::kNone;
  if (fault) {
    g_machine->faults.FailOp(op, std::move(fault), Now(nullptr));
    return;
  }
  if (op->action == Action::kFlagSet && op->kind == OpKind::kKernel) {
    g_machine->flags.Set(op->flag, op->value, this);
    if (s->head != op) return;  // the fault of a waiter discarded it
  }
  g_machine->scheduler.Complete(op, std::max(Now(nullptr), s->last_end + 1));
  NotifyWaiters();
  if (!ready_.empty()) Dispatch();
}

void ThreadedDriver::NotifyWaiters() {
  for (HostThread* const host : waiting_) {
    if (AllDone(host->want)) host->wake.notify_one();
  }
}

// ---- workers ----

// The index of the most urgent ready head that finds a token or needs none, or
// ready_.size().
size_t ThreadedDriver::BestReady() const {
  const bool invert = g_machine->config.invert_priorities;
  size_t best = ready_.size();
  for (size_t i = 0; i < ready_.size(); ++i) {
    const StreamCore* const s = ready_[i];
    if (Tokens::NeedsToken(s->head) &&
        !g_machine->tokens.Of(s->head).available()) {
      continue;
    }
    if (best == ready_.size()) {
      best = i;
      continue;
    }
    const StreamCore* const b = ready_[best];
    const bool urgent =
        invert ? s->priority > b->priority : s->priority < b->priority;
    if (urgent || (s->priority == b->priority && s->head->id < b->head->id)) {
      best = i;
    }
  }
  return best;
}

void ThreadedDriver::Dispatch() {
  while (!stopping_) {
    const size_t best = BestReady();
    if (best == ready_.size()) return;
    Op* const op = ready_[best]->head;
    ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(best));
    g_machine->tokens.Take(op);
    if (op->part != nullptr) {
      BeginCollective(op->stream, op);
    } else {
      Post(op);
    }
  }
}

// The meeting is under the lock.  A worker writes what this rank has got.
void ThreadedDriver::BeginCollective(StreamCore* s, Op* op) {
  op->state = OpState::kRunning;
  op->began = Now(nullptr);
  if (op->timeline != kNever) g_machine->history.timeline.Update(op);
  if (g_machine->collectives.Begin(op)) {
    Post(op);
    return;
  }
  if (!timeouts_.Add(s)) return;
  StartTimer();
  timer_.notify_one();
}

void ThreadedDriver::Post(Op* op) {
  op->state = OpState::kRunning;
  op->runs_elsewhere = true;
  ++running_;
  jobs_.push_back(op);
  if (jobs_.size() > idle_) StartWorker();
  work_.notify_one();
}

// If the system refuses a thread, threads that wait ask for it again.
void ThreadedDriver::StartWorker() {
  if (StartHelper("mtia-worker", [this] { Work(); }) != nullptr) ++workers_;
}

void ThreadedDriver::StartTimer() {
  if (timer_started_) return;
  timer_started_ = StartHelper("mtia-timer", [this] { Expire(); }) != nullptr;
}

// Returns true if work has no thread, after asking for one again.
bool ThreadedDriver::LacksThreads() {
  if (!jobs_.empty() && workers_ == 0) StartWorker();
  if (!timeouts_.empty()) StartTimer();
  return (!jobs_.empty() && workers_ == 0) ||
         (!timeouts_.empty() && !timer_started_);
}

void ThreadedDriver::Work() {
  Lock lock(g_machine->mutex);
  for (;;) {
    while (jobs_.empty()) {
      ++idle_;
      t_helper->idle = true;
      work_.wait(lock);
      t_helper->idle = false;
      --idle_;
    }
    Op* const op = jobs_.front();
    jobs_.pop_front();
    RunOne(&lock, op);
    const Deferred deferred = g_machine->scheduler.TakeDeferred();
    if (!deferred.empty()) {
      lock.unlock();
      RunDeferred(deferred);
      lock.lock();
    }
    // Behind the deferred calls, since Stop promises that they are over.
    if (--running_ == 0) rest_.notify_all();
  }
}

void ThreadedDriver::RunOne(Lock* lock, Op* op) {
  if (op->part == nullptr) op->began = Now(nullptr);
  if (op->timeline != kNever) g_machine->history.timeline.Update(op);
  Fault fault;
  if (op->action == Action::kSpin) {
    Spin(lock, op);
  } else if (op->stream != nullptr || op->kind == OpKind::kHostFunc) {
    lock->unlock();
    if (op->kind == OpKind::kHostFunc) {
      const UserCodeScope scope("a host function");
      op->host_func(op->arg, nullptr);
    } else {
      g_machine->execution.Begin(op);
      fault = g_machine->execution.End(op);
    }
    lock->lock();
  }
  EndOne(op, std::move(fault));
}

void ThreadedDriver::Spin(Lock* lock, Op* op) {
  const VTime end = After(op->began, op->duration);
  while (op->stream != nullptr && !stopping_ && Now(nullptr) < end) {
    spin_.wait_until(*lock, RealTime(end));
  }
}

void ThreadedDriver::EndOne(Op* op, Fault fault) {
  Machine* const machine = g_machine;
  op->runs_elsewhere = false;
  if (op->kind == OpKind::kHostFunc) ++machine->history.host_funcs_run;
  if (op->stream == nullptr) {  // discarded meanwhile
    machine->scheduler.Abandon(op);
    rest_.notify_all();
    return;
  }
  if (!fault) fault = machine->injection.TakeFor(op);
  Finish(op, std::move(fault));
}

// The thread that ends flag_waits whose timeout has passed.
void ThreadedDriver::Expire() {
  Lock lock(g_machine->mutex);
  t_helper->idle = true;  // WorkIsComing knows what it waits for
  for (;;) {
    if (timeouts_.empty()) {
      timer_.wait(lock);
      continue;
    }
    StreamCore* const s = timeouts_.First();
    if (Now(nullptr) < s->when) {
      timer_.wait_until(lock, RealTime(s->when));
      continue;
    }
    timeouts_.Remove(s);
    if (s->head->part != nullptr) {
      if (g_machine->collectives.Expire(s->head)) timeouts_.Add(s);
      continue;
    }
    g_machine->flags.StopWaiting(s);
    Finish(s->head, g_machine->injection.TakeFor(s->head));
  }
}

// ---- host threads ----

// True if a worker or the timer will act without a call of the program.
bool ThreadedDriver::WorkIsComing() const {
  const VTime soon = Now(nullptr) + kFarAhead;
  return !jobs_.empty() ||
         (!timeouts_.empty() && timeouts_.First()->when <= soon);
}

ThreadWatch::Verdict ThreadedDriver::Judge(ThreadWatch* watch) const {
  std::vector<int32_t> known;
  for (const HostThread* const host : waiting_) {
    if (AllDone(host->want)) return ThreadWatch::Verdict::kMayAct;
    known.push_back(host->tid);
  }
  TheHelpers().AddIdle(&known);
  return watch->Judge(std::move(known));
}

devrt_status ThreadedDriver::Wait(HostThread* me) {
  if (AllDone(me->want)) return nullptr;
  const NoCancel no_cancel;
  Lock lock(g_machine->mutex, std::adopt_lock);
  waiting_.push_back(me);
  devrt_status error = WaitInLine(&lock, me);
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), me));
  lock.release();
  return error;
}

devrt_status ThreadedDriver::WaitInLine(Lock* lock, HostThread* me) {
  const std::chrono::nanoseconds patience(g_machine->config.watchdog);
  uint64_t progress = g_machine->history.progress;
  auto look_at = RealClock::now() + patience;
  ThreadWatch watch;
  uint32_t looks = 0;
  bool warned = false;
  while (!AllDone(me->want)) {
    const auto retry = RealClock::now() + kRetry;
    me->wake.wait_until(*lock,
                        LacksThreads() ? std::min(look_at, retry) : look_at);
    if (AllDone(me->want)) break;
    if (g_machine->history.progress != progress || WorkIsComing()) {
      progress = g_machine->history.progress;
      look_at = RealClock::now() + patience;
      looks = 0;
      continue;
    }
    if (RealClock::now() < look_at) continue;
    if (Judge(&watch) != ThreadWatch::Verdict::kMayAct) {
      return g_machine->reports.Deadlock({me}, StuckReason::kWait);
    }
    if (++looks == 2 && !warned) {
      warned = true;
      g_machine->reports.WarnWaiting({me});
    }
    look_at = RealClock::now() + ThreadWatch::Pause(looks, patience);
  }
  return nullptr;
}

// Lets the lock and the processor to the workers for a moment.
devrt_status ThreadedDriver::SoftWait(HostThread* me) {
  if (me->polled_any % kPollsBeforePause != 0) return nullptr;
  const NoCancel no_cancel;
  static_cast<void>(LacksThreads());
  Lock lock(g_machine->mutex, std::adopt_lock);
  me->wake.wait_until(lock, RealClock::now() + kPause);
  lock.release();
  return nullptr;
}

void ThreadedDriver::AwaitDiscardedCopies() {
  const NoCancel no_cancel;
  Lock lock(g_machine->mutex, std::adopt_lock);
  while (g_machine->scheduler.has_running_discarded_copies()) rest_.wait(lock);
  lock.release();
}

void ThreadedDriver::Stop() {
  const NoCancel no_cancel;
  Lock lock(g_machine->mutex, std::adopt_lock);
  stopping_ = true;
  for (Op* const op : jobs_) {
    op->runs_elsewhere = false;
    if (op->stream == nullptr)
      g_machine->scheduler.Abandon(op);  // discarded before
  }
  running_ -= static_cast<uint32_t>(jobs_.size());
  jobs_.clear();
  spin_.notify_all();
  // A host function that never returns is left behind.
  const auto late =
      RealClock::now() + std::chrono::nanoseconds(g_machine->config.watchdog);
  while (running_ != 0 && RealClock::now() < late) {
    rest_.wait_until(lock, late);
  }
  ready_.clear();
  timeouts_.clear();
  lock.release();
}

}  // namespace devrt::mtia
