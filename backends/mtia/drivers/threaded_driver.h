// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_DRIVERS_THREADED_DRIVER_H_
#define DEVRT_BACKENDS_MTIA_DRIVERS_THREADED_DRIVER_H_

#include <condition_variable>
#include <deque>
#include <mutex>
#include <vector>

#include "backends/mtia/drivers/flag_timeouts.h"
#include "backends/mtia/engine/machine.h"
#include "backends/mtia/system/thread_watch.h"

namespace devrt::mtia {

// The driver of mode=threaded: worker threads run the operations, and the
// clock is real time.  It owns the workers, their queue, and the thread that
// ends flag_waits.  Never destroyed, because its threads are detached.
//
// Threads: every member is called with Machine::mutex held.
class ThreadedDriver : public Driver {
 public:
  void HeadReady(StreamCore* s) override;
  void HeadGone(StreamCore* s) override;
  void Unpark(StreamCore* s) override;
  void SlotsAdded(uint32_t device) override;
  devrt_status Wait(HostThread* me) override;
  devrt_status SoftWait(HostThread* me) override;
  void Discarded() override { NotifyWaiters(); }
  void AwaitDiscardedCopies() override;
  void Decide(HostThread* me) override { static_cast<void>(me); }
  void Spend(HostThread* me) override { static_cast<void>(me); }
  VTime Now(const HostThread* me) const override;
  void Stop() override;
  void Start() override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  RealClock::time_point RealTime(VTime when) const;
  void StartFlagWait(StreamCore* s, Op* op);
  void Finish(Op* op, Fault fault);
  void NotifyWaiters();
  void Dispatch();
  size_t BestReady() const;
  void BeginCollective(StreamCore* s, Op* op);
  void Post(Op* op);
  void Work();
  void RunOne(Lock* lock, Op* op);
  void Spin(Lock* lock, Op* op);
  void EndOne(Op* op, Fault fault);
  void Expire();
  void StartWorker();
  void StartTimer();
  bool LacksThreads();
  bool WorkIsComing() const;
  ThreadWatch::Verdict Judge(ThreadWatch* watch) const;
  devrt_status WaitInLine(Lock* lock, HostThread* me);

  RealClock::time_point start_{};
  bool stopping_ = false;
  std::vector<StreamCore*> ready_;  // their head wants a token
  FlagTimeouts timeouts_;
  std::vector<HostThread*> waiting_;  // threads in Wait
  std::deque<Op*> jobs_;              // have a token, and want a worker
  uint32_t workers_ = 0;
  uint32_t idle_ = 0;     // workers without work
  uint32_t running_ = 0;  // operations in jobs_ or at a worker, with its calls
  bool timer_started_ = false;
  std::condition_variable work_;   // jobs_ has grown
  std::condition_variable spin_;   // a spinning kernel has to stop early
  std::condition_variable timer_;  // timeouts_ has grown
  std::condition_variable rest_;   // running_ is 0, or a discarded copy ended
};

// The driver of the process, made at the first call and never destroyed.
Driver* TheThreadedDriver();

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_DRIVERS_THREADED_DRIVER_H_
