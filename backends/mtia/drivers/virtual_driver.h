// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_DRIVERS_VIRTUAL_DRIVER_H_
#define DEVRT_BACKENDS_MTIA_DRIVERS_VIRTUAL_DRIVER_H_

#include "backends/mtia/drivers/flag_timeouts.h"
#include "backends/mtia/drivers/host_executor.h"
#include "backends/mtia/drivers/ready_heads.h"
#include "backends/mtia/drivers/virtual_choice.h"
#include "backends/mtia/engine/machine.h"
#include "backends/mtia/threads/host_threads.h"

namespace devrt::mtia {

// The driver of mode=virtual: operations run in the calling thread, inside
// calls of devrt, one step at a time.  It owns the clock, and its parts have
// the streams whose head may take a step, the choice among them, and the
// threads of host functions.  Never destroyed: a host function that never
// returns still uses it.
//
// Threads: every member is called by the holder of the baton.
class VirtualDriver : public Driver {
 public:
  void HeadReady(StreamCore* s) override;
  void HeadGone(StreamCore* s) override;
  void Unpark(StreamCore* s) override;
  void SlotsAdded(uint32_t device) override;
  devrt_status Wait(HostThread* me) override;
  devrt_status SoftWait(HostThread* me) override;
  devrt_status AwaitChange(HostThread* me) override;
  void Decide(HostThread* me) override;
  void Spend(HostThread* me) override;
  VTime Now(const HostThread* me) const override;
  void Stop() override;
  void Start() override;

 private:
  devrt_status Pump(HostThread* me, Until until);
  devrt_status StuckWait(HostThread* me, Until until);
  devrt_status StuckPoll(HostThread* me);
  bool Look(HostThread* me, StuckWatch* watch);
  static bool IsCertain(HostThread* me, ThreadWatch* watch);
  void GiveTo(HostThread* thread, HostThread* me, HostState state);
  bool SleepStuck(HostThread* me, Until until, RealClock::time_point deadline);
  bool CanGoOn(HostThread* me, Until until) const;

  void Step(StreamCore* s);
  void Begin(StreamCore* s, Op* op);
  bool BeginFaulty(StreamCore* s, Op* op);
  void End(StreamCore* s, Op* op);
  void EndHostFunc(StreamCore* s, Op* op, VTime end);
  void Finish(Op* op, VTime end);
  void Expire(StreamCore* s);
  void ExpireFlag(StreamCore* s);
  void CompleteReturned();
  bool DecideAlone(HostThread* me);

  VTime clock_ = 0;  // the time of the latest step; it never goes back
  ReadyHeads heads_;
  FlagTimeouts timeouts_;
  VirtualChoice choice_{&heads_, &timeouts_, &clock_};
  HostExecutor executor_;
};

// The driver of the process, made at the first call and never destroyed.
Driver* TheVirtualDriver();

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_DRIVERS_VIRTUAL_DRIVER_H_
