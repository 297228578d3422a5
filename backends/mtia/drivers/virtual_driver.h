// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_DRIVERS_VIRTUAL_DRIVER_H_
#define DEVRT_BACKENDS_MTIA_DRIVERS_VIRTUAL_DRIVER_H_

#include <vector>

#include "backends/mtia/drivers/flag_timeouts.h"
#include "backends/mtia/drivers/host_executor.h"
#include "backends/mtia/drivers/stream_heap.h"
#include "backends/mtia/engine/machine.h"
#include "backends/mtia/threads/host_threads.h"

namespace devrt::mtia {

// The driver of mode=virtual: operations run in the calling thread, inside
// calls of devrt, one step at a time.  It owns the clock and the lists from
// which it chooses the next step.  Never destroyed: a host function that never
// returns still uses it.
//
// Threads: every member is called by the holder of the baton.
class VirtualDriver : public Driver {
 public:
  void HeadReady(StreamCore* s) override;
  void HeadGone(StreamCore* s) override;
  void Unpark(StreamCore* s) override;
  devrt_status Wait(HostThread* me) override;
  devrt_status SoftWait(HostThread* me) override;
  void Decide(HostThread* me) override;
  VTime Now(const HostThread* me) const override;
  void Stop() override;
  void Start() override;

 private:
  // When the calling thread may go on.
  enum class Until {
    kNow,
    kWanted,    // when me->want is done
    kProgress,  // when anything has happened
  };
  // The thread or the stream that moves next.  Both are nullptr if none can.
  struct Pick {
    HostThread* host = nullptr;
    StreamCore* stream = nullptr;
    bool timeout = false;  // the flag_wait of `stream` ends by its timeout
  };

  devrt_status Pump(HostThread* me, Until until);
  devrt_status StuckWait(HostThread* me);
  devrt_status StuckPoll(HostThread* me);
  bool StaysStuck(HostThread* me);
  bool SleepStuck(HostThread* me, Until until, RealClock::time_point deadline);
  bool CanGoOn(HostThread* me, Until until) const;

  void Step(StreamCore* s);
  void Begin(StreamCore* s, Op* op);
  void End(StreamCore* s, Op* op);
  void EndHostFunc(StreamCore* s, Op* op, VTime end);
  void Finish(Op* op, VTime end);
  void ExpireFlag(StreamCore* s);
  void TakeBack();
  void GrantToken(EngineTokens* tokens, VTime when);

  void InsertReady(StreamCore* s);
  void RemoveReady(StreamCore* s);
  void Unschedule(StreamCore* s);

  // virtual_choice.cc
  void CollectHosts(HostThread* me, bool able);
  Pick Choose(HostThread* me, bool able, Until until);
  Pick ChooseOther(HostThread* me, Until until);
  bool DecideAlone(HostThread* me);
  Pick ChooseHardware(HostThread* me, Until until);
  Pick Prefer(HostThread* me);
  StreamCore* PreferHead(const HostThread* wants) const;
  StreamCore* FirstByTime();
  StreamCore* NextTimeout(const HostThread* me, Until until) const;
  StreamCore* FollowWanted(const HostThread* me) const;
  VTime TimeOf(const HostThread* host) const;
  static bool Runnable(const StreamCore* s);
  bool LastIsCandidate() const;
  uint32_t CountCandidates() const;
  uint32_t IndexOf(const Pick& pick) const;
  Pick At(uint32_t index) const;
  StreamCore* RunnableHead(uint32_t rank) const;

  bool hardware_ = true;
  VTime clock_ = 0;  // the time of the latest step; it never goes back
  std::vector<StreamCore*> ready_;  // by age of the head
  StreamHeap heap_;                 // hw: ready heads by time
  FlagTimeouts timeouts_;
  std::vector<HostThread*> hosts_;     // candidates of this choice, by index
  StreamCore* last_stream_ = nullptr;  // the stream or the thread that moved
  HostThread* last_host_ = nullptr;    // last
  HostExecutor executor_;
};

// The driver of the process, made at the first call and never destroyed.
Driver* TheVirtualDriver();

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_DRIVERS_VIRTUAL_DRIVER_H_
