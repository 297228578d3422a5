// SPDX-License-Identifier: Apache-2.0
//
// The validate layer in a program: findings of a part of it, and work that no
// call of devrt shows.  The layer reports operations that nothing orders.
//
//   // Before the first use of devrt:
//   DEVRT_RETURN_IF_ERROR(devrt::validate::Enable());
//   devrt::validate::Scope scope;
//   DEVRT_RETURN_IF_ERROR(devrt::CopyAsync(producer, dst, src, bytes));
//   DEVRT_RETURN_IF_ERROR(devrt::CopyAsync(consumer, dst, src, bytes));
//   for (const devrt::validate::Finding& finding : scope.Findings()) {
//     std::cerr << finding.text;  // nothing orders the two copies
//   }
//
// Without the layer every function here does nothing and returns OK or an empty
// list, so that a program may keep the calls.
//
// The layer sees what devrt enqueues.  It does not see kernels that a program
// or another library enqueues on a native stream, nor the program's own reads
// and writes of pinned memory.  AnnotateWork and UseOnHost declare them; a
// declaration stands just before the use.
//
// Threads: any.

#ifndef DEVRT_STREAMS_OPERATIONS_VALIDATE_H_
#define DEVRT_STREAMS_OPERATIONS_VALIDATE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/access.h"
#include "devrt/streams/stream.h"

namespace devrt::validate {

// A mistake in the order of a program's work.
struct Finding {
  std::string id;    // "race-7f3a21c4": one for all runs
  std::string kind;  // "read-after-write"
  std::string text;  // the report: several lines
  std::string json;  // the report as a JSON object
  // The two operations as the simulator names them, "0.17", for a witness
  // (devrt/sim/witness.h); empty if no witness is wanted.
  std::string hold;
  std::string until;
};

// Puts the layer in front of the chosen ones (devrt/runtime/layer.h), unless
// the layer is among them.  Reports have the call stacks of both operations,
// which costs microseconds a call, unless DEVRT_RACE_STACKS is "off".
//   FAILED_PRECONDITION  a backend is open already
//   NOT_FOUND            the layer is not installed
//   otherwise            DEVRT_LAYERS or a setting of the layer has a mistake
DEVRT_EXPORT absl::Status Enable();

// Returns true if a backend is open and the layer checks its calls.
DEVRT_EXPORT bool IsActive();

// The findings that are made while a Scope lives, each once.  Other threads'
// findings are among them.
class DEVRT_EXPORT Scope {
 public:
  // Begins here: earlier findings are not among the scope's.
  Scope();
  // The findings so far, in the order of their ids.
  std::vector<Finding> Findings() const;

 private:
  uint64_t first_;
};

// Declares that the calling thread uses memory now.  FAILED_PRECONDITION, with
// the report, if work in flight uses the memory and DEVRT_RACE is "throw".
DEVRT_EXPORT absl::Status UseOnHost(absl::Span<const Access> accesses,
                                    CallSite site = CallSite::Here());

// Declares work that is enqueued on the native stream, past devrt.  `name` is
// for reports.  Errors as of UseOnHost.
DEVRT_EXPORT absl::Status AnnotateWork(StreamRef stream,
                                       absl::Span<const Access> accesses,
                                       const char* name,
                                       CallSite site = CallSite::Here());

// Declares that later work of `later` comes after the present work of
// `earlier`, because something that devrt does not see orders them.
DEVRT_EXPORT absl::Status AnnotateOrder(StreamRef earlier, StreamRef later,
                                        CallSite site = CallSite::Here());

}  // namespace devrt::validate

#endif  // DEVRT_STREAMS_OPERATIONS_VALIDATE_H_
