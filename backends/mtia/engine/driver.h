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

  // The first operation of `s` has no open dependency.
  virtual void HeadReady(StreamCore* s) = 0;
  // The first operation of `s`, ready or parked, is being discarded.
  virtual void HeadGone(StreamCore* s) = 0;
  // The flag that the parked first operation of `s` waits for is set.
  virtual void Unpark(StreamCore* s) = 0;
  // Operations were discarded.  Waits for them are over.
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
  // The end of a call, and a yield: operations and other threads may run.
  virtual void Decide(HostThread* me) = 0;
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
