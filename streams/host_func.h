// SPDX-License-Identifier: Apache-2.0
//
// Host functions: code of the program that runs in stream order.
//
//   DEVRT_RETURN_IF_ERROR(devrt::LaunchHostFunc(s, [&](absl::Status status) {
//     if (status.ok()) results.Publish();
//   }));
//
// The function runs exactly once, after all earlier work of the stream and
// before all later work, on a thread of the backend's (C41).  Its argument is
// OK, or the error that ended the device before the function's turn (C45).
// When LaunchHostFunc itself fails, the function is not called.
//
// Inside a host function every call that enqueues, waits, creates, destroys or
// allocates is FAILED_PRECONDITION and does nothing (C42).  Nothing can be made
// current there either: SetCurrentDevice, SetCurrentStream and guards are
// refused.  Queries, ids and properties work, but for GetMemoryInfo and the
// first look at a device's default stream.  It must not wait for work that is
// not ordered before it (C43), nor for another host function (C44).
//
// The function ends by returning.  An exception, or pthread_exit, ends it as
// well: an error is logged that names the call of LaunchHostFunc, the thread
// and the stream go on.  pthread_cancel of that thread has no effect.
//
// What the function object owns is released later, outside of it, by the next
// call that submits, waits, queries or creates, or by Shutdown or a simulator's
// reset, on whatever thread.  Objects may also end inside: what they hold of
// the backend ends later in the same way.
//
// UNIMPLEMENTED on a backend without DEVRT_CAP_HOST_FUNC.

#ifndef DEVRT_STREAMS_HOST_FUNC_H_
#define DEVRT_STREAMS_HOST_FUNC_H_

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt {

using HostFunc = absl::AnyInvocable<void(absl::Status) &&>;

DEVRT_EXPORT absl::Status LaunchHostFunc(StreamRef stream, HostFunc function,
                                         CallSite site = CallSite::Here());

}  // namespace devrt

#endif  // DEVRT_STREAMS_HOST_FUNC_H_
