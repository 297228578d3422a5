// SPDX-License-Identifier: Apache-2.0
//
// The steps that routes of a copy are made of: new memory between two steps, one
// copy of a block, one kernel, one conversion by the host.
//
//   const Step step = {stream, site};
//   DEVRT_ASSIGN_OR_RETURN(const Array packed, NewOn(step, dst, dtype));
//   DEVRT_RETURN_IF_ERROR(CopyByKernel(step, packed, src));

#ifndef DEVRT_ARRAYS_COPY_COPY_STEPS_H_
#define DEVRT_ARRAYS_COPY_COPY_STEPS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "arrays/storage/storage.h"
#include "devrt/arrays/array.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"
#include "streams/internal/operand.h"

namespace devrt::internal {

// New arrays as DenseOver.  On the step's stream and its device:
absl::StatusOr<Array> NewOn(const Step& step, const Array& like, DType dtype);
// Page-locked for the backend of `device`, if it has such memory:
absl::StatusOr<Array> NewStaging(Device device, const Array& like, DType dtype,
                                 CallSite site);
absl::StatusOr<Array> NewHost(const Array& like, DType dtype, CallSite site);
// Bytes.
absl::StatusOr<Array> NewBlockOn(const Step& step, uint64_t bytes);
absl::StatusOr<Array> NewStagingBlock(Device device, uint64_t bytes,
                                      CallSite site);
// `like` over another block of bytes, whose first byte stands for `begin`.
Array Moved(const Array& like, const char* begin, const Array& block);

// FAILED_PRECONDITION while the stream is capturing.
DEVRT_EXPORT absl::Status CheckMayWait(StreamRef stream);
// Whether copies of the stream's backend reach it only with the host's help.
bool IsPageable(const Array& array, StreamRef stream);

// The `bytes` at `data`, which lie in the array's memory.
Operand OperandOf(const Array& array, const char* data, uint64_t bytes);

// `enqueue`, which reads src and writes dst, in their order: one step.
absl::Status RunCopy(const Step& step, const Array& dst, const Array& src,
                     Enqueue enqueue);
// `first` and `second` through `between`, memory of the step's own: one step, or
// one for each side where one is pageable, which has no order to keep.
absl::Status RunCopyVia(const Step& step, const Array& dst,
                        const Array& between, const Array& src, Enqueue first,
                        Enqueue second);
// One block, one stream, one copy.  Waits for it if `wait`, or if one side is
// pageable.
absl::Status CopyBlock(const Step& step, const Array& dst, char* to,
                       const Array& src, const char* from, uint64_t bytes,
                       bool wait);
// By the calling thread, when it may.
absl::Status ConvertOnHost(const Array& dst, const Array& src, CallSite site);
// One kernel inside a step, and as a step.
absl::Status EnqueueKernel(const StreamTarget& target, const Array& dst,
                           const Array& src);
absl::Status CopyByKernel(const Step& step, const Array& dst, const Array& src);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_COPY_COPY_STEPS_H_
