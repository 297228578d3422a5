// SPDX-License-Identifier: Apache-2.0
//
// Between host and device.  The bytes cross as one block; what is strided on
// the host is packed there, casts are the device's where it has kernels.

#include <utility>

#include "arrays/copy/copy_layout.h"
#include "arrays/copy/copy_on_host.h"
#include "arrays/copy/copy_routes.h"
#include "arrays/core/geometry.h"
#include "arrays/ops/kernels.h"
#include "arrays/storage/storage.h"
#include "devrt/runtime/status.h"
#include "streams/internal/relaxed_wait.h"
#include "streams/internal/unnoted.h"

namespace devrt::internal {

namespace {

Dims ToDims(DimSpan dims) { return Dims(dims.begin(), dims.end()); }

// Where the device cannot write what lies apart: a copy for each piece that
// does not.  `packed` is dense, in the order of dst's axes.
absl::Status CopyPieces(StreamRef stream, const Array& dst, const Array& packed,
                        CallSite site) {
  const CopyLayout layout = LayoutOf(dst, packed);
  const size_t inner = layout.shape.size() - 1;
  const bool rows =
      layout.dst_strides[inner] == static_cast<int64_t>(dst.item_size()) &&
      layout.src_strides[inner] == layout.dst_strides[inner];
  const uint64_t bytes =
      dst.item_size() * (rows ? static_cast<uint64_t>(layout.shape[inner]) : 1);
  const size_t axes = layout.shape.size() - (rows ? 1 : 0);
  const auto copy_all = [&]() -> absl::Status {
    Dims index(axes, 0);
    for (;;) {
      char* to = layout.dst;
      const char* from = layout.src;
      for (size_t k = 0; k < axes; ++k) {
        to += index[k] * layout.dst_strides[k];
        from += index[k] * layout.src_strides[k];
      }
      DEVRT_RETURN_IF_ERROR(CopyUnnoted(stream, to, from, bytes, site));
      size_t k = axes;
      while (k > 0 && ++index[k - 1] == layout.shape[k - 1]) index[--k] = 0;
      if (k == 0) return absl::OkStatus();
    }
  };
  DEVRT_RETURN_IF_ERROR(RunCopy(stream, dst, packed, site, copy_all));
  return SynchronizeRelaxed(stream, site);
}

// Packed on the host, in the target's dtype.
absl::Status PackAndCopy(const CopyJob& job, StreamRef stream, bool to_block) {
  DEVRT_ASSIGN_OR_RETURN(
      const Array packed,
      NewStaging(stream.device(), job.dst, job.dst.dtype(), job.site));
  DEVRT_RETURN_IF_ERROR(ConvertOnHost(packed, job.src, job.site));
  if (!to_block) return CopyPieces(stream, job.dst, packed, job.site);
  const CopyLayout layout = LayoutOf(job.dst, packed);
  return CopyBlock(stream, job.dst, layout.dst, packed, layout.src,
                   job.dst.nbytes(), !job.non_blocking, job.site);
}

// Each element once as a block, which the device spreads and casts.
absl::Status CopyAndSpread(const CopyJob& job, StreamRef stream) {
  Array packed = WithoutRepeats(job.src);
  char* begin = nullptr;
  if (!IsDense(packed, &begin)) {
    DEVRT_ASSIGN_OR_RETURN(
        const Array staged,
        NewStaging(stream.device(), packed, packed.dtype(), job.site));
    DEVRT_RETURN_IF_ERROR(ConvertOnHost(staged, packed, job.site));
    packed = staged;
    IsDense(packed, &begin);
  }
  DEVRT_ASSIGN_OR_RETURN(const Array block,
                         NewBlockOn(stream, packed.nbytes(), job.site));
  DEVRT_ASSIGN_OR_RETURN(
      const Array repeated,
      Moved(packed, begin, block).BroadcastTo(job.dst.shape()));
  DEVRT_RETURN_IF_ERROR(RunCopyVia(
      stream, job.dst, block, packed, job.site,
      [&] {
        return CopyUnnoted(stream, block.data(), begin, packed.nbytes(),
                           job.site);
      },
      [&] { return EnqueueKernel(stream, job.dst, repeated, job.site); }));
  return job.non_blocking ? absl::OkStatus()
                          : SynchronizeRelaxed(stream, job.site);
}

// Without kernels: all bytes from the first element to the last, whatever lies
// between; the host picks the elements.
absl::Status CopyAndPick(const CopyJob& job, StreamRef stream) {
  const Array once = WithoutRepeats(job.src);
  const ByteSpan span = SpanOf(once);
  const uint64_t extent = static_cast<uint64_t>(span.hi - span.lo);
  DEVRT_ASSIGN_OR_RETURN(const Array raw,
                         NewStagingBlock(stream.device(), extent, job.site));
  const char* const begin = static_cast<char*>(once.data()) + span.lo;
  DEVRT_RETURN_IF_ERROR(CopyBlock(stream, raw, static_cast<char*>(raw.data()),
                                  once, begin, extent, true, job.site));
  const Array elements(raw.storage(), static_cast<char*>(raw.data()) - span.lo,
                       ToDims(once.shape()), ToDims(once.strides()),
                       once.dtype());
  DEVRT_ASSIGN_OR_RETURN(const Array repeated,
                         elements.BroadcastTo(job.dst.shape()));
  return ConvertOnHost(job.dst, repeated, job.site);
}

// The device packs and casts; the target is a block.
absl::Status PackOnDevice(const CopyJob& job, StreamRef stream) {
  DEVRT_ASSIGN_OR_RETURN(const Array packed,
                         NewOn(stream, job.dst, job.dst.dtype(), job.site));
  const CopyLayout layout = LayoutOf(job.dst, packed);
  DEVRT_RETURN_IF_ERROR(RunCopyVia(
      stream, job.dst, packed, job.src, job.site,
      [&] { return EnqueueKernel(stream, packed, job.src, job.site); },
      [&] {
        return CopyUnnoted(stream, layout.dst, layout.src, job.dst.nbytes(),
                           job.site);
      }));
  const bool wait = !job.non_blocking || IsPageable(job.dst, stream);
  return wait ? SynchronizeRelaxed(stream, job.site) : absl::OkStatus();
}

}  // namespace

absl::Status CopyHostToDevice(const CopyJob& job) {
  const StreamRef stream = job.StreamOf(job.dst.place());
  const CopyLayout direct = LayoutOf(job.dst, job.src);
  const bool block =
      job.dst.dtype() == job.src.dtype() && direct.IsBlock(job.dst.item_size());
  const bool kernels = HasElementwise(stream.device());
  char* begin = nullptr;
  const bool to_block = IsDense(job.dst, &begin);
  const bool dense = IsDense(WithoutRepeats(job.src), &begin);
  // What the host packs now, a graph would repeat with the values of now.
  if (!job.non_blocking || IsPageable(job.src, stream) ||
      (!block && !(kernels && dense))) {
    DEVRT_RETURN_IF_ERROR(CheckMayWait(stream));
  }
  if (block) {
    return CopyBlock(stream, job.dst, direct.dst, job.src, direct.src,
                     job.dst.nbytes(), !job.non_blocking, job.site);
  }
  return !kernels || (!dense && to_block) ? PackAndCopy(job, stream, to_block)
                                          : CopyAndSpread(job, stream);
}

absl::Status CopyDeviceToHost(const CopyJob& job) {
  const StreamRef stream = job.StreamOf(job.src.place());
  const CopyLayout direct = LayoutOf(job.dst, job.src);
  const bool block =
      job.dst.dtype() == job.src.dtype() && direct.IsBlock(job.dst.item_size());
  const bool kernels = HasElementwise(stream.device());
  char* target = nullptr;
  const bool to_block = IsDense(job.dst, &target);
  if (!job.non_blocking || IsPageable(job.dst, stream) ||
      (!block && !(kernels && to_block))) {
    DEVRT_RETURN_IF_ERROR(CheckMayWait(stream));
  }
  if (block) {
    return CopyBlock(stream, job.dst, direct.dst, job.src, direct.src,
                     job.dst.nbytes(), !job.non_blocking, job.site);
  }
  if (!kernels) return CopyAndPick(job, stream);
  if (to_block) return PackOnDevice(job, stream);
  // The host has to spread it out, and so waits.
  const Array once = WithoutRepeats(job.src);
  DEVRT_ASSIGN_OR_RETURN(
      const Array arrived,
      NewStaging(stream.device(), once, job.dst.dtype(), job.site));
  DEVRT_RETURN_IF_ERROR(
      CopyDeviceToHost({arrived, once, stream, false, job.site}));
  DEVRT_ASSIGN_OR_RETURN(const Array repeated,
                         arrived.BroadcastTo(job.dst.shape()));
  return ConvertOnHost(job.dst, repeated, job.site);
}

}  // namespace devrt::internal
