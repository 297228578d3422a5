// SPDX-License-Identifier: Apache-2.0
//
// FromDLPack of dlpack.h, with the checks of E60.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrays/core/geometry.h"
#include "arrays/exchange/dlpack_block.h"
#include "arrays/exchange/dlpack_devices.h"
#include "arrays/exchange/exchange_error.h"
#include "arrays/storage/object_cache.h"
#include "arrays/storage/storage.h"
#include "devrt/arrays/dlpack.h"
#include "devrt/runtime/status.h"
#include "runtime/common/text.h"
#include "streams/common/deferred_deletion.h"

namespace devrt {

namespace {

using internal::BufferError;
using internal::ByteSpan;
using internal::DLPackBlock;
using internal::Storage;

// Owns the producer's tensor, and releases it when the last use of the memory
// is complete (E32).
template <typename Tensor>
class ForeignTensor {
 public:
  ForeignTensor() = default;
  ForeignTensor(const ForeignTensor&) = delete;
  ForeignTensor& operator=(const ForeignTensor&) = delete;
  ~ForeignTensor() {
    if (tensor_ != nullptr && tensor_->deleter != nullptr) {
      tensor_->deleter(tensor_);
    }
  }
  // Takes the tensor from the caller.  An import that fails before, or throws,
  // leaves it to the caller.
  void Own(Tensor* tensor) { tensor_ = tensor; }

 private:
  Tensor* tensor_ = nullptr;
};

// The fields of a tensor, checked as far as that needs no driver.
struct Description {
  // For a tensor that passed CheckAxes.
  explicit Description(const DLTensor& t)
      : shape(internal::ZeroDims(static_cast<size_t>(t.ndim))),
        strides(internal::ZeroDims(static_cast<size_t>(t.ndim))) {}

  Dims shape;
  Dims strides;  // bytes
  DType dtype = kBool;
  char* first = nullptr;  // nullptr if there are no elements
  ByteSpan span;
};

absl::Status AsBufferError(const absl::Status& status) {
  return BufferError(absl::StrCat("DLPack tensor: ", status.message()));
}

// Reads strides that are not those of C order.  There are elements.
absl::Status ReadStrides(const DLTensor& t, Description* d) {
  const auto item = static_cast<int64_t>(d->dtype.size());
  for (size_t i = 0; i < d->shape.size(); ++i) {
    // The stride of an extent of 1 is never used.
    if (d->shape[i] == 1) continue;
    if (__builtin_mul_overflow(t.strides[i], item, &d->strides[i])) {
      return BufferError(absl::StrCat(
          "DLPack tensor: the stride ", t.strides[i], " of axis ", i,
          ", in elements of ", item, " bytes, leaves the address space"));
    }
  }
  const absl::StatusOr<ByteSpan> span =
      internal::SpanOf(d->shape, d->strides, d->dtype.size());
  if (!span.ok()) return AsBufferError(span.status());
  d->span = *span;
  return absl::OkStatus();
}

// Reads the shape, and computes strides and span of C order.  Compares the
// strides of the tensor in that loop; there is one for each axis.
absl::Status ReadAxes(const DLTensor& t, Description* d) {
  const auto item = static_cast<int64_t>(d->dtype.size());
  int64_t* const shape = d->shape.data();
  int64_t* const strides = d->strides.data();
  int64_t elements = 1;
  bool usual = true;
  bool empty = false;
  bool bad = false;
  for (size_t i = d->shape.size(); i-- > 0;) {
    const int64_t extent = t.shape[i];
    shape[i] = extent;
    bad |= __builtin_mul_overflow(elements, item, &strides[i]);
    usual &= extent == 1 || t.strides == nullptr || t.strides[i] == elements;
    empty |= extent == 0;
    bad |= extent < 0 || __builtin_mul_overflow(
                             elements, std::max<int64_t>(extent, 1), &elements);
  }
  int64_t bytes = 0;
  bad |= __builtin_mul_overflow(elements, item, &bytes);
  if (bad) {
    return AsBufferError(internal::CountBytes(d->shape, d->dtype).status());
  }
  d->span.hi = empty ? 0 : bytes;
  return usual || empty ? absl::OkStatus() : ReadStrides(t, d);
}

absl::Status ReadAddress(const DLTensor& t, Description* d) {
  if (t.data == nullptr) {
    return BufferError(absl::StrCat("DLPack tensor: data is null, but shape ",
                                    ShapeText(d->shape), " has elements"));
  }
  // All of [first + lo, first + hi) must be addresses.
  const auto data = reinterpret_cast<uintptr_t>(t.data);
  uintptr_t first = 0;
  uintptr_t end = 0;
  const uintptr_t below = 0 - static_cast<uintptr_t>(d->span.lo);
  if (__builtin_add_overflow(data, t.byte_offset, &first) || first < below ||
      __builtin_add_overflow(first, static_cast<uintptr_t>(d->span.hi), &end)) {
    return BufferError(absl::StrCat(
        "DLPack tensor: data ", internal::Hex(t.data), " with byte_offset ",
        t.byte_offset, " and bytes from ", d->span.lo, " to ", d->span.hi,
        " leaves the address space"));
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the sum, without overflow
  d->first = reinterpret_cast<char*>(first);
  return absl::OkStatus();
}

absl::Status CheckAxes(const DLTensor& t) {
  if (t.ndim < 0 || t.ndim > internal::kMaxDims) {
    return BufferError(absl::StrCat("DLPack tensor: ndim is ", t.ndim,
                                    ", expected 0 to ", internal::kMaxDims));
  }
  if (t.ndim > 0 && t.shape == nullptr) {
    return BufferError(
        absl::StrCat("DLPack tensor: ndim is ", t.ndim, ", but shape is null"));
  }
  return absl::OkStatus();
}

absl::Status Read(const DLTensor& t, Description* d) {
  const absl::StatusOr<DType> dtype =
      DType::FromDLPack(t.dtype.code, t.dtype.bits, t.dtype.lanes);
  if (!dtype.ok()) return AsBufferError(dtype.status());
  d->dtype = *dtype;
  DEVRT_RETURN_IF_ERROR(ReadAxes(t, d));
  return d->span.hi == 0 ? absl::OkStatus() : ReadAddress(t, d);
}

// The block of a tensor that devrt exported, if the tensor still describes that
// memory; otherwise nullptr.
template <typename Tensor>
DLPackBlock* OwnBlock(const Tensor& tensor, const Description& d) {
  DLPackBlock* const block = DLPackBlock::Of(&tensor);
  if (block == nullptr) return nullptr;
  const Storage& storage = *block->storage();
  if (!internal::SameDevice(DLPackDevice(storage.place()),
                            tensor.dl_tensor.device)) {
    return nullptr;
  }
  if (d.first == nullptr) return block;
  const auto base = reinterpret_cast<uintptr_t>(storage.base());
  const uintptr_t begin =
      reinterpret_cast<uintptr_t>(d.first) + static_cast<uintptr_t>(d.span.lo);
  const auto bytes = static_cast<uint64_t>(d.span.hi - d.span.lo);
  const bool inside = begin >= base && begin - base <= storage.bytes() &&
                      bytes <= storage.bytes() - (begin - base);
  return inside ? block : nullptr;
}

absl::Status CheckWanted(const Place& place, const DLPackImport& options) {
  if (options.stream.has_value() &&
      (!place.device().has_value() ||
       options.stream->device() != *place.device())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the stream of a DLPack import is of ", options.stream->device().name(),
        ", but the memory is ", place.name()));
  }
  const bool elsewhere = options.place.has_value() && *options.place != place;
  if (elsewhere && options.copy.has_value() && !*options.copy) {
    return internal::CopyRequiredError(absl::StrCat(
        "the DLPack tensor is in ", place.name(), ": to have it in ",
        options.place->name(), " is a copy, and copy is false"));
  }
  return absl::OkStatus();
}

// Returns true if the caller wants a copy, or a place that needs one.
bool IsCopyWanted(const Place& place, const DLPackImport& options) {
  return options.copy.value_or(false) ||
         (options.place.has_value() && *options.place != place);
}

absl::StatusOr<Array> CopyOf(const Array& array, const DLPackImport& options,
                             CallSite site) {
  if (options.place.has_value() && *options.place != array.place()) {
    return array.To(*options.place, false, site);
  }
  return array.Copy(site);
}

// The stream that the producer made wait for its work.  Pinned memory has none
// unless the caller names one, because the host would wait for it (E43).
std::optional<StreamRef> OrderedStream(const Place& place,
                                       const DLPackImport& options) {
  if (options.stream.has_value() || place.kind() == MemoryKind::kPinned) {
    return options.stream;
  }
  return internal::CurrentStreamOf(place);
}

// Notes as uses what was submitted so far to the stream that the caller names,
// and to the stream that the tensor was exported to.
absl::Status NoteConsumers(DLPackBlock* block, bool writes,
                           const DLPackImport& options, CallSite site) {
  Storage& storage = *block->storage();
  if (storage.place().kind() == MemoryKind::kHost) return absl::OkStatus();
  const auto named = OrderedStream(storage.place(), options);
  if (named.has_value()) {
    DEVRT_RETURN_IF_ERROR(storage.NoteUse(*named, writes, site));
  }
  if (!named.has_value() || !block->IsUser(*named)) block->NoteUse();
  return absl::OkStatus();
}

absl::StatusOr<Array> ImportOwn(DLPackBlock* block, Description* d,
                                uint64_t flags, const DLPackImport& options,
                                CallSite site) {
  const Place& place = block->storage()->place();
  DEVRT_RETURN_IF_ERROR(CheckWanted(place, options));
  const bool said = (flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  DEVRT_RETURN_IF_ERROR(NoteConsumers(block, !said, options, site));
  const bool copies = IsCopyWanted(place, options);
  Array array(copies ? block->storage() : block->TakeStorage(), d->first,
              std::move(d->shape), std::move(d->strides), d->dtype,
              said || options.read_only);
  if (copies) {
    DEVRT_ASSIGN_OR_RETURN(array, CopyOf(array, options, site));
    block->ForgetUser();
  }
  delete block;
  return array;
}

// Copies the array.  If that succeeds its `owner` takes the tensor.
template <typename Tensor>
absl::StatusOr<Array> CopyForeign(const absl::StatusOr<Array>& array,
                                  ForeignTensor<Tensor>* owner, Tensor* tensor,
                                  const DLPackImport& options, CallSite site) {
  absl::StatusOr<Array> copy = CopyOf(*array, options, site);
  if (copy.ok()) {
    owner->Own(tensor);
  } else {
    // Work that was enqueued before the failure still reads the memory.
    array->Ready(site).IgnoreError();
  }
  return copy;
}

template <typename Tensor>
absl::StatusOr<Array> Import(Tensor* tensor, uint64_t flags,
                             const DLPackImport& options, CallSite site) {
  const DLTensor& t = tensor->dl_tensor;
  DEVRT_RETURN_IF_ERROR(CheckAxes(t));
  Description d(t);
  DEVRT_RETURN_IF_ERROR(Read(t, &d));
  if (DLPackBlock* const own = OwnBlock(*tensor, d)) {
    return ImportOwn(own, &d, flags, options, site);
  }
  const bool read_only =
      options.read_only || (flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  const absl::StatusOr<Place> found =
      internal::PlaceOf(t.device, d.first, d.span);
  if (!found.ok()) return found.status();
  const Place& place = *found;
  DEVRT_RETURN_IF_ERROR(CheckWanted(place, options));
  using Owner = ForeignTensor<Tensor>;
  auto shared = std::allocate_shared<Owner>(
      internal::ObjectCache<Owner, internal::OfOwners>());
  Owner* const owner = shared.get();
  const bool copies = IsCopyWanted(place, options);
  const auto borrow = [&] {
    const bool empty = d.first == nullptr;
    auto storage = Storage::Borrow(
        place,
        {empty ? nullptr : d.first + d.span.lo,
         empty ? 0 : static_cast<uint64_t>(d.span.hi - d.span.lo),
         std::move(shared),
         place.kind() == MemoryKind::kHost ? std::nullopt
                                           : OrderedStream(place, options)});
    if (!copies) owner->Own(tensor);
    return storage;
  };
  // Constructs the array in the place of the return value, without a move.
  const auto make = [&] {
    return absl::StatusOr<Array>(absl::in_place, borrow(), d.first,
                                 std::move(d.shape), std::move(d.strides),
                                 d.dtype, read_only);
  };
  if (!copies) return make();
  return CopyForeign(make(), owner, tensor, options, site);
}

absl::Status CheckTensor(const void* tensor) {
  if (tensor == nullptr) {
    return absl::InvalidArgumentError("FromDLPack: the tensor is null");
  }
  if (internal::HasDeferredArrayReleases())
    internal::RunDeferredArrayReleases();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Array> FromDLPack(DLManagedTensorVersioned* tensor,
                                 const DLPackImport& options, CallSite site) {
  DEVRT_RETURN_IF_ERROR(CheckTensor(tensor));
  // Of a foreign major version nothing behind `flags` may be read.
  if (tensor->version.major != DLPACK_MAJOR_VERSION) {
    return BufferError(absl::StrCat(
        "DLPack tensor: version ", tensor->version.major, ".",
        tensor->version.minor,
        ", but devrt reads version 1: ask the producer "
        "for max_version (1, 3), and release this one by its deleter"));
  }
  return Import(tensor, tensor->flags, options, site);
}

absl::StatusOr<Array> FromDLPack(DLManagedTensor* tensor,
                                 const DLPackImport& options, CallSite site) {
  DEVRT_RETURN_IF_ERROR(CheckTensor(tensor));
  return Import(tensor, 0, options, site);
}

}  // namespace devrt
