// SPDX-License-Identifier: Apache-2.0
//
// Answers of queries.  A thread that polls lets the device move, so that a loop
// of queries ends (docs/reference/simulator-rules.md 3).

#ifndef DEVRT_BACKENDS_MTIA_TABLE_POLL_H_
#define DEVRT_BACKENDS_MTIA_TABLE_POLL_H_

#include "backends/mtia/table/call.h"

namespace devrt::mtia {

// Notes that `me` got an answer other than "not ready".
inline void ResetPollCounts(HostThread* me) {
  me->polled = nullptr;
  me->polled_same = me->polled_any = 0;
}

// Sets `*done` to 1 if all points of call->me()->want are done, else to 0.
// `object` is the stream or event of the query.
devrt_status Poll(Call* call, const void* object, uint32_t* done);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_TABLE_POLL_H_
