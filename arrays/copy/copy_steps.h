// SPDX-License-Identifier: Apache-2.0
//
// Steps of a copy's route: one copy of a block, one kernel, one conversion by
// the host, and memory between two steps.
//
//   const CopyStep step = {{stream, site}};
//   DEVRT_ASSIGN_OR_RETURN(const Array packed, NewOn(step, dst, dtype));
//   DEVRT_RETURN_IF_ERROR(CopyByKernel(step, packed, src));
//
// The functions do not repeat checks whose results are in the step: the route
// has made them.

#ifndef DEVRT_ARRAYS_COPY_COPY_STEPS_H_
#define DEVRT_ARRAYS_COPY_COPY_STEPS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "arrays/copy/copy_job.h"
#include "arrays/storage/storage_order.h"
#include "devrt/arrays/array.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"
#include "streams/operations/operand.h"

namespace devrt::internal {

struct CopyStep : Step {
  // One side is host memory, and the stream's backend needs the calling thread
  // for copies of it (IsPageable).
  bool pageable = false;
};

// New arrays with the geometry of DenseOver.

// On the step's stream, in memory of its device.
absl::StatusOr<Array> NewOn(const Step& step, const Array& like, DType dtype);
// In pinned memory, or in plain host memory if there is no pinned memory.
absl::StatusOr<Array> NewStaging(Device device, const Array& like, DType dtype,
                                 CallSite site);
absl::StatusOr<Array> NewHost(const Array& like, DType dtype, CallSite site);
// Arrays of `bytes` bytes.
absl::StatusOr<Array> NewBlockOn(const Step& step, uint64_t bytes);
absl::StatusOr<Array> NewStagingBlock(Device device, uint64_t bytes,
                                      CallSite site);
// The array of `bytes` bytes at `data`, which lie in the memory of `array`.
Array BytesOf(const Array& array, char* data, uint64_t bytes);
// An array with the geometry of `like` in the memory of `block`.  The first
// byte of `block` takes the place of the byte at `begin`.
Array WithMemoryOf(const Array& block, const Array& like, const char* begin);

// FAILED_PRECONDITION while the stream is capturing.
DEVRT_EXPORT absl::Status CheckMayWait(StreamRef stream);
// Calls CheckMayWait for the step's stream, and notes in the step that the
// stream is in no capture.
absl::Status CheckMayWait(Step* step);
// Returns true if a device does the operations on the array, and false if the
// calling thread does.
inline bool IsOnDevice(const Array& array) {
  const MemoryKind kind = array.place().kind();
  return kind == MemoryKind::kDevice || kind == MemoryKind::kManaged;
}

// Returns true if the stream's backend needs the calling thread for copies of
// this memory.
bool IsPageable(const Array& array, StreamRef stream);

// The operand for `bytes` bytes at `data`, which lie in the array's memory.
Operand OperandOf(const Array& array, const char* data, uint64_t bytes);

// Runs `enqueue`, which reads `src` and writes `dst`, as one step.
absl::Status RunCopy(const CopyStep& step, const Array& dst, const Array& src,
                     Enqueue enqueue);
// Waits for the stream of the step.
absl::Status WaitForStep(const CopyStep& step);
// Runs `first`, which reads `src` and writes `between`, then `second`, which
// reads `between`, memory of the device, and writes `dst`.  The caller has made
// `between` for this.  Both are one step, or two if the step is pageable,
// because plain memory has no order.
absl::Status RunCopyVia(const CopyStep& step, const Array& dst,
                        const Array& between, const Array& src, Enqueue first,
                        Enqueue second);
// Copies the job, which is a block, as one step.  Waits for it if the job is
// blocking or the step is pageable; the caller has called CheckMayWait then.
absl::Status CopyBlock(const CopyStep& step, const CopyJob& job);
// Copies by the calling thread, after a wait for the uses of both sides.
absl::Status ConvertOnHost(const Array& dst, const Array& src, CallSite site);
// Copies the job, which is a block, inside a step.
absl::Status EnqueueBlock(const StreamTarget& target, const CopyJob& job);
// Copies by one kernel, inside a step.
absl::Status EnqueueKernel(const StreamTarget& target, const Array& dst,
                           const Array& src);
// Copies by one kernel, as a step.
absl::Status CopyByKernel(const CopyStep& step, const Array& dst,
                          const Array& src);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_COPY_COPY_STEPS_H_
