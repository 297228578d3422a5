// SPDX-License-Identifier: Apache-2.0
//
// The interface of the two drivers.  The scheduler says which operations may
// run; a driver decides when each of them runs.

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_DRIVER_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_DRIVER_H_

#include "backends/mtia/engine/op.h"

namespace devrt::mtia {

// Threads: members are called inside the machine (see machine.h).
class Driver {
 public:
  virtual ~Driver() = default;

  // ---- called by the scheduler and the flags ----

  // Called when the first operation of `s` has no open dependency.
  virtual void HeadReady(StreamCore* s) = 0;
  // Called when the first operation of `s` is being discarded.  It is ready, or
  // it has begun and waits for a flag, a host function or other ranks.
  virtual void HeadGone(StreamCore* s) = 0;
  // Called when the flag is set that the first operation of `s` waits for, or
  // when that operation is a collective and waits no longer.
  virtual void Unpark(StreamCore* s) = 0;
  // Called when `device` has got more slots for collectives.
  virtual void SlotsAdded(uint32_t device) { static_cast<void>(device); }
  // Called after operations were discarded: waits for them are over.
  virtual void Discarded() {}

  // ---- called by the table ----

  // Returns when the copies that were running when they were discarded have
  // ended.
  virtual void AwaitDiscardedCopies() {}
  // Returns NULL when all points of me->want are done, or the report of a
  // deadlock.
  virtual devrt_status Wait(HostThread* me) = 0;
  // Lets the device move, because `me` was told "not ready" too often.
  virtual devrt_status SoftWait(HostThread* me) = 0;
  // Returns NULL when me->lock_word has another value than me->lock_value, or
  // the report of a deadlock.  mode=virtual only.
  virtual devrt_status AwaitChange(HostThread*) { return nullptr; }
  // Lets operations and other threads run: a decision.
  virtual void Decide(HostThread* me) = 0;
  // Adds the time that a call takes to the time of `me`.
  virtual void Spend(HostThread* me) = 0;
  // The time that `me` sees.
  virtual VTime Now(const HostThread* me) const = 0;
  // Ends all work.  Afterwards no body runs, and the functions of operations
  // are destroyed, except for a host function that does not return.
  virtual void Stop() = 0;
  // Begins after Stop, with the machine's configuration.
  virtual void Start() = 0;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_DRIVER_H_
