// SPDX-License-Identifier: Apache-2.0
//
// The ways that CopyArray takes.  Each wants a source of the target's shape,
// which may repeat elements (stride 0), and elements to copy.
//
// Steps that need memory of their own have it in an array: what orders the
// steps is what orders all operations on arrays.

#ifndef DEVRT_ARRAYS_INTERNAL_COPY_ROUTES_H_
#define DEVRT_ARRAYS_INTERNAL_COPY_ROUTES_H_

#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/arrays/array.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt::internal {

struct CopyJob {
  const Array& dst;
  const Array& src;
  std::optional<StreamRef> stream;  // as CopyOptions
  bool non_blocking;
  CallSite site;

  // The stream of steps on that device.
  StreamRef StreamOf(const Place& place) const;
};

absl::Status CopyHostToHost(const CopyJob& job);
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

// New arrays as DenseOver.  On the stream's device:
absl::StatusOr<Array> NewOn(StreamRef stream, const Array& like, DType dtype,
                            CallSite site);
// Page-locked for the backend of `device`, if it has such memory:
absl::StatusOr<Array> NewStaging(Device device, const Array& like, DType dtype,
                                 CallSite site);
absl::StatusOr<Array> NewHost(const Array& like, DType dtype, CallSite site);
// Bytes.
absl::StatusOr<Array> NewBlockOn(StreamRef stream, uint64_t bytes,
                                 CallSite site);
absl::StatusOr<Array> NewStagingBlock(Device device, uint64_t bytes,
                                      CallSite site);
// FAILED_PRECONDITION while the stream is capturing.
DEVRT_EXPORT absl::Status CheckMayWait(StreamRef stream);
// Whether copies of the stream's backend reach it only with the host's help.
bool IsPageable(const Array& array, StreamRef stream);
// `enqueue`, which reads src and writes dst, in their order: one step.
absl::Status RunCopy(StreamRef stream, const Array& dst, const Array& src,
                     CallSite site, absl::FunctionRef<absl::Status()> enqueue);
// `first` and `second` through memory of the stream's own: one step, or one for
// each side where one is pageable, which has no order to keep.
absl::Status RunCopyVia(StreamRef stream, const Array& dst,
                        const Array& between, const Array& src, CallSite site,
                        absl::FunctionRef<absl::Status()> first,
                        absl::FunctionRef<absl::Status()> second);
// One block, one stream, one copy.  Waits for it if `wait`, or if one side is
// pageable.
absl::Status CopyBlock(StreamRef stream, const Array& dst, char* to,
                       const Array& src, const char* from, uint64_t bytes,
                       bool wait, CallSite site);
// By the calling thread, when it may.
absl::Status ConvertOnHost(const Array& dst, const Array& src, CallSite site);
// `like` over another block of bytes, whose first one stands for `begin`.
Array Moved(const Array& like, const char* begin, const Array& block);
// By one kernel; the first of the two for inside such a step.
absl::Status EnqueueKernel(StreamRef stream, const Array& dst, const Array& src,
                           CallSite site);
absl::Status CopyByKernel(StreamRef stream, const Array& dst, const Array& src,
                          CallSite site);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_INTERNAL_COPY_ROUTES_H_
