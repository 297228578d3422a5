// SPDX-License-Identifier: Apache-2.0
//
// One call of a backend that submits work to several streams: a group of
// collective operations.
//
//   const Touched touched[] = {{out, true}, {in, false}};
//   JointPart part = {stream, touched};
//   return RunJointly({&part, 1}, "all_reduce", site, [&](auto parts) {
//     return table->submit(self, SubmissionOn(parts[0].handle), 1);
//   });
//
// Libraries above libdevrt use it, for which it is exported.

#ifndef DEVRT_ARRAYS_STORAGE_JOINT_STEP_H_
#define DEVRT_ARRAYS_STORAGE_JOINT_STEP_H_

#include <cstddef>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "arrays/storage/storage_order.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"
#include "streams/objects/use_hooks.h"
#include "streams/timelines/order.h"

namespace devrt::internal {

// The work of one stream.
struct JointPart {
  StreamRef stream;
  absl::Span<const Touched> touched;
  // Memory that no array stands for, whose allocator learns of the use.
  absl::Span<const UsedRange> ranges = {};
  // Work of other streams that the work comes after, unless a capture records
  // it.
  absl::Span<const OrderPoint> after = {};
  // The capture that the stream is part of, if the caller has asked.
  std::optional<CaptureNumber> capture = std::nullopt;
  // Receives the stream's handle, for `enqueue`.
  devrt_stream handle = nullptr;
  // Receives the point behind the work, if the submission succeeds.
  OrderPoint end = {};

  // For RunJointly: the stream's capture, and where the part's steps are.
  CaptureNumber held = CaptureNumber::kNone;
  size_t steps_begin = 0;
  size_t steps_end = 0;
};

// Submits the work of all parts.
using EnqueueJointly =
    absl::FunctionRef<devrt_status(absl::Span<const JointPart> parts)>;

// RunOrdered for all parts as one step.  The streams may be of several devices
// of one backend.  Of an error of `enqueue` the text names the device of the
// first part, and `call`.
DEVRT_EXPORT absl::Status RunJointly(absl::Span<JointPart> parts,
                                     const char* call, CallSite site,
                                     EnqueueJointly enqueue);

// Returns true if the work up to `point` is known to be complete.  Asks the
// backend by an event, unless that would make a capture invalid.  The first
// call records the event, so that a later one sees the end even if the stream
// has other work by then.
DEVRT_EXPORT bool IsOver(const OrderPoint& point);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_STORAGE_JOINT_STEP_H_
