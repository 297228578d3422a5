// SPDX-License-Identifier: Apache-2.0
//
// What the routes of a copy are made of.

#include <memory>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrays/copy/copy_layout.h"
#include "arrays/copy/copy_on_host.h"
#include "arrays/copy/copy_routes.h"
#include "arrays/core/geometry.h"
#include "arrays/ops/kernels.h"
#include "arrays/storage/mutants.h"
#include "arrays/storage/storage.h"
#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/status.h"
#include "streams/internal/ordering.h"
#include "streams/internal/relaxed_wait.h"
#include "streams/internal/unnoted.h"

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

StreamRef CopyJob::StreamOf(const Place& place) const {
  if (stream.has_value() && stream->device() == *place.device()) {
    return *stream;
  }
  return CurrentStreamOf(place);
}

absl::StatusOr<Array> NewOn(StreamRef stream, const Array& like, DType dtype,
                            CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(const uint64_t bytes, CountBytes(like.shape(), dtype));
  DEVRT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage,
                         Storage::AllocateOn(stream, bytes, site));
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

absl::StatusOr<Array> NewBlockOn(StreamRef stream, uint64_t bytes,
                                 CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage,
                         Storage::AllocateOn(stream, bytes, site));
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

bool IsPageable(const Array& array, StreamRef stream) {
  const Place place = array.place();
  return place.kind() == MemoryKind::kHost ||
         (place.kind() == MemoryKind::kPinned &&
          place.device()->backend() != stream.device().backend());
}

absl::Status RunCopy(StreamRef stream, const Array& dst, const Array& src,
                     CallSite site, absl::FunctionRef<absl::Status()> enqueue) {
  const Touched touched[] = {{dst.storage().get(), true},
                             {src.storage().get(), false}};
  if (!IsPageable(dst, stream) && !IsPageable(src, stream)) {
    return RunOrdered(stream, touched, site, enqueue);
  }
  DEVRT_RETURN_IF_ERROR(CheckMayWait(stream));
  return RunDrained(stream, touched, site, enqueue);
}

absl::Status RunCopyVia(StreamRef stream, const Array& dst,
                        const Array& between, const Array& src, CallSite site,
                        absl::FunctionRef<absl::Status()> first,
                        absl::FunctionRef<absl::Status()> second) {
  if (IsPageable(dst, stream) || IsPageable(src, stream)) {
    DEVRT_RETURN_IF_ERROR(RunCopy(stream, between, src, site, first));
    return RunCopy(stream, dst, between, site, second);
  }
  return RunCopy(stream, dst, src, site, [&]() -> absl::Status {
    DEVRT_RETURN_IF_ERROR(first());
    return second();
  });
}

absl::Status CopyBlock(StreamRef stream, const Array& dst, char* to,
                       const Array& src, const char* from, uint64_t bytes,
                       bool wait, CallSite site) {
  wait = wait || IsPageable(dst, stream) || IsPageable(src, stream);
  if (wait) DEVRT_RETURN_IF_ERROR(CheckMayWait(stream));
  DEVRT_RETURN_IF_ERROR(RunCopy(stream, dst, src, site, [&] {
    return CopyUnnoted(stream, to, from, bytes, site);
  }));
  if (!wait || Mutated(Mutant::kCopyReturnsEarly)) return absl::OkStatus();
  return SynchronizeRelaxed(stream, site);
}

absl::Status ConvertOnHost(const Array& dst, const Array& src, CallSite site) {
  const Touched touched[] = {{dst.storage().get(), true},
                             {src.storage().get(), false}};
  return RunOnHost(touched, site, [&] {
    CopyOnHost(dst, src);
    return absl::OkStatus();
  });
}

Array Moved(const Array& like, const char* begin, const Array& block) {
  return Array(block.storage(),
               static_cast<char*>(block.data()) +
                   (static_cast<const char*>(like.data()) - begin),
               Dims(like.shape().begin(), like.shape().end()),
               Dims(like.strides().begin(), like.strides().end()),
               like.dtype());
}

absl::Status EnqueueKernel(StreamRef stream, const Array& dst, const Array& src,
                           CallSite site) {
  Kernels kernels("copy", site);
  DEVRT_RETURN_IF_ERROR(kernels.Begin(stream));
  const devrt_tensor_v0 input = TensorOf(src);
  return kernels.Apply(DEVRT_OP_COPY, TensorOf(dst), &input, 1);
}

absl::Status CopyByKernel(StreamRef stream, const Array& dst, const Array& src,
                          CallSite site) {
  return RunCopy(stream, dst, src, site,
                 [&] { return EnqueueKernel(stream, dst, src, site); });
}

}  // namespace devrt::internal
