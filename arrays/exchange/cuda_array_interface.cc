// SPDX-License-Identifier: Apache-2.0

#include "devrt/arrays/cuda_array_interface.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "arrays/core/array_checks.h"
#include "arrays/core/geometry.h"
#include "arrays/exchange/consumer_stream.h"
#include "arrays/exchange/dlpack_devices.h"
#include "arrays/exchange/exchange_error.h"
#include "arrays/storage/storage.h"
#include "devrt/arrays/dlpack.h"
#include "devrt/runtime/status.h"
#include "devrt/streams/external_stream.h"
#include "streams/common/deferred_deletion.h"

namespace devrt {

namespace {

using internal::BufferError;
using internal::ByteSpan;
using internal::Consumer;
using internal::NotOfferedError;
using internal::Storage;

// ---- Out --------------------------------------------------------------------

absl::Status CheckOffered(const Array& array, const CudaArrayExport& options) {
  const Place place = array.place();
  const int32_t type =
      place.device().has_value()
          ? internal::DLPackTypesOf(*place.device()).device_type
          : 0;
  const bool backend =
      type == kDLCUDA || (type == kDLROCM && GetExchangeSettings().hip_cai);
  if (!backend ||
      (place.kind() == MemoryKind::kPinned && !options.pinned_is_mapped)) {
    return NotOfferedError(absl::StrCat(
        "memory of ", place.name(),
        " has no CUDA Array Interface: that is for "
        "device and managed memory of cuda, and mapped pinned memory"));
  }
  if (array.dtype().typestr() == nullptr) {
    return NotOfferedError(absl::StrCat("dtype ", array.dtype().name(),
                                        " has no CUDA Array Interface: no type "
                                        "string names it; use DLPack"));
  }
  for (size_t i = 0; i < array.shape().size(); ++i) {
    if (array.size() != 0 && array.shape()[i] > 1 && array.strides()[i] < 0) {
      return NotOfferedError(absl::StrCat(
          "axis ", i,
          " has a negative stride, which consumers of the CUDA "
          "Array Interface do not take: use a copy (Contiguous())"));
    }
  }
  return absl::OkStatus();
}

// The number of a stream; HIP has none for the null stream.
absl::StatusOr<std::optional<int64_t>> NumberOf(StreamRef stream,
                                                bool is_cuda) {
  if (is_cuda) {
    DEVRT_ASSIGN_OR_RETURN(const CudaStreamHandle handle,
                           GetCudaStream(stream));
    return static_cast<int64_t>(handle.handle);
  }
  if (stream.kind() == StreamKind::kDefault) return std::nullopt;
  DEVRT_ASSIGN_OR_RETURN(void* const native, stream.Native());
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(native));
}

// The strides, with those of C order in the place of negative strides of
// extents of 1: these mean nothing, but PyTorch ends the process.
Dims OfferedStrides(const Array& array) {
  Dims strides(array.strides().begin(), array.strides().end());
  for (size_t i = 0; i < strides.size(); ++i) {
    if (strides[i] >= 0) continue;
    strides[i] =
        internal::ContiguousStrides(array.shape(), array.item_size())[i];
  }
  return strides;
}

// Makes one stream wait for pending uses and returns its number (E14).
absl::StatusOr<std::optional<int64_t>> JoinedStream(const Array& array,
                                                    CallSite site) {
  const Device device = *array.place().device();
  StreamRef stream = CurrentStream(device);
  const bool is_cuda = internal::DLPackTypesOf(device).device_type == kDLCUDA;
  // HIP has no number for a per-thread stream, and the null stream needs none.
  if (!is_cuda && stream.kind() == StreamKind::kPerThread) {
    stream = DefaultStream(device);
  }
  Storage& storage = *array.storage();
  DEVRT_ASSIGN_OR_RETURN(const bool ready, storage.IsReadyFor(stream, site));
  if (!ready) {
    DEVRT_RETURN_IF_ERROR(internal::OrderConsumer(array, stream, site));
  }
  // Asks for the number first, because that exposes the stream: RecordConsumer
  // keeps exposed streams only.
  std::optional<int64_t> number;
  if (!ready) {
    DEVRT_ASSIGN_OR_RETURN(number, NumberOf(stream, is_cuda));
  }
  // Also without a number: the consumer was given no other stream of devrt.
  DEVRT_RETURN_IF_ERROR(storage.RecordConsumer(stream, site));
  return number;
}

// ---- In ---------------------------------------------------------------------

// A typestr has a byte order, a kind and a size; times add a unit: "<M8[ns]".
bool IsReadable(std::string_view text) {
  if (text.size() < 3 ||
      std::string_view("<>|=").find(text[0]) == std::string_view::npos ||
      !absl::ascii_isalpha(static_cast<unsigned char>(text[1]))) {
    return false;
  }
  const size_t digits = text.find_first_not_of("0123456789", 2);
  if (digits == std::string_view::npos) return text.size() <= 12;
  return digits > 2 && digits <= 12 && (text[1] == 'M' || text[1] == 'm') &&
         text[digits] == '[' && text.back() == ']' &&
         text.find_first_of("[]", digits + 1) == text.size() - 1;
}

absl::StatusOr<DType> ReadTypestr(const CudaArrayInterface& cai) {
  const std::string_view text = cai.typestr;
  if (!IsReadable(text)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "CUDA Array Interface: typestr \"", std::string(text),
        "\" is not a byte order, a kind and a size, as \"<f4\" is"));
  }
  if (text[0] == '>' && text.substr(2) != "1") {
    return BufferError(absl::StrCat("CUDA Array Interface: typestr \"",
                                    std::string(text),
                                    "\" is of a foreign byte order"));
  }
  if (cai.has_descr) {
    return BufferError(absl::StrCat(
        "CUDA Array Interface: descr says more than typestr \"",
        std::string(text), "\": structured elements have no dtype in devrt"));
  }
  if (text[1] == 'V') {
    return BufferError(
        absl::StrCat("CUDA Array Interface: typestr \"", std::string(text),
                     "\" names no dtype: bfloat16 can be exchanged by DLPack"));
  }
  for (const DType dtype : DType::All()) {
    const char* const own = dtype.typestr();
    if (own != nullptr && text.substr(1) == own + 1) return dtype;
  }
  return BufferError(absl::StrCat("CUDA Array Interface: typestr \"",
                                  std::string(text),
                                  "\" is of no dtype that devrt has"));
}

absl::Status CheckValues(const CudaArrayInterface& cai) {
  const auto error = [](const auto&... text) {
    return absl::InvalidArgumentError(
        absl::StrCat("CUDA Array Interface: ", text...));
  };
  if (cai.version < 0) return error("version ", cai.version, " is negative");
  bool empty = false;
  for (const int64_t extent : cai.shape) {
    if (extent < 0)
      return error("shape ", ShapeText(cai.shape), " is negative");
    empty = empty || extent == 0;
  }
  if (cai.strides.has_value() && cai.strides->size() != cai.shape.size()) {
    return error("there are ", cai.strides->size(), " strides, but ",
                 cai.shape.size(), " extents");
  }
  if (cai.data == 0 && !empty) {
    return error("the address is 0, but shape ", ShapeText(cai.shape),
                 " has elements");
  }
  if (cai.stream.has_value() && *cai.stream < 0) {
    return error("stream ", *cai.stream, " is negative");
  }
  if (cai.stream == 0 && GetExchangeSettings().strict) {
    return error(
        "stream 0 is forbidden; 1 is the default stream "
        "(DEVRT_DLPACK_STRICT)");
  }
  return absl::OkStatus();
}

struct Geometry {
  Dims strides;
  ByteSpan span;
};

absl::StatusOr<Geometry> ReadGeometry(const CudaArrayInterface& cai,
                                      DType dtype) {
  const auto as_buffer = [](const absl::Status& status) {
    return BufferError(
        absl::StrCat("CUDA Array Interface: ", status.message()));
  };
  const absl::Status bytes = internal::CountBytes(cai.shape, dtype).status();
  if (!bytes.ok()) return as_buffer(bytes);
  Geometry g;
  g.strides = internal::ContiguousStrides(cai.shape, dtype.size());
  if (internal::CountElements(cai.shape) == 0) return g;
  const auto item = static_cast<int64_t>(dtype.size());
  for (size_t i = 0; cai.strides.has_value() && i < cai.shape.size(); ++i) {
    const int64_t stride = (*cai.strides)[i];
    if (cai.shape[i] == 1) continue;  // the stride is never used
    if (stride % item != 0) {
      return BufferError(
          absl::StrCat("CUDA Array Interface: the stride ", stride, " of axis ",
                       i, " is no multiple of the item's ", item, " bytes"));
    }
    g.strides[i] = stride;
  }
  const absl::StatusOr<ByteSpan> span =
      internal::SpanOf(cai.shape, g.strides, dtype.size());
  if (!span.ok()) return as_buffer(span.status());
  g.span = *span;
  uintptr_t end = 0;
  if (cai.data < 0 - static_cast<uintptr_t>(span->lo) ||
      __builtin_add_overflow(cai.data, static_cast<uintptr_t>(span->hi),
                             &end)) {
    return BufferError(absl::StrCat(
        "CUDA Array Interface: bytes from ", span->lo, " to ", span->hi,
        " around 0x", absl::Hex(cai.data), " leave the address space"));
  }
  return g;
}

// The place of an array without elements: no driver can be asked about memory.
absl::StatusOr<Place> CurrentCudaPlace() {
  const absl::StatusOr<Device> cuda = CurrentDevice("cuda");
  if (cuda.ok()) return Place(*cuda);
  return Place::Current();
}

// What an import keeps.  The stream is destroyed before its owner.
struct Kept {
  std::shared_ptr<void> owner;
  std::optional<Stream> stream;
};

bool IsElsewhere(const std::optional<Place>& wanted, const Place& place) {
  return wanted.has_value() && *wanted != place;
}

absl::Status CheckMayCopy(const Place& place, const CudaArrayImport& options) {
  if (options.copy.value_or(true) || !IsElsewhere(options.place, place)) {
    return absl::OkStatus();
  }
  return internal::CopyRequiredError(
      absl::StrCat("the memory is in ", place.name(), ": to have it in ",
                   options.place->name(), " is a copy, and copy is false"));
}

// Sets the owner of an import, and the stream that orders devrt after the
// producer.
absl::Status SetOwner(const CudaArrayInterface& cai, const Place& place,
                      std::shared_ptr<void> owner, std::optional<bool> sync,
                      Storage::Borrowed* borrowed) {
  auto kept = std::make_shared<Kept>();
  kept->owner = owner;
  // The host reads pinned memory without a stream, so none is waited for unless
  // the producer names one (E43).
  if (place.kind() != MemoryKind::kPinned) {
    borrowed->stream = internal::CurrentStreamOf(place);
  }
  if (cai.stream.has_value()) {
    DEVRT_ASSIGN_OR_RETURN(
        Consumer producer,
        internal::ResolveConsumer(place, DLPackDevice(place), cai.stream,
                                  std::nullopt, std::move(owner)));
    borrowed->stream = producer.stream;
    borrowed->joined = sync.value_or(GetExchangeSettings().cai_sync);
    kept->stream = std::move(producer.adopted);
  }
  borrowed->owner = std::move(kept);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CudaArrayInterface> ToCudaArrayInterface(
    const Array& array, const CudaArrayExport& options, CallSite site) {
  DEVRT_RETURN_IF_ERROR(
      internal::CheckNotMovedFrom(array.storage(), "CUDA Array Interface"));
  if (internal::HasDeferredArrayReleases())
    internal::RunDeferredArrayReleases();
  CudaArrayInterface cai;
  cai.version = options.version.value_or(GetExchangeSettings().cai_version);
  if (cai.version != 2 && cai.version != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("CUDA Array Interface: version ", cai.version,
                     " cannot be exported, only 2 and 3"));
  }
  DEVRT_RETURN_IF_ERROR(CheckOffered(array, options));
  cai.shape.assign(array.shape().begin(), array.shape().end());
  cai.typestr = array.dtype().typestr();
  cai.data = reinterpret_cast<uintptr_t>(array.data());
  cai.read_only = array.read_only();
  if (!array.IsContiguous()) {
    cai.strides = OfferedStrides(array);
  }
  DEVRT_ASSIGN_OR_RETURN(const std::optional<int64_t> stream,
                         JoinedStream(array, site));
  if (cai.version == 3) cai.stream = stream;
  return cai;
}

absl::StatusOr<Array> FromCudaArrayInterface(const CudaArrayInterface& cai,
                                             std::shared_ptr<void> owner,
                                             const CudaArrayImport& options,
                                             CallSite site) {
  if (internal::HasDeferredArrayReleases())
    internal::RunDeferredArrayReleases();
  DEVRT_RETURN_IF_ERROR(CheckValues(cai));
  DEVRT_ASSIGN_OR_RETURN(const DType dtype, ReadTypestr(cai));
  if (cai.has_mask) {
    return BufferError("CUDA Array Interface: masked arrays are not known");
  }
  DEVRT_ASSIGN_OR_RETURN(Geometry g, ReadGeometry(cai, dtype));
  const bool empty = internal::CountElements(cai.shape) == 0;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): that is the protocol
  auto* const first = empty ? nullptr : reinterpret_cast<char*>(cai.data);
  DEVRT_ASSIGN_OR_RETURN(
      const Place place,
      empty ? CurrentCudaPlace() : internal::PlaceOfPointer(first, g.span));
  DEVRT_RETURN_IF_ERROR(CheckMayCopy(place, options));
  Storage::Borrowed borrowed;
  DEVRT_RETURN_IF_ERROR(
      SetOwner(cai, place, std::move(owner), options.sync, &borrowed));
  const bool ordered = cai.stream.has_value() && borrowed.joined;
  if (!empty) {
    borrowed.base = first + g.span.lo;
    borrowed.bytes = static_cast<uint64_t>(g.span.hi - g.span.lo);
  }
  const Array array(Storage::Borrow(place, std::move(borrowed)), first,
                    cai.shape, std::move(g.strides), dtype, cai.read_only);
  if (ordered) {
    DEVRT_RETURN_IF_ERROR(
        array.OrderBefore(internal::CurrentStreamOf(place), site));
  }
  if (IsElsewhere(options.place, place)) {
    return array.To(*options.place, false, site);
  }
  return options.copy.value_or(false) ? array.Copy(site)
                                      : absl::StatusOr<Array>(array);
}

}  // namespace devrt
