// SPDX-License-Identifier: Apache-2.0
//
// The order of operations on arrays: what a step waits for, and what it notes
// (storage.h).
//
//   const Touched touched[] = {{to, true}, {from, false}};
//   return RunOrdered({stream, site}, touched,
//                     [&](const StreamTarget& target) {
//                       return CopyOperands(target, dst, src);
//                     });
//
// No operation may run inside a host function.  Each operation checks this
// once, before it comes here.  The functions here check the stream of the step.

#ifndef DEVRT_ARRAYS_STORAGE_STORAGE_ORDER_H_
#define DEVRT_ARRAYS_STORAGE_STORAGE_ORDER_H_

#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "arrays/storage/storage.h"
#include "arrays/storage/storage_uses.h"
#include "devrt/runtime/call_site.h"
#include "devrt/streams/stream.h"
#include "streams/captures/captures.h"
#include "streams/objects/stream_target.h"
#include "streams/timelines/order.h"

namespace devrt::internal {

// Where a step of an operation runs.
struct Step {
  StreamRef stream;
  CallSite site;
  // The capture that the stream is part of, if the caller has asked.
  std::optional<CaptureNumber> capture = std::nullopt;
  // Work of another stream that the step comes after, besides uses of memory.
  OrderPoint after = {};
};

// Memory that a step reads, or also writes.
struct Touched {
  Storage* storage;
  bool writes;
};

// Submits the work of a step to its stream.
using Enqueue = absl::FunctionRef<absl::Status(const StreamTarget& target)>;

// One step of an operation on arrays.  Orders the step's stream after what
// other streams do to the memory, calls `enqueue`, and notes a use of the
// memory, all as one step for other threads that use the same memory.  If the
// ordering fails nothing is enqueued, and waits that were enqueued stay.  What
// `enqueue` submitted before it failed counts as a use.
absl::Status RunOrdered(const Step& step, absl::Span<const Touched> touched,
                        Enqueue enqueue);

// Enqueues only the waits that RunOrdered would enqueue.
absl::Status JoinUses(const Step& step, absl::Span<const Touched> touched);

// RunOrdered for an enqueue that may block its caller, as copies of plain host
// memory do.  The host first waits, with no lock held, for the stream and for
// what other streams do to the operands.  The stream must not be capturing.
absl::Status RunDrained(const Step& step, absl::Span<const Touched> touched,
                        Enqueue enqueue);

// Waits on the host for the use.  FAILED_PRECONDITION while its stream is
// capturing, because a wait or a query would end the capture.
absl::Status WaitForUse(const StorageUse& use, CallSite site);
// FAILED_PRECONDITION if WaitForUse would return it.
absl::Status CheckMayAsk(const StorageUse& use);

// One step of an operation that the calling thread does itself.  Waits for what
// streams do to the operands, then calls `access`, which must not enqueue or
// wait.
absl::Status RunOnHost(absl::Span<const Touched> touched, CallSite site,
                       absl::FunctionRef<absl::Status()> access);

// TellKnownOrderToHost for memory of the place.
void TellHostOrder(const Place& place);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_STORAGE_STORAGE_ORDER_H_
