// SPDX-License-Identifier: Apache-2.0
//
// New arrays, and arrays over memory that devrt did not allocate.

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrays/core/geometry.h"
#include "arrays/storage/pointer_place.h"
#include "arrays/storage/storage.h"
#include "devrt/arrays/array.h"
#include "devrt/runtime/raw_memory.h"
#include "devrt/runtime/status.h"
#include "memory/api/known_uses.h"
#include "runtime/common/text.h"

namespace devrt {
namespace {

using internal::ByteSpan;
using internal::Storage;

// ---- FromPointer -----------------------------------------------------------

absl::StatusOr<Dims> StridesFor(DimSpan shape, DType dtype, Dims given) {
  if (given.empty()) return internal::ContiguousStrides(shape, dtype.size());
  if (given.size() == shape.size()) return given;
  return absl::InvalidArgumentError(
      absl::StrCat("strides ", ShapeText(given), " do not fit shape ",
                   ShapeText(shape), ": one for each axis, in bytes"));
}

std::optional<Place> KnownPlace(const PointerInfo& info) {
  if (!info.device) return std::nullopt;
  const Place place = internal::PlaceOf(info);
  if (place.kind() == MemoryKind::kHost) return std::nullopt;
  return place;
}

// Returns true if a caller may claim that memory in `actual` is in `claimed`.
bool Agree(const Place& claimed, const Place& actual) {
  if (claimed == actual) return true;
  if (actual.kind() != MemoryKind::kPinned) return false;
  // Pinned memory is host memory too, and serves all devices of its backend.
  if (claimed.kind() == MemoryKind::kHost) return true;
  return claimed.kind() == MemoryKind::kPinned &&
         claimed.device()->backend() == actual.device()->backend();
}

bool CanAsk(const Place& place) {
  return place.device() &&
         place.device()->backend().Has(DEVRT_CAP_POINTER_INFO);
}

absl::StatusOr<Place> CheckedPlace(const void* data,
                                   const std::optional<Place>& claimed,
                                   const std::optional<Place>& actual) {
  if (!claimed) return actual.value_or(Place::Host());
  if (actual) {
    if (Agree(*claimed, *actual)) return *claimed;
    return absl::InvalidArgumentError(absl::StrCat(
        "pointer ", internal::Hex(data), " is in ", actual->name(), ", not in ",
        claimed->name(), ": leave the place out, or name that one"));
  }
  if (CanAsk(*claimed)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pointer ", internal::Hex(data), " is not known to ",
        claimed->device()->backend().name(), ", so it is not in ",
        claimed->name(),
        ": plain host memory is Place::Host(), and what was freed has no "
        "place"));
  }
  return *claimed;
}

// Returns true if the bytes of `span` around `offset` are in [0, size).
bool LiesIn(const ByteSpan& span, uintptr_t offset, uintptr_t size) {
  const uint64_t before = 0 - static_cast<uint64_t>(span.lo);
  return offset <= size && before <= offset &&
         static_cast<uint64_t>(span.hi) <= size - offset;
}

absl::Status CheckBlock(const char* data, const ByteSpan& span,
                        const PointerInfo& info) {
  if (info.id == 0 && info.device && internal::LiesInCache(data)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pointer ", internal::Hex(data), " lies in cached memory of ",
        info.device->name(),
        ", but in no block that is alive: it was freed, "
        "or lies behind its block; take the pointer of a live one"));
  }
  if (info.base == nullptr || info.size == 0) return absl::OkStatus();
  const uintptr_t base = reinterpret_cast<uintptr_t>(info.base);
  const uintptr_t offset = reinterpret_cast<uintptr_t>(data) - base;
  if (LiesIn(span, offset, info.size)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the array's bytes ", span.lo, " to ", span.hi, " of pointer ",
      internal::Hex(data), " leave the block of ",
      internal::FormatBytes(info.size), " at ", internal::Hex(info.base),
      ", into which it points at offset ", offset,
      ": use a smaller shape, or strides that stay inside"));
}

absl::Status CheckAddresses(const char* data, const ByteSpan& span) {
  if (LiesIn(span, reinterpret_cast<uintptr_t>(data), UINTPTR_MAX)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the array's bytes ", span.lo, " to ", span.hi, " of pointer ",
      internal::Hex(data), " leave the address space"));
}

absl::Status CheckStream(const Place& place, const StreamRef& stream) {
  if (place.device() == stream.device()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a stream of ", stream.device().name(), " cannot be the home of ",
      place.name(), ": it has to be of the memory's device"));
}

}  // namespace

absl::StatusOr<Array> Array::Empty(DimSpan shape, DType dtype,
                                   const Place& place, CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(const uint64_t bytes,
                         internal::CountBytes(shape, dtype));
  DEVRT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage,
                         Storage::Allocate(place, bytes, site));
  return absl::StatusOr<Array>(absl::in_place, std::move(storage), shape,
                               dtype);
}

absl::StatusOr<Array> Array::Empty(DimSpan shape, DType dtype, CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(const Place place, Place::Current());
  return Empty(shape, dtype, place, site);
}

absl::StatusOr<Array> Array::FromPointer(void* data, DimSpan shape, DType dtype,
                                         PointerOptions options,
                                         CallSite /*site*/) {
  DEVRT_ASSIGN_OR_RETURN(const uint64_t bytes,
                         internal::CountBytes(shape, dtype));
  DEVRT_ASSIGN_OR_RETURN(Dims strides,
                         StridesFor(shape, dtype, std::move(options.strides)));
  DEVRT_ASSIGN_OR_RETURN(const ByteSpan span,
                         internal::SpanOf(shape, strides, dtype.size()));
  if (data == nullptr && bytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a null pointer has no elements for shape ", ShapeText(shape),
        ": only arrays without elements may be null"));
  }
  char* const first = static_cast<char*>(data);
  DEVRT_ASSIGN_OR_RETURN(const PointerInfo info, GetPointerInfo(data));
  Place place = options.place.value_or(Place::Host());
  if (data != nullptr && (bytes != 0 || !options.place)) {
    DEVRT_ASSIGN_OR_RETURN(place,
                           CheckedPlace(data, options.place, KnownPlace(info)));
  }
  if (bytes != 0) {
    DEVRT_RETURN_IF_ERROR(CheckAddresses(first, span));
    DEVRT_RETURN_IF_ERROR(CheckBlock(first, span, info));
  }
  if (options.stream) {
    DEVRT_RETURN_IF_ERROR(CheckStream(place, *options.stream));
  }
  Storage::Borrowed borrowed;
  borrowed.base = bytes == 0 ? data : first + span.lo;
  borrowed.bytes = static_cast<uint64_t>(span.hi - span.lo);
  borrowed.owner = std::move(options.owner);
  borrowed.stream = options.stream;
  return Array(Storage::Borrow(place, std::move(borrowed)), first,
               Dims(shape.begin(), shape.end()), std::move(strides), dtype,
               options.read_only);
}

}  // namespace devrt
