// SPDX-License-Identifier: Apache-2.0
//
// Copies between host and device.  The bytes cross as one block.  The host
// packs and unpacks its own strides; the device casts if it has kernels.

#include <utility>

#include "arrays/copy/copy_on_host.h"
#include "arrays/copy/copy_routes.h"
#include "arrays/copy/copy_steps.h"
#include "arrays/core/geometry.h"
#include "arrays/core/kernels.h"
#include "devrt/runtime/status.h"

namespace devrt::internal {

namespace {

Dims ToDims(DimSpan dims) { return Dims(dims.begin(), dims.end()); }

// Copies each contiguous piece of `dst` by itself, for devices without kernels.
// `packed` is dense, in the order of dst's axes.
absl::Status CopyPieces(const CopyStep& step, const Array& dst,
                        const Array& packed) {
  const CopyLayout layout = LayoutOf(dst, packed);
  const size_t inner = layout.shape.size() - 1;
  const bool rows =
      layout.dst_strides[inner] == static_cast<int64_t>(dst.item_size()) &&
      layout.src_strides[inner] == layout.dst_strides[inner];
  const uint64_t bytes =
      dst.item_size() * (rows ? static_cast<uint64_t>(layout.shape[inner]) : 1);
  const size_t axes = layout.shape.size() - (rows ? 1 : 0);
  const auto copy_all = [&](const StreamTarget& target) -> absl::Status {
    Dims index(axes, 0);
    for (;;) {
      char* to = layout.dst;
      const char* from = layout.src;
      for (size_t k = 0; k < axes; ++k) {
        to += index[k] * layout.dst_strides[k];
        from += index[k] * layout.src_strides[k];
      }
      DEVRT_RETURN_IF_ERROR(CopyOperands(target, OperandOf(dst, to, bytes),
                                         OperandOf(packed, from, bytes)));
      size_t k = axes;
      while (k > 0 && ++index[k - 1] == layout.shape[k - 1]) index[--k] = 0;
      if (k == 0) return absl::OkStatus();
    }
  };
  DEVRT_RETURN_IF_ERROR(RunCopy(step, dst, packed, copy_all));
  return WaitForStep(step);
}

// The step, for a copy of `staged` in place of the program's host memory.
CopyStep StepFor(const Array& staged, const Step& step) {
  return {step, IsPageable(staged, step.stream)};
}

// Packs on the host in the target's dtype, then copies.
absl::Status PackAndCopy(const CopyJob& job, const Step& step, bool to_block) {
  DEVRT_ASSIGN_OR_RETURN(
      const Array packed,
      NewStaging(step.stream.device(), job.dst, job.dst.dtype(), job.site));
  DEVRT_RETURN_IF_ERROR(ConvertOnHost(packed, job.src, job.site));
  const CopyStep crossing = StepFor(packed, step);
  if (!to_block) return CopyPieces(crossing, job.dst, packed);
  return CopyBlock(crossing, CopyJob(job.dst, packed, job.stream,
                                     job.non_blocking, job.site));
}

// Copies each element once, in one block, which the device unpacks and casts.
absl::Status CopyAndSpread(const CopyJob& job, CopyStep step) {
  Array packed = WithoutRepeats(job.src);
  char* begin = nullptr;
  if (!IsDense(packed, &begin)) {
    DEVRT_ASSIGN_OR_RETURN(
        const Array staged,
        NewStaging(step.stream.device(), packed, packed.dtype(), job.site));
    DEVRT_RETURN_IF_ERROR(ConvertOnHost(staged, packed, job.site));
    packed = staged;
    step = StepFor(staged, step);
    IsDense(packed, &begin);
  }
  const uint64_t bytes = packed.nbytes();
  DEVRT_ASSIGN_OR_RETURN(const Array block, NewBlockOn(step, bytes));
  DEVRT_ASSIGN_OR_RETURN(
      const Array repeated,
      WithMemoryOf(block, packed, begin).BroadcastTo(job.dst.shape()));
  const char* const to = static_cast<const char*>(block.data());
  DEVRT_RETURN_IF_ERROR(RunCopyVia(
      step, job.dst, block, packed,
      [&](const StreamTarget& target) {
        return CopyOperands(target, OperandOf(block, to, bytes),
                            OperandOf(packed, begin, bytes));
      },
      [&](const StreamTarget& target) {
        return EnqueueKernel(target, job.dst, repeated);
      }));
  return job.non_blocking ? absl::OkStatus() : WaitForStep(step);
}

// Copies all bytes from the first element to the last, for devices without
// kernels; the host takes the elements from them.
absl::Status CopyAndPick(const CopyJob& job, const Step& step) {
  const Array once = WithoutRepeats(job.src);
  const ByteSpan span = SpanOf(once);
  const uint64_t extent = static_cast<uint64_t>(span.hi - span.lo);
  DEVRT_ASSIGN_OR_RETURN(
      const Array raw, NewStagingBlock(step.stream.device(), extent, job.site));
  const Array bytes =
      BytesOf(once, static_cast<char*>(once.data()) + span.lo, extent);
  DEVRT_RETURN_IF_ERROR(CopyBlock(
      StepFor(raw, step), CopyJob(raw, bytes, job.stream, false, job.site)));
  const Array elements(raw.storage(), static_cast<char*>(raw.data()) - span.lo,
                       ToDims(once.shape()), ToDims(once.strides()),
                       once.dtype());
  DEVRT_ASSIGN_OR_RETURN(const Array repeated,
                         elements.BroadcastTo(job.dst.shape()));
  return ConvertOnHost(job.dst, repeated, job.site);
}

// The device packs and casts, then one block crosses.
absl::Status PackOnDevice(const CopyJob& job, const CopyStep& step) {
  DEVRT_ASSIGN_OR_RETURN(const Array packed,
                         NewOn(step, job.dst, job.dst.dtype()));
  const CopyLayout layout = LayoutOf(job.dst, packed);
  const uint64_t bytes = job.dst.nbytes();
  DEVRT_RETURN_IF_ERROR(RunCopyVia(
      step, job.dst, packed, job.src,
      [&](const StreamTarget& target) {
        return EnqueueKernel(target, packed, job.src);
      },
      [&](const StreamTarget& target) {
        return CopyOperands(target, OperandOf(job.dst, layout.dst, bytes),
                            OperandOf(packed, layout.src, bytes));
      }));
  const bool wait = !job.non_blocking || step.pageable;
  return wait ? WaitForStep(step) : absl::OkStatus();
}

// The host unpacks the elements, which it has to wait for.
absl::Status CopyAndUnpack(const CopyJob& job, const Step& step) {
  const Array once = WithoutRepeats(job.src);
  DEVRT_ASSIGN_OR_RETURN(
      const Array arrived,
      NewStaging(step.stream.device(), once, job.dst.dtype(), job.site));
  const CopyJob crossing(arrived, once, step.stream, false, job.site);
  const CopyStep staged = StepFor(arrived, step);
  DEVRT_RETURN_IF_ERROR(crossing.is_block ? CopyBlock(staged, crossing)
                                          : PackOnDevice(crossing, staged));
  DEVRT_ASSIGN_OR_RETURN(const Array repeated,
                         arrived.BroadcastTo(job.dst.shape()));
  return ConvertOnHost(job.dst, repeated, job.site);
}

}  // namespace

absl::Status CopyHostToDevice(const CopyJob& job) {
  CopyStep step = {{job.StreamOf(*job.dst.place().device()), job.site}};
  step.pageable = IsPageable(job.src, step.stream);
  const bool kernels = HasElementwise(step.stream.device());
  char* begin = nullptr;
  const bool to_block = job.is_block || IsDense(job.dst, &begin);
  const bool dense = job.is_block || IsDense(WithoutRepeats(job.src), &begin);
  // Every launch of a graph would repeat the values that the host packs now.
  if (!job.non_blocking || step.pageable ||
      (!job.is_block && !(kernels && dense))) {
    DEVRT_RETURN_IF_ERROR(CheckMayWait(&step));
  }
  if (job.is_block) return CopyBlock(step, job);
  return !kernels || (!dense && to_block) ? PackAndCopy(job, step, to_block)
                                          : CopyAndSpread(job, step);
}

absl::Status CopyDeviceToHost(const CopyJob& job) {
  CopyStep step = {{job.StreamOf(*job.src.place().device()), job.site}};
  step.pageable = IsPageable(job.dst, step.stream);
  const bool kernels = HasElementwise(step.stream.device());
  char* target = nullptr;
  const bool to_block = job.is_block || IsDense(job.dst, &target);
  if (!job.non_blocking || step.pageable ||
      (!job.is_block && !(kernels && to_block))) {
    DEVRT_RETURN_IF_ERROR(CheckMayWait(&step));
  }
  if (job.is_block) return CopyBlock(step, job);
  if (!kernels) return CopyAndPick(job, step);
  return to_block ? PackOnDevice(job, step) : CopyAndUnpack(job, step);
}

}  // namespace devrt::internal
