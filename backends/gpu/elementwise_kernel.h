// SPDX-License-Identifier: Apache-2.0
//
// The kernels of devrt.elementwise/0, as functions of a thread's number.

#ifndef DEVRT_BACKENDS_GPU_ELEMENTWISE_KERNEL_H_
#define DEVRT_BACKENDS_GPU_ELEMENTWISE_KERNEL_H_

#include <type_traits>

#include "backends/gpu/apply.h"
#include "backends/gpu/device_code.h"
#include "backends/gpu/elements.h"
#include "backends/gpu/tensor_args.h"
#include "backends/tensor/cast.h"
#include "backends/tensor/dtype.h"

namespace devrt::gpu {

// ---- Where a thread finds its elements --------------------------------------

template <typename T>
inline constexpr int kPack = PackCount(sizeof(T));

// The elements of one thread: adjacent ones for packs, else neighbouring
// threads take neighbouring elements.
template <int kCount>
struct Places {
  uint64_t first;
  uint32_t step;
  int count;       // the number that exist
  bool is_packed;  // and all of them are packs

  DEVRT_HOST_DEVICE Places(const ApplyArgs& args, uint64_t tile,
                           uint32_t thread) {
    const bool packed = args.is_packed != 0;
    first = tile * kThreads * kCount + (packed ? thread * kCount : thread);
    step = packed ? 1 : kThreads;
    count = 0;
    for (int i = 0; i < kCount; ++i) {
      if (first + static_cast<uint64_t>(i) * step < args.walk.elements) ++count;
    }
    is_packed = packed && count == kCount;
  }
  DEVRT_HOST_DEVICE int64_t OffsetOf(const ApplyArgs& args, int i,
                                     int operand) const {
    return args.walk.OffsetOf(first + static_cast<uint64_t>(i) * step, operand);
  }
};

// One function for all types of a size, since the loads are most of the code.
template <typename Raw, int kCount>
DEVRT_HOST_DEVICE DEVRT_NOINLINE Pack<Raw, kCount> Gather(const ApplyArgs& args,
                                                          Places<kCount> places,
                                                          int operand) {
  const auto* const data =
      static_cast<const char*>(args.operands[operand].data);
  const bool is_aligned = args.operands[operand].is_aligned != 0;
  Pack<Raw, kCount> pack = {};
  for (int i = 0; i < kCount; ++i) {
    if (i < places.count) {
      pack.items[i] = LoadElement<Raw>(data + places.OffsetOf(args, i, operand),
                                       is_aligned);
    }
  }
  return pack;
}

template <typename Raw, int kCount>
DEVRT_HOST_DEVICE DEVRT_NOINLINE void Scatter(const ApplyArgs& args,
                                              Places<kCount> places,
                                              Pack<Raw, kCount> pack) {
  auto* const data = static_cast<char*>(args.operands[0].data);
  const bool is_aligned = args.operands[0].is_aligned != 0;
  for (int i = 0; i < kCount; ++i) {
    if (i < places.count) {
      StoreElement<Raw>(data + places.OffsetOf(args, i, 0), pack.items[i],
                        is_aligned);
    }
  }
}

template <typename T, int kCount>
DEVRT_HOST_DEVICE void LoadPlaces(const ApplyArgs& args,
                                  const Places<kCount>& places, int operand,
                                  T* values) {
  Pack<T, kCount> pack;
  if (places.is_packed && args.walk.strides[0][operand] != 0) {
    const auto* const data =
        static_cast<const char*>(args.operands[operand].data);
    pack = *reinterpret_cast<const Pack<T, kCount>*>(data +
                                                     places.first * sizeof(T));
  } else {
    const auto raw = Gather<RawType<T>, kCount>(args, places, operand);
    CopyBytes(&pack, &raw, sizeof pack);
  }
  for (int i = 0; i < kCount; ++i) values[i] = pack.items[i];
}

template <typename T, int kCount>
DEVRT_HOST_DEVICE void StorePlaces(const ApplyArgs& args,
                                   const Places<kCount>& places,
                                   const T* values) {
  Pack<T, kCount> pack;
  for (int i = 0; i < kCount; ++i) pack.items[i] = values[i];
  if (places.is_packed) {
    auto* const data = static_cast<char*>(args.operands[0].data);
    *reinterpret_cast<Pack<T, kCount>*>(data + places.first * sizeof(T)) = pack;
    return;
  }
  Pack<RawType<T>, kCount> raw;
  CopyBytes(&raw, &pack, sizeof raw);
  Scatter(args, places, raw);
}

// ---- devrt_apply_<dtype> ----------------------------------------------------

// The elements that a block takes at once.
template <typename T>
inline constexpr uint64_t kTileElements = uint64_t{kThreads} * kPack<T>;

template <typename T>
DEVRT_HOST_DEVICE void ApplyTile(const ApplyArgs& args, uint64_t tile,
                                 uint32_t thread) {
  constexpr int kCount = kPack<T>;
  const Places<kCount> places(args, tile, thread);
  if (places.count == 0) return;
  ThreadApply<T, kCount> work;
  if constexpr (kIsRaw<T>) {
    if (args.op == DEVRT_OP_WHERE) {
      tensor::Bool condition[kCount] = {};
      LoadPlaces(args, places, 1, condition);
      LoadPlaces(args, places, 2, work.a);
      LoadPlaces(args, places, 3, work.b);
      work.Select(condition);
      StorePlaces(args, places, work.result);
      return;
    }
  }
  LoadPlaces(args, places, 1, work.a);
  if constexpr (tensor::kIsComplex<T>) {
    if (args.op == DEVRT_OP_ABS) {
      decltype(T::re) length[kCount] = {};
      work.Lengths(length);
      StorePlaces(args, places, length);
      return;
    }
  }
  if (args.op >= DEVRT_OP_ADD) LoadPlaces(args, places, 2, work.b);
  work.Compute(args.op);
  if (args.operands[0].dtype == DEVRT_BOOL) {
    StorePlaces(args, places, work.truth);
  } else {
    StorePlaces(args, places, work.result);
  }
}

template <typename T>
DEVRT_HOST_DEVICE void ApplyBlock(const ApplyArgs& args, const Block& block) {
  const uint64_t tiles =
      (args.walk.elements + kTileElements<T> - 1) / kTileElements<T>;
  for (uint64_t tile = block.index; tile < tiles; tile += block.count) {
    block.ForEachThread(
        [&](uint32_t thread) { ApplyTile<T>(args, tile, thread); });
  }
}

// ---- devrt_convert ----------------------------------------------------------

// The bits of an element of any dtype.
struct Bits {
  uint64_t low, high;
};

inline constexpr int kConvertCount = 4;  // elements per thread
inline constexpr uint64_t kConvertTile = uint64_t{kThreads} * kConvertCount;

template <typename T>
DEVRT_HOST_DEVICE void LoadBits(const ApplyArgs& args,
                                const Places<kConvertCount>& places,
                                Bits* bits) {
  T values[kConvertCount] = {};
  LoadPlaces(args, places, 1, values);
  for (int i = 0; i < kConvertCount; ++i) {
    CopyBytes(&bits[i], &values[i], sizeof values[i]);
  }
}

// Stores `value`, of the widest type of its kind, as an element of `dtype`.
template <typename From>
DEVRT_HOST_DEVICE void StoreAs(From value, uint32_t dtype, void* to,
                               bool is_aligned) {
  tensor::VisitDtype(dtype, [&](auto tag) {
    using To = typename decltype(tag)::type;
    using Computed = tensor::ComputeType<To>;
    // A value for a narrow float is rounded once: rounding to float first would
    // round twice.
    using Via = std::conditional_t<tensor::kIsNarrowFloat<To> &&
                                       !std::is_same_v<From, float>,
                                   tensor::OddFloat, Computed>;
    StoreElement<To>(
        to, tensor::Narrow<To>(tensor::Cast<Via, From>::Convert(value)),
        is_aligned);
    return true;
  });
}

template <typename T>
DEVRT_HOST_DEVICE tensor::ComputeType<T> Value(const Bits& bits) {
  T value;
  CopyBytes(&value, &bits, sizeof value);
  return tensor::Widen(value);
}

DEVRT_HOST_DEVICE inline void ConvertSigned(const Bits& bits, uint32_t from,
                                            uint32_t to, void* out,
                                            bool is_aligned) {
  int64_t value = Value<int64_t>(bits);
  if (from == DEVRT_INT8) value = Value<int8_t>(bits);
  if (from == DEVRT_INT16) value = Value<int16_t>(bits);
  if (from == DEVRT_INT32) value = Value<int32_t>(bits);
  StoreAs(value, to, out, is_aligned);
}

DEVRT_HOST_DEVICE inline void ConvertFloat(const Bits& bits, uint32_t from,
                                           uint32_t to, void* out,
                                           bool is_aligned) {
  float value = Value<float>(bits);
  if (from == DEVRT_FLOAT16) value = Value<tensor::Float16>(bits);
  if (from == DEVRT_BFLOAT16) value = Value<tensor::Bfloat16>(bits);
  if (from == DEVRT_FLOAT8_E4M3FN) value = Value<tensor::Float8E4m3fn>(bits);
  if (from == DEVRT_FLOAT8_E5M2) value = Value<tensor::Float8E5m2>(bits);
  StoreAs(value, to, out, is_aligned);
}

DEVRT_HOST_DEVICE inline void ConvertElement(const Bits& bits, uint32_t from,
                                             uint32_t to, void* out,
                                             bool is_aligned) {
  switch (from) {
    case DEVRT_INT8:
    case DEVRT_INT16:
    case DEVRT_INT32:
    case DEVRT_INT64:
      return ConvertSigned(bits, from, to, out, is_aligned);
    case DEVRT_BOOL:
    case DEVRT_UINT8:
    case DEVRT_UINT16:
    case DEVRT_UINT32:
    case DEVRT_UINT64: {
      const uint64_t truth = bits.low != 0 ? 1 : 0;
      return StoreAs(from == DEVRT_BOOL ? truth : bits.low, to, out,
                     is_aligned);
    }
    case DEVRT_FLOAT64:
      return StoreAs(Value<double>(bits), to, out, is_aligned);
    case DEVRT_COMPLEX64:
    case DEVRT_COMPLEX128: {
      auto value = Value<tensor::Complex<double>>(bits);
      if (from == DEVRT_COMPLEX64) {
        const auto narrow = Value<tensor::Complex<float>>(bits);
        value = {narrow.re, narrow.im};
      }
      return StoreAs(value, to, out, is_aligned);
    }
    default:
      return ConvertFloat(bits, from, to, out, is_aligned);
  }
}

DEVRT_HOST_DEVICE inline void ConvertTile(const ApplyArgs& args, uint64_t tile,
                                          uint32_t thread) {
  const Places<kConvertCount> places(args, tile, thread);
  if (places.count == 0) return;
  Bits bits[kConvertCount] = {};
  switch (args.operands[1].dtype & 0xff) {
    case 8:
      LoadBits<uint8_t>(args, places, bits);
      break;
    case 16:
      LoadBits<uint16_t>(args, places, bits);
      break;
    case 32:
      LoadBits<uint32_t>(args, places, bits);
      break;
    case 64:
      LoadBits<uint64_t>(args, places, bits);
      break;
    default:
      LoadBits<tensor::Complex<double>>(args, places, bits);
  }
  auto* const out = static_cast<char*>(args.operands[0].data);
  // A loop keeps one copy of the code, with the bits in registers.
#if DEVRT_ON_DEVICE
#pragma unroll 1
#endif
  for (int i = 0; i < places.count; ++i) {
    Bits mine = bits[0];
    for (int j = 1; j < kConvertCount; ++j) mine = i == j ? bits[j] : mine;
    ConvertElement(mine, args.operands[1].dtype, args.operands[0].dtype,
                   out + places.OffsetOf(args, i, 0),
                   args.operands[0].is_aligned != 0);
  }
}

DEVRT_HOST_DEVICE inline void ConvertBlock(const ApplyArgs& args,
                                           const Block& block) {
  const uint64_t tiles = (args.walk.elements + kConvertTile - 1) / kConvertTile;
  for (uint64_t tile = block.index; tile < tiles; tile += block.count) {
    block.ForEachThread(
        [&](uint32_t thread) { ConvertTile(args, tile, thread); });
  }
}

// ---- devrt_fill -------------------------------------------------------------

// Fills those of the 16 bytes at `at` that belong to the contiguous tensor.
DEVRT_HOST_DEVICE inline void FillChunk(const FillArgs& args, char* at) {
  struct alignas(16) Chunk {
    uint8_t bytes[16];
  };
  char* const begin = static_cast<char*>(args.out.data);
  char* const end = begin + args.walk.elements * args.item;
  if (at >= begin && at + sizeof(Chunk) <= end) {
    Chunk chunk;
    CopyBytes(chunk.bytes, args.by_address, sizeof chunk.bytes);
    *reinterpret_cast<Chunk*>(at) = chunk;
    return;
  }
  for (int i = 0; i < 16; ++i) {
    if (at + i >= begin && at + i < end) {
      at[i] = static_cast<char>(args.by_address[i]);
    }
  }
}

template <typename T>
DEVRT_HOST_DEVICE void FillElement(const FillArgs& args, uint64_t index) {
  T value;
  CopyBytes(&value, args.value, sizeof value);
  char* const out = static_cast<char*>(args.out.data);
  StoreElement<T>(out + args.walk.OffsetOf(index, 0), value,
                  args.out.is_aligned != 0);
}

// Returns the number of threads with work: one for 16 bytes, or for an element.
DEVRT_HOST_DEVICE inline uint64_t FillSteps(const FillArgs& args) {
  if (args.is_contiguous == 0) return args.walk.elements;
  const auto begin = reinterpret_cast<uintptr_t>(args.out.data);
  const uintptr_t end = begin + args.walk.elements * args.item;
  return (end + 15) / 16 - begin / 16;
}

DEVRT_HOST_DEVICE inline void FillStep(const FillArgs& args, uint64_t step) {
  if (args.is_contiguous != 0) {
    const auto begin = reinterpret_cast<uintptr_t>(args.out.data);
    return FillChunk(args, reinterpret_cast<char*>((begin / 16 + step) * 16));
  }
  switch (args.item) {
    case 1:
      return FillElement<uint8_t>(args, step);
    case 2:
      return FillElement<uint16_t>(args, step);
    case 4:
      return FillElement<uint32_t>(args, step);
    case 8:
      return FillElement<uint64_t>(args, step);
    default:
      return FillElement<tensor::Complex<double>>(args, step);
  }
}

DEVRT_HOST_DEVICE inline void FillBlock(const FillArgs& args,
                                        const Block& block) {
  const uint64_t steps = FillSteps(args);
  block.ForEachThread([&](uint32_t thread) {
    uint64_t step = uint64_t{block.index} * kThreads + thread;
    for (; step < steps; step += uint64_t{block.count} * kThreads) {
      FillStep(args, step);
    }
  });
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_ELEMENTWISE_KERNEL_H_
