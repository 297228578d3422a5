// SPDX-License-Identifier: Apache-2.0
//
// CopyJob: one copy with at least one side on a device, with its layout.
//
//   const CopyJob job(dst, src, options.stream, options.non_blocking, site);
//   return job.is_block ? CopyBlock(step, job) : CopyByKernel(step, dst, src);
//
// The source has elements and the shape of the target, and may repeat elements
// (stride 0).  The arrays must outlive the job.

#ifndef DEVRT_ARRAYS_COPY_COPY_JOB_H_
#define DEVRT_ARRAYS_COPY_COPY_JOB_H_

#include <optional>

#include "arrays/copy/copy_layout.h"
#include "devrt/arrays/array.h"
#include "devrt/runtime/call_site.h"
#include "devrt/streams/stream.h"

namespace devrt::internal {

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
  StreamRef StreamOf(Device device) const {
    return stream.has_value() && stream->device() == device
               ? *stream
               : CurrentStream(device);
  }

  const Array& dst;
  const Array& src;
  const std::optional<StreamRef> stream;  // as CopyOptions
  const bool non_blocking;
  const CallSite site;
  const CopyLayout layout;
  const bool is_block;  // of bytes: from layout.src to layout.dst
};

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_COPY_COPY_JOB_H_
