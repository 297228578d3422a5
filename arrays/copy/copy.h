// SPDX-License-Identifier: Apache-2.0
//
// CopyArray: elements from anywhere to anywhere, of any strides, with a cast.
//
//   DEVRT_RETURN_IF_ERROR(devrt::CopyArray(target, source));
//
// The source is broadcast to the target's shape and converted to its dtype.
// How the elements travel:
//
//   within a device     by one kernel or one copy, on the current stream
//   device to device    one backend: the current stream of the source's device
//                       copies from peer to peer, after the current work of the
//                       target's current stream and before its later work
//                       (C57).  Strided or cast elements are packed on the
//                       source and unpacked on the target.  Two backends, or no
//                       PEER_COPY: through the host, with a wait
//   host and device     one block of bytes crosses.  The device casts, and each
//                       side packs or unpacks its own strides.  For a backend
//                       without devrt.elementwise/0 the host does it all
//   host to host        the calling thread copies, after a wait for the uses of
//                       both sides, also for pinned memory and non-blocking
//
// A blocking copy, the default, returns when the bytes have arrived if one side
// is host memory.  A non-blocking copy returns at once if the host's side is
// one block of pinned memory; if that side is strided, the copy waits until the
// host may pack or unpack it.  A copy with plain host memory waits in any case
// (E46), so that arrays over plain memory never have pending uses.
//
// For other threads a copy is one step if it copies within a device, copies one
// block of bytes, or copies between a device and one block of pinned memory.
// Every other copy is two steps: one reads the source, a later one writes the
// target.
//
// Captures.  A copy on a stream that another library captures is captured.  For
// a copy between two devices the streams of both devices must be in one
// capture; the waits between them become edges of it.
//
// The copy fails with FAILED_PRECONDITION and enqueues nothing if only one of
// the streams is captured, if the host would wait for a captured stream, or if
// the host would pack or cast what goes to the device, because every launch
// would repeat that one result: strided pinned memory, and any cast on a
// backend without kernels.
//
// Bools.  devrt writes 0 and 1.  Memory of others, and ViewAs, can bring other
// bytes, which count as true.  A copy from bool to bool keeps such a byte if it
// copies blocks of bytes, and otherwise makes it 1.  NotEqual(x, false) has 0
// and 1 only.
//
// Source and target may be one view.  If they overlap otherwise, the result is
// what it would be if the source were copied first.
//
// Errors: INVALID_ARGUMENT for a target that is read-only or overlaps itself
// (stride 0 under more than one element), and for a source that does not
// broadcast.

#ifndef DEVRT_ARRAYS_COPY_COPY_H_
#define DEVRT_ARRAYS_COPY_COPY_H_

#include <optional>

#include "absl/status/status.h"
#include "devrt/arrays/array.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt {

// How and where a copy runs.
struct CopyOptions {
  bool non_blocking = false;  // as described at the top
  // The stream that copies, of the source's or the target's device.  nullopt:
  // the current stream, as above.
  std::optional<StreamRef> stream;
};

// Copies the elements of `source`, broadcast and cast, to those of `target`.
DEVRT_EXPORT absl::Status CopyArray(const Array& target, const Array& source,
                                    const CopyOptions& options = {},
                                    CallSite site = CallSite::Here());

}  // namespace devrt

#endif  // DEVRT_ARRAYS_COPY_COPY_H_
