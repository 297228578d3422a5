// SPDX-License-Identifier: Apache-2.0
//
// Answers of queries.  A thread that polls lets the device move, so that a loop
// of queries ends (docs/reference/simulator-rules.md 3).

#ifndef DEVRT_BACKENDS_MTIA_TABLE_POLL_H_
#define DEVRT_BACKENDS_MTIA_TABLE_POLL_H_

#include "backends/mtia/table/call.h"

namespace devrt::mtia {

// Notes that `me` knows what has ended by now.  Rules of stale queries ask.
inline void Observe(HostThread* me) {
  if (g_machine->fault_rules.empty()) return;
  me->observed = g_machine->driver->Now(me);
}

// Notes that `me` got an answer other than "not ready".
inline void ResetPollCounts(HostThread* me) {
  Observe(me);
  me->polled = {};
  me->polled_same = me->polled_any = 0;
}

// The stream or event of a query.
struct Polled {
  const void* object;
  uint32_t device;
};

// Sets `*done` to 1 if all points of call->me()->want are done, else to 0.
// `ended` is when the last of them ended, read after they are done.
devrt_status Poll(Call* call, Polled polled, const VTime& ended,
                  uint32_t* done);

// True if a rule makes a query say "not ready", although all is done since
// `ended`.  It never contradicts what `me` has learnt before.
inline bool IsStale(const HostThread* me, Polled polled, VTime ended) {
  return !g_machine->fault_rules.empty() && ended > me->observed &&
         g_machine->fault_rules.IsStale(polled.object, polled.device, ended);
}

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_TABLE_POLL_H_
