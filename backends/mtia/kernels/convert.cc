// SPDX-License-Identifier: Apache-2.0
//
// A table of all pairs of types would be 13 by 13 loops.  Instead a value goes
// through the widest type of its kind, where nothing is lost, and the pairs
// that programs convert all day have a loop of their own.

#include "backends/mtia/kernels/convert.h"

#include <type_traits>

#include "backends/mtia/kernels/strided.h"
#include "backends/tensor/cast.h"
#include "backends/tensor/dtype.h"

namespace devrt::mtia {
namespace {

using tensor::Cast;
using tensor::ClassOf;
using tensor::Complex;
using tensor::ComputeDtype;
using tensor::ComputeType;
using tensor::DtypeClass;
using tensor::kIsComplex;
using tensor::kIsNarrowFloat;
using tensor::OddFloat;
using tensor::VisitDtype;

template <typename To, typename From>
void ConvertBlock(const std::byte* from, size_t n, std::byte* to) {
  const From* in = reinterpret_cast<const From*>(from);
  using Result = decltype(Cast<To, From>::Convert(From{}));
  Generate<Result>(to, n,
                   [in](size_t i) { return Cast<To, From>::Convert(in[i]); });
}

uint32_t WideDtype(uint32_t dtype) {
  switch (ClassOf(dtype)) {
    case DtypeClass::kSigned:
      return DEVRT_INT64;
    case DtypeClass::kBool:
    case DtypeClass::kUnsigned:
      return DEVRT_UINT64;
    case DtypeClass::kComplex:
      return DEVRT_COMPLEX128;
    default:
      return DEVRT_FLOAT64;
  }
}

// Converts from `dtype` to its wide type; nullptr if it is the wide type.
ConvertFn FindWiden(uint32_t dtype) {
  switch (dtype) {
    case DEVRT_BOOL:
      return ConvertBlock<uint64_t, bool>;
    case DEVRT_INT8:
      return ConvertBlock<int64_t, int8_t>;
    case DEVRT_INT16:
      return ConvertBlock<int64_t, int16_t>;
    case DEVRT_INT32:
      return ConvertBlock<int64_t, int32_t>;
    case DEVRT_UINT8:
      return ConvertBlock<uint64_t, uint8_t>;
    case DEVRT_UINT16:
      return ConvertBlock<uint64_t, uint16_t>;
    case DEVRT_UINT32:
      return ConvertBlock<uint64_t, uint32_t>;
    case DEVRT_FLOAT32:
      return ConvertBlock<double, float>;
    case DEVRT_COMPLEX64:
      return ConvertBlock<Complex<double>, Complex<float>>;
    default:
      return nullptr;
  }
}

// Converts from the wide type `From` for a store as `dtype`.
template <typename From>
ConvertFn FindFromWide(uint32_t dtype) {
  return VisitDtype(dtype, [](auto tag) -> ConvertFn {
    using Stored = typename decltype(tag)::type;
    using To = std::conditional_t<kIsNarrowFloat<Stored>, OddFloat,
                                  ComputeType<Stored>>;
    if constexpr (std::is_same_v<To, From>) {
      return nullptr;
    } else {
      return ConvertBlock<To, From>;
    }
  });
}

ConvertFn FindFromWide(uint32_t wide, uint32_t dtype) {
  switch (wide) {
    case DEVRT_INT64:
      return FindFromWide<int64_t>(dtype);
    case DEVRT_UINT64:
      return FindFromWide<uint64_t>(dtype);
    case DEVRT_FLOAT64:
      return FindFromWide<double>(dtype);
    default:
      return FindFromWide<Complex<double>>(dtype);
  }
}

struct DirectPair {
  uint32_t from;
  uint32_t to;
  ConvertFn convert;
};

constexpr DirectPair kDirect[] = {
    {DEVRT_FLOAT32, DEVRT_INT32, ConvertBlock<int32_t, float>},
    {DEVRT_FLOAT32, DEVRT_INT64, ConvertBlock<int64_t, float>},
    {DEVRT_FLOAT32, DEVRT_UINT8, ConvertBlock<uint8_t, float>},
    {DEVRT_FLOAT32, DEVRT_BOOL, ConvertBlock<bool, float>},
    {DEVRT_INT32, DEVRT_FLOAT32, ConvertBlock<float, int32_t>},
    {DEVRT_INT32, DEVRT_FLOAT64, ConvertBlock<double, int32_t>},
    {DEVRT_UINT8, DEVRT_FLOAT32, ConvertBlock<float, uint8_t>},
    {DEVRT_UINT8, DEVRT_INT32, ConvertBlock<int32_t, uint8_t>},
    {DEVRT_BOOL, DEVRT_FLOAT32, ConvertBlock<float, bool>},
};

}  // namespace

Conversion FindConversion(uint32_t from, uint32_t to) {
  const uint32_t compute = ComputeDtype(from);
  if (compute == ComputeDtype(to)) return {};
  for (const DirectPair& pair : kDirect) {
    if (pair.from == compute && pair.to == to) return {pair.convert, nullptr};
  }
  const uint32_t wide = WideDtype(compute);
  const ConvertFn widen = FindWiden(compute);
  const ConvertFn narrow = FindFromWide(wide, to);
  if (widen == nullptr) return {narrow, nullptr};
  return {widen, narrow};
}

}  // namespace devrt::mtia
