// SPDX-License-Identifier: Apache-2.0
//
// Answering queries, with the fairness of docs/simulator.md 2.3: a thread that
// polls lets the device move.

#ifndef DEVRT_BACKENDS_MTIA_TABLE_POLL_H_
#define DEVRT_BACKENDS_MTIA_TABLE_POLL_H_

#include "backends/mtia/table/call.h"

namespace devrt::mtia {

// `me` got an answer other than "not ready".
inline void Answered(HostThread* me) {
  me->polled = nullptr;
  me->polled_same = me->polled_any = 0;
}

// Whether the points of call->me()->want are done; `object` is what was asked.
devrt_status Poll(Call* call, const void* object, uint32_t* done);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_TABLE_POLL_H_
