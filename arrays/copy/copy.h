// SPDX-License-Identifier: Apache-2.0
//
// CopyArray: elements from anywhere to anywhere, of any strides, with a cast.
//
//   DEVRT_RETURN_IF_ERROR(devrt::CopyArray(target, source));
//
// The source is broadcast to the target's shape and converted to its dtype.
//
//   within a device     one kernel or one copy, on its current stream
//   device to device    of one backend: a copy from peer to peer on the
//                       current stream of the source's device, behind what
//                       the current stream of the target's device was given
//                       and before what it will be (C57); strided or cast:
//                       packed on the source, unpacked on the target.  Of two
//                       backends, or without PEER_COPY: through the host,
//                       waiting
//   host and device     one block of bytes crosses; casts are the device's,
//                       strides each side's own.  The host does it all for a
//                       backend without devrt.elementwise/0
//   host to host        by the calling thread, after the uses of both: it
//                       waits, pinned memory and non-blocking included
//
// Blocking, the default: returns when the bytes have arrived if one side is
// host memory.  Non-blocking: returns at once if the host's side is pinned and
// one block; strided, it waits until the host may pack or spread it.  Plain
// host memory makes the call wait all the same (E46), so that arrays over it
// never have pending uses.
//
// For other threads a copy is one step on all that it touches: within a device,
// of one block of bytes, and between a device and pinned memory that is one
// block.  Else one step reads the source, and a later one writes the target.
//
// On streams that another library captures a copy is captured; between two
// devices the streams of both have to be of one capture, and its joins are
// edges of it.  FAILED_PRECONDITION, with nothing enqueued, where the host
// would wait for a stream that is captured, or only one of the two is; and
// where it would pack or cast what goes to the device, once for all launches:
// strided pinned memory, and without kernels any cast.
//
// A bool is a byte that is 0 or 1 wherever devrt wrote it.  Another byte, which
// only memory of others and ViewAs bring, is true to whatever reads it; a copy
// from bool to bool keeps it where a block of bytes is copied, and else makes
// it 1.  NotEqual(x, false) has 0 and 1 only.
//
// Source and target may be one view; where they overlap otherwise, the result
// is as if the source were copied first.
//
// Errors: INVALID_ARGUMENT for a target that is read-only or overlaps itself
// (stride 0 under more than one element), or a source that does not broadcast.

#ifndef DEVRT_ARRAYS_COPY_COPY_H_
#define DEVRT_ARRAYS_COPY_COPY_H_

#include <optional>

#include "absl/status/status.h"
#include "devrt/arrays/array.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt {

struct CopyOptions {
  bool non_blocking = false;
  // Where the copy runs: a stream of the source's or the target's device;
  // nullopt: the current one, as above.
  std::optional<StreamRef> stream;
};

DEVRT_EXPORT absl::Status CopyArray(const Array& target, const Array& source,
                                    const CopyOptions& options = {},
                                    CallSite site = CallSite::Here());

}  // namespace devrt

#endif  // DEVRT_ARRAYS_COPY_COPY_H_
