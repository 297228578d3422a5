// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_DRIVERS_THREADED_DRIVER_H_
#define DEVRT_BACKENDS_MTIA_DRIVERS_THREADED_DRIVER_H_

#include <condition_variable>
#include <deque>
#include <mutex>
#include <vector>

#include "backends/mtia/engine/machine.h"
#include "backends/mtia/threads/host_threads.h"

namespace devrt::mtia {

// Everything here is under Machine::mutex.  Never destroyed: the workers are
// detached.
class ThreadedDriver : public Driver {
 public:
  void HeadReady(StreamCore* s) override;
  void HeadGone(StreamCore* s) override;
  void Unpark(StreamCore* s) override;
  devrt_status Wait(HostThread* me) override;
  devrt_status SoftWait(HostThread* me) override;
  void Discarded() override { NotifyWaiters(); }
  void AwaitDiscardedCopies() override;
  void Decide(HostThread* me) override { static_cast<void>(me); }
  VTime Now(const HostThread* me) const override;
  void Stop() override;
  void Start() override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  RealClock::time_point RealTime(VTime when) const;
  void StartFlagWait(StreamCore* s, Op* op);
  void RemoveTimeout(StreamCore* s);
  void Finish(Op* op, Fault fault);
  void NotifyWaiters();
  void Dispatch();
  size_t BestReady() const;
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
  ThreadWatch::Verdict Look(ThreadWatch* watch) const;
  devrt_status WaitInLine(Lock* lock, HostThread* me);

  RealClock::time_point start_{};
  bool stopping_ = false;
  std::vector<StreamCore*> ready_;     // want a token
  std::vector<StreamCore*> timeouts_;  // parked flag_waits that give up
  std::vector<HostThread*> waiting_;   // in Wait
  std::deque<Op*> jobs_;               // have a token, want a worker
  uint32_t workers_ = 0;
  uint32_t idle_ = 0;     // of the workers
  uint32_t running_ = 0;  // operations at a worker
  bool timer_started_ = false;
  std::condition_variable work_;   // jobs_
  std::condition_variable spin_;   // spinning kernels: stop early
  std::condition_variable timer_;  // timeouts_
  std::condition_variable rest_;   // running_, discarded copies
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_DRIVERS_THREADED_DRIVER_H_
