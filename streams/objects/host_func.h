// SPDX-License-Identifier: Apache-2.0
//
// Host functions: functions of the program that run in stream order.
//
//   DEVRT_RETURN_IF_ERROR(devrt::LaunchHostFunc(s, [&](absl::Status status) {
//     if (status.ok()) results.Publish();  // `results` outlives the work of s
//   }));
//
// What the function reads and writes is declared as for Launch, so that the
// validate layer compares it with other work.  In the mode "throw" a function
// with a finding is refused with FAILED_PRECONDITION:
//
//   DEVRT_RETURN_IF_ERROR(devrt::LaunchHostFunc(
//       s, {devrt::Read(host_ptr, bytes)},
//       [](absl::Status status) { if (status.ok()) Work(); }));
//
// What the function refers to must live until the function has run.  The
// destructor of a Stream does not wait for the stream's work: code that returns
// early with an error must call Synchronize before its variables end.
//
// The function runs exactly once, after all earlier work of the stream and
// before all later work, on a thread of the backend (C41).  Its argument is OK,
// or the error that ended the device before the function's turn (C45).  If
// LaunchHostFunc fails, the function is not called.
//
// Inside a host function every call that enqueues, waits, creates, destroys or
// allocates is FAILED_PRECONDITION and does nothing (C42).  SetCurrentDevice,
// SetCurrentStream and guards are refused too.  Queries, ids and properties
// work, except for GetMemoryInfo and the first query of a device's default
// stream.  The function must not wait for work that is not ordered before it
// (C43), nor for another host function (C44).
//
// The function should return.  An exception or pthread_exit also ends it: devrt
// logs an error that names the call of LaunchHostFunc, and the thread and the
// stream go on.  pthread_cancel of that thread has no effect.
//
// The function object is destroyed later, outside the function: by the next
// call of any thread that submits, waits, queries or creates, by Shutdown or by
// a simulator's reset.  The function may destroy objects of devrt; their native
// handles are then destroyed by such a call too.
//
// UNIMPLEMENTED on a backend without DEVRT_CAP_HOST_FUNC.

#ifndef DEVRT_STREAMS_OBJECTS_HOST_FUNC_H_
#define DEVRT_STREAMS_OBJECTS_HOST_FUNC_H_

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/access.h"
#include "devrt/streams/stream.h"

namespace devrt {

// The function, which gets OK or the error that ended the device.
using HostFunc = absl::AnyInvocable<void(absl::Status) &&>;

// Enqueues a call of `function` on `stream`.
DEVRT_EXPORT absl::Status LaunchHostFunc(StreamRef stream, HostFunc function,
                                         CallSite site = CallSite::Here());
// The form for a function that uses `accesses`, which are copied.
DEVRT_EXPORT absl::Status LaunchHostFunc(StreamRef stream,
                                         absl::Span<const Access> accesses,
                                         HostFunc function,
                                         CallSite site = CallSite::Here());

}  // namespace devrt

#endif  // DEVRT_STREAMS_OBJECTS_HOST_FUNC_H_
