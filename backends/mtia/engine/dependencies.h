// SPDX-License-Identifier: Apache-2.0
//
// The order of operations: which earlier work an operation comes after, and
// which work a wait covers (docs/reference/simulator-rules.md 1).  These
// functions read the state of the streams and change nothing else.  They are
// called inside the machine.

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_DEPENDENCIES_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_DEPENDENCIES_H_

#include "backends/mtia/engine/op.h"
#include "backends/mtia/engine/streams.h"

namespace devrt::mtia {

// Makes `op` depend on `p`.  A point of a stream that `op` depends on already
// replaces the earlier one.
void AddDep(Op* op, const Point& p);

// Gives `op`, which becomes the newest operation of `s`, its dependencies: the
// points that `s` has to wait for, and work of other streams by the rule of the
// legacy stream.  Then `s` has no points to wait for any more.
void CollectDeps(const Streams& streams, Op* op, StreamCore* s);

// Appends to `points` all work that was submitted to `s`, and what its next
// operation would wait for.
void AddFrontier(const Streams& streams, StreamCore* s, Points* points);

// Appends what an operation of `s` comes after: the frontier, and for a
// blocking stream also the work of its device's default stream.
void AddPredecessors(const Streams& streams, StreamCore* s, Points* points);

// Appends all work of `device`.
void AddDeviceFrontier(const Streams& streams, uint32_t device, Points* points);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_DEPENDENCIES_H_
