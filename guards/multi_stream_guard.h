// SPDX-License-Identifier: Apache-2.0
//
// MultiStreamGuard: makes streams of several devices current for one scope.
//
//   devrt::MultiStreamGuard guard({s0, s1});   // streams of any devices
//
// Makes each stream the current stream of its device, in order.  The destructor
// restores in reverse order, so that two streams of one device leave what was
// current before (F1).  The current devices do not change.
//
// If a stream is destroyed, if its device is lost, or inside a host function,
// nothing changes and status() says which stream and why.  Otherwise the guard
// is like a DeviceGuard: guards may be nested, are neither copied nor moved,
// and end on the thread that made them.

#ifndef DEVRT_GUARDS_MULTI_STREAM_GUARD_H_
#define DEVRT_GUARDS_MULTI_STREAM_GUARD_H_

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "absl/status/status.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt {

// Makes streams current for one scope.
class DEVRT_EXPORT MultiStreamGuard {
 public:
  // Makes the streams current, the first one first:
  explicit MultiStreamGuard(std::vector<StreamRef> streams);
  MultiStreamGuard(std::initializer_list<StreamRef> streams)
      : MultiStreamGuard(std::vector<StreamRef>(streams)) {}
  MultiStreamGuard(const MultiStreamGuard&) = delete;
  MultiStreamGuard& operator=(const MultiStreamGuard&) = delete;
  ~MultiStreamGuard();

  // OK, or why no stream was made current.
  const absl::Status& status() const { return status_; }

 private:
  friend class ThreadContextScope;
  // Makes the streams current.  Returns what was current before, in the order
  // of `streams`.
  static std::vector<StreamRef> Exchange(const std::vector<StreamRef>& streams);
  static void Restore(const std::vector<StreamRef>& previous);

  std::vector<StreamRef> previous_;
  absl::Status status_;
  uint64_t number_ = 0;  // 0: inactive
};

}  // namespace devrt

#endif  // DEVRT_GUARDS_MULTI_STREAM_GUARD_H_
