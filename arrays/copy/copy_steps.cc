// SPDX-License-Identifier: Apache-2.0

#include "arrays/copy/copy_steps.h"

#include <memory>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrays/copy/copy_layout.h"
#include "arrays/copy/copy_on_host.h"
#include "arrays/core/geometry.h"
#include "arrays/core/kernels.h"
#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/status.h"
#include "streams/captures/relaxed_wait.h"

namespace devrt::internal {

namespace {

Array BytesOver(std::shared_ptr<Storage> storage) {
  char* const data = static_cast<char*>(storage->base());
  const int64_t bytes = static_cast<int64_t>(storage->bytes());
  return Array(std::move(storage), data, {bytes}, {1}, kUInt8);
}

absl::StatusOr<std::shared_ptr<Storage>> NewStagingStorage(Device device,
                                                           uint64_t bytes,
                                                           CallSite site) {
  auto storage = Storage::Allocate(Place::Pinned(device), bytes, site);
  return storage.ok() ? storage : Storage::Allocate(Place::Host(), bytes, site);
}

}  // namespace

absl::StatusOr<Array> NewOn(const Step& step, const Array& like, DType dtype) {
  DEVRT_ASSIGN_OR_RETURN(const uint64_t bytes, CountBytes(like.shape(), dtype));
  DEVRT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage,
                         Storage::AllocateOn(step.stream, bytes, step.site));
  return DenseOver(std::move(storage), like, dtype);
}

absl::StatusOr<Array> NewStaging(Device device, const Array& like, DType dtype,
                                 CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(const uint64_t bytes, CountBytes(like.shape(), dtype));
  DEVRT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage,
                         NewStagingStorage(device, bytes, site));
  return DenseOver(std::move(storage), like, dtype);
}

absl::StatusOr<Array> NewHost(const Array& like, DType dtype, CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(const uint64_t bytes, CountBytes(like.shape(), dtype));
  DEVRT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage,
                         Storage::Allocate(Place::Host(), bytes, site));
  return DenseOver(std::move(storage), like, dtype);
}

absl::StatusOr<Array> NewBlockOn(const Step& step, uint64_t bytes) {
  DEVRT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage,
                         Storage::AllocateOn(step.stream, bytes, step.site));
  return BytesOver(std::move(storage));
}

absl::StatusOr<Array> NewStagingBlock(Device device, uint64_t bytes,
                                      CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage,
                         NewStagingStorage(device, bytes, site));
  return BytesOver(std::move(storage));
}

absl::Status CheckMayWait(StreamRef stream) {
  DEVRT_ASSIGN_OR_RETURN(const bool capturing, IsCapturing(stream));
  if (!capturing) return absl::OkStatus();
  std::ostringstream text;
  text << stream;
  return CaptureError(absl::StrCat(
      "a copy that waits or packs on the host cannot run on ", text.str(),
      ", which is capturing: copy non-blocking, from or to pinned memory that "
      "is contiguous, and make it strided on the device; or copy outside the "
      "capture"));
}

absl::Status CheckMayWait(Step* step) {
  DEVRT_RETURN_IF_ERROR(CheckMayWait(step->stream));
  step->capture = CaptureNumber::kNone;
  return absl::OkStatus();
}

bool IsPageable(const Array& array, StreamRef stream) {
  const Place place = array.place();
  return place.kind() == MemoryKind::kHost ||
         (place.kind() == MemoryKind::kPinned &&
          place.device()->backend() != stream.device().backend());
}

Operand OperandOf(const Array& array, const char* data, uint64_t bytes) {
  Operand operand;
  operand.data = const_cast<char*>(data);
  operand.bytes = bytes;
  const Place place = array.place();
  if (place.kind() == MemoryKind::kDevice) {
    operand.kind = PointerKind::kDevice;
    operand.device = place.device()->record();
  }
  return operand;
}

absl::Status RunCopy(const CopyStep& step, const Array& dst, const Array& src,
                     Enqueue enqueue) {
  const Touched touched[] = {{dst.storage().get(), true},
                             {src.storage().get(), false}};
  if (!step.pageable) return RunOrdered(step, touched, enqueue);
  const absl::Status status = RunDrained(step, touched, enqueue);
  // A call that failed may have enqueued a copy, and no event guards the
  // program's memory.
  if (!status.ok()) WaitForStep(step).IgnoreError();
  return status;
}

absl::Status WaitForStep(const CopyStep& step) {
  const absl::Status status = SynchronizeRelaxed(step.stream, step.site);
  // The error may be one of the call alone, which has waited for nothing.
  if (!status.ok() && step.pageable) {
    SynchronizeRelaxed(step.stream, step.site).IgnoreError();
  }
  return status;
}

absl::Status RunCopyVia(const CopyStep& step, const Array& dst,
                        const Array& between, const Array& src, Enqueue first,
                        Enqueue second) {
  if (step.pageable) {
    CopyStep inside = step;
    inside.pageable = false;
    const bool enters = !IsOnDevice(src);
    DEVRT_RETURN_IF_ERROR(RunCopy(enters ? step : inside, between, src, first));
    return RunCopy(enters ? inside : step, dst, between, second);
  }
  return RunCopy(step, dst, src, [&](const StreamTarget& target) {
    const absl::Status packed = first(target);
    return packed.ok() ? second(target) : packed;
  });
}

absl::Status EnqueueBlock(const StreamTarget& target, const CopyJob& job) {
  const uint64_t bytes = job.dst.nbytes();
  return CopyOperands(target, OperandOf(job.dst, job.layout.dst, bytes),
                      OperandOf(job.src, job.layout.src, bytes));
}

absl::Status CopyBlock(const CopyStep& step, const CopyJob& job) {
  DEVRT_RETURN_IF_ERROR(RunCopy(
      step, job.dst, job.src,
      [&](const StreamTarget& target) { return EnqueueBlock(target, job); }));
  if (job.non_blocking && !step.pageable) return absl::OkStatus();
  return WaitForStep(step);
}

absl::Status ConvertOnHost(const Array& dst, const Array& src, CallSite site) {
  const Touched touched[] = {{dst.storage().get(), true},
                             {src.storage().get(), false}};
  return RunOnHost(touched, site, [&] {
    CopyOnHost(dst, src);
    return absl::OkStatus();
  });
}

Array BytesOf(const Array& array, char* data, uint64_t bytes) {
  return Array(array.storage(), data, {static_cast<int64_t>(bytes)}, {1},
               kUInt8);
}

Array WithMemoryOf(const Array& block, const Array& like, const char* begin) {
  return Array(block.storage(),
               static_cast<char*>(block.data()) +
                   (static_cast<const char*>(like.data()) - begin),
               Dims(like.shape().begin(), like.shape().end()),
               Dims(like.strides().begin(), like.strides().end()),
               like.dtype());
}

absl::Status EnqueueKernel(const StreamTarget& target, const Array& dst,
                           const Array& src) {
  Kernels kernels("copy", target);
  const devrt_tensor_v0 input = TensorOf(src);
  return kernels.Apply(DEVRT_OP_COPY, TensorOf(dst), &input, 1);
}

absl::Status CopyByKernel(const CopyStep& step, const Array& dst,
                          const Array& src) {
  return RunCopy(step, dst, src, [&](const StreamTarget& target) {
    return EnqueueKernel(target, dst, src);
  });
}

}  // namespace devrt::internal
