// SPDX-License-Identifier: Apache-2.0
//
// The routes of CopyArray: within a device, between two, and between a device
// and the host.
//
//   return CopyBetweenPeers(CopyJob(dst, src, stream, non_blocking, site));
//
// The source of a job has the shape of its target, may repeat elements (stride
// 0), and has elements.  A step that needs memory of its own has it in an array,
// so that uses of arrays order all steps.

#ifndef DEVRT_ARRAYS_COPY_COPY_ROUTES_H_
#define DEVRT_ARRAYS_COPY_COPY_ROUTES_H_

#include <optional>

#include "absl/status/status.h"
#include "arrays/copy/copy_layout.h"
#include "devrt/arrays/array.h"
#include "devrt/runtime/call_site.h"
#include "devrt/streams/stream.h"

namespace devrt::internal {

// One copy with a side on a device, and what every route asks of it.
struct CopyJob {
  CopyJob(const Array& to, const Array& from, std::optional<StreamRef> on,
          bool may_return, CallSite at)
      : dst(to),
        src(from),
        stream(on),
        non_blocking(may_return),
        site(at),
        layout(LayoutOf(to, from)),
        is_block(layout.IsBlockOf(to, from)) {}

  // The stream of steps on that device: the program's, or the current one.
  StreamRef StreamOf(Device device) const;

  const Array& dst;
  const Array& src;
  const std::optional<StreamRef> stream;  // as CopyOptions
  const bool non_blocking;
  const CallSite site;
  const CopyLayout layout;
  const bool is_block;  // of bytes: from layout.src to layout.dst
};

absl::Status CopyHostToHost(const Array& dst, const Array& src, CallSite site);
absl::Status CopyWithinDevice(const CopyJob& job);
absl::Status CopyBetweenPeers(const CopyJob& job);
absl::Status CopyHostToDevice(const CopyJob& job);
absl::Status CopyDeviceToHost(const CopyJob& job);
// Through host memory, waiting.
absl::Status CopyThroughHost(const CopyJob& job);

// Whether operations on it are those of a device, not of the calling thread.
inline bool IsOnDevice(const Array& array) {
  const MemoryKind kind = array.place().kind();
  return kind == MemoryKind::kDevice || kind == MemoryKind::kManaged;
}

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_COPY_COPY_ROUTES_H_
