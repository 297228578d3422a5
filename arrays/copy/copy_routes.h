// SPDX-License-Identifier: Apache-2.0
//
// The routes of CopyArray: within a device, between two devices, and between a
// device and the host.
//
//   return CopyBetweenPeers(CopyJob(dst, src, stream, non_blocking, site));
//
// The source of a job has elements and the shape of its target, and may repeat
// elements (stride 0).  Memory between two steps is an array as well, so that
// the uses of arrays order all steps.

#ifndef DEVRT_ARRAYS_COPY_COPY_ROUTES_H_
#define DEVRT_ARRAYS_COPY_COPY_ROUTES_H_

#include <optional>

#include "absl/status/status.h"
#include "arrays/copy/copy_layout.h"
#include "devrt/arrays/array.h"
#include "devrt/runtime/call_site.h"
#include "devrt/streams/stream.h"

namespace devrt::internal {

// One copy with at least one side on a device.
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

  // The stream of steps on `device`: the one that the program chose, or the
  // current one.
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
// Copies through host memory, with a wait.
absl::Status CopyThroughHost(const CopyJob& job);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_COPY_COPY_ROUTES_H_
