// SPDX-License-Identifier: Apache-2.0
//
// What the routes of a copy are made of.

#include <memory>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/arrays/internal/copy_layout.h"
#include "devrt/arrays/internal/copy_routes.h"
#include "devrt/arrays/internal/geometry.h"
#include "devrt/arrays/internal/host_copy.h"
#include "devrt/arrays/internal/kernels.h"
#include "devrt/arrays/internal/mutants.h"
#include "devrt/arrays/internal/storage.h"
#include "devrt/runtime/status.h"
#include "devrt/streams/internal/ordering.h"
#include "devrt/streams/internal/stream_record.h"
#include "devrt/streams/internal/unnoted.h"

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

// Whether copies of the backend reach it without the host's help.
bool IsPageable(const Array& array, StreamRef stream) {
  const Place place = array.place();
  return place.kind() == MemoryKind::kHost ||
         (place.kind() == MemoryKind::kPinned &&
          place.device()->backend() != stream.device().backend());
}

absl::Status CheckMayWait(StreamRef stream) {
  DEVRT_ASSIGN_OR_RETURN(const bool capturing, IsCapturing(stream));
  if (!capturing) return absl::OkStatus();
  std::ostringstream text;
  text << stream;
  return absl::FailedPreconditionError(absl::StrCat(
      "a copy that waits on the host cannot run on ", text.str(),
      ", which is capturing: copy from or to pinned memory, non-blocking"));
}

// A driver may hold its caller up until pageable memory's turn comes; the locks
// of RunOrdered are not to be held meanwhile.
absl::Status Drain(StreamRef stream, CallSite site) {
  const StreamRecord* const record = stream.record();
  const bool idle = record->kind == StreamKind::kCreated &&
                    !record->dirty.load(std::memory_order_relaxed) &&
                    !record->exposed.load(std::memory_order_relaxed);
  return idle ? absl::OkStatus() : stream.Synchronize(site);
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

absl::Status CopyBlock(StreamRef stream, const Array& dst, char* to,
                       const Array& src, const char* from, uint64_t bytes,
                       bool wait, CallSite site) {
  const bool pageable = IsPageable(dst, stream) || IsPageable(src, stream);
  wait = wait || pageable;
  if (wait) DEVRT_RETURN_IF_ERROR(CheckMayWait(stream));
  if (pageable) DEVRT_RETURN_IF_ERROR(Drain(stream, site));
  const Touched touched[] = {{dst.storage().get(), true},
                             {src.storage().get(), false}};
  const auto copy = [&] { return CopyUnnoted(stream, to, from, bytes, site); };
  DEVRT_RETURN_IF_ERROR(RunOrdered(stream, touched, site, copy));
  if (!wait || Mutated(Mutant::kCopyReturnsEarly)) return absl::OkStatus();
  return stream.Synchronize(site);
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

absl::Status CopyByKernel(StreamRef stream, const Array& dst, const Array& src,
                          CallSite site) {
  const Touched touched[] = {{dst.storage().get(), true},
                             {src.storage().get(), false}};
  return RunOrdered(stream, touched, site, [&]() -> absl::Status {
    Kernels kernels("copy", site);
    DEVRT_RETURN_IF_ERROR(kernels.Begin(stream));
    const devrt_tensor_v0 input = TensorOf(src);
    return kernels.Apply(DEVRT_OP_COPY, TensorOf(dst), &input, 1);
  });
}

}  // namespace devrt::internal
