// SPDX-License-Identifier: Apache-2.0

#include "devrt/arrays/dlpack_exchange.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "arrays/core/array_checks.h"
#include "arrays/core/geometry.h"
#include "arrays/exchange/consumer_stream.h"
#include "arrays/exchange/dlpack_block.h"
#include "arrays/exchange/dlpack_devices.h"
#include "arrays/exchange/exchange_error.h"
#include "arrays/storage/storage.h"
#include "devrt/arrays/dlpack.h"
#include "devrt/runtime/status.h"
#include "streams/common/deferred_deletion.h"

namespace devrt {

namespace {

using internal::BufferError;
using internal::DLPackBlock;

// The device whose current stream CurrentWorkStream returns for memory in
// `place`: consumers pass the memory's pair.
Device WorkDevice(const Place& place) {
  const Device own = *place.device();
  if (place.kind() != MemoryKind::kManaged) return own;
  const auto index = static_cast<size_t>(DLPackDevice(place).device_id);
  return Device(own.record()->backend->devices[index]);
}

// Makes the stream that consumers are told wait for pending uses, and returns
// it; nullopt for host memory.
absl::StatusOr<std::optional<StreamRef>> Join(const Array& array,
                                              CallSite site) {
  DEVRT_RETURN_IF_ERROR(
      internal::CheckNotMovedFrom(array.storage(), "DLPack export"));
  if (internal::HasDeferredArrayReleases())
    internal::RunDeferredArrayReleases();
  DEVRT_RETURN_IF_ERROR(DLPackBlock::CheckLayout(array));
  const Place place = array.place();
  if (place.kind() == MemoryKind::kHost) return std::nullopt;
  const StreamRef current = CurrentStream(WorkDevice(place));
  DEVRT_RETURN_IF_ERROR(internal::OrderConsumer(array, current, site));
  return current;
}

uint64_t FlagsOf(const Array& array) {
  return array.read_only() ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
}

}  // namespace

absl::StatusOr<DLManagedTensorVersioned*> ExportNoSync(const Array& array,
                                                       CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(const std::optional<StreamRef> user,
                         Join(array, site));
  DLPackBlock* const block =
      DLPackBlock::New(array, DLPackDevice(array.place()), FlagsOf(array));
  if (user.has_value()) block->SetUser(user, !array.read_only());
  return block->versioned();
}

absl::Status BorrowNoSync(const Array& array, int64_t* strides, DLTensor* out,
                          CallSite site) {
  for (size_t i = 0; i < array.strides().size(); ++i) {
    strides[i] = array.strides()[i] / static_cast<int64_t>(array.item_size());
  }
  return internal::Borrow(array, strides, out, site);
}

absl::Status internal::Borrow(const Array& array, const int64_t* strides,
                              DLTensor* out, CallSite site) {
  if (array.read_only()) {
    return BufferError(
        "a read-only array cannot be borrowed as a DLTensor, which cannot say "
        "so: take the owning export, whose flags do, or borrow a copy");
  }
  DEVRT_ASSIGN_OR_RETURN(const std::optional<StreamRef> user,
                         Join(array, site));
  if (user.has_value()) {
    DEVRT_RETURN_IF_ERROR(array.storage()->RecordConsumer(*user, site));
  }
  out->data = array.data();
  out->device = DLPackDevice(array.place());
  out->ndim = array.ndim();
  out->dtype = {array.dtype().dlpack_code(), array.dtype().dlpack_bits(), 1};
  // The struct has no const; consumers only read.
  out->shape = const_cast<int64_t*>(array.shape().data());
  out->strides = const_cast<int64_t*>(strides);
  out->byte_offset = 0;
  return absl::OkStatus();
}

absl::StatusOr<DLManagedTensorVersioned*> AllocateLike(
    const DLTensor& prototype, CallSite site) {
  if (internal::HasDeferredArrayReleases())
    internal::RunDeferredArrayReleases();
  if (prototype.ndim < 0 || prototype.ndim > internal::kMaxDims ||
      (prototype.ndim > 0 && prototype.shape == nullptr)) {
    return absl::InvalidArgumentError(
        absl::StrCat("DLPack prototype: ndim is ", prototype.ndim,
                     ", expected 0 to ", internal::kMaxDims, " and a shape"));
  }
  DEVRT_ASSIGN_OR_RETURN(
      const DType dtype,
      DType::FromDLPack(prototype.dtype.code, prototype.dtype.bits,
                        prototype.dtype.lanes));
  DEVRT_ASSIGN_OR_RETURN(const Place place,
                         internal::PlaceOf(prototype.device, nullptr, {}));
  if (place.kind() == MemoryKind::kManaged) {
    return BufferError("devrt allocates no managed memory");
  }
  const DimSpan shape(prototype.shape, static_cast<size_t>(prototype.ndim));
  DEVRT_ASSIGN_OR_RETURN(const Array array,
                         Array::Empty(shape, dtype, place, site));
  return DLPackBlock::New(array, DLPackDevice(place), 0)->versioned();
}

absl::StatusOr<void*> CurrentWorkStream(DLDeviceType device_type,
                                        int32_t device_id) {
  const absl::StatusOr<Place> place =
      internal::PlaceOf({device_type, device_id}, nullptr, {});
  if (!place.ok()) return absl::InvalidArgumentError(place.status().message());
  if (place->kind() == MemoryKind::kHost ||
      place->kind() == MemoryKind::kPinned) {
    return nullptr;
  }
  const StreamRef current = CurrentStream(*place->device());
  if (current.kind() == StreamKind::kDefault) return nullptr;
  return current.Native();
}

}  // namespace devrt
