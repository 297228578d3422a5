// SPDX-License-Identifier: Apache-2.0
//
// The elementwise kernels for tensors whose elements are aligned and fewer than
// 2^31 packs of few axes, as functions of a block's number.
//
// Every thread takes 16 bytes of the widest operand at once where all operands
// have them together or are the same all along; else single elements, of which
// neighbours go to neighbouring threads.

#ifndef DEVRT_BACKENDS_GPU_ROWS_KERNEL_H_
#define DEVRT_BACKENDS_GPU_ROWS_KERNEL_H_

#include <type_traits>

#include "backends/gpu/apply.h"
#include "backends/gpu/device_code.h"
#include "backends/gpu/elements.h"
#include "backends/gpu/fast_args.h"
#include "backends/tensor/cast.h"
#include "backends/tensor/dtype.h"

namespace devrt::gpu {

// ---- Units of an operand ----------------------------------------------------

// Elements `first`, `first` + kThreads, ...; one copy for all types of a size.
template <typename Raw, int kCount>
DEVRT_HOST_DEVICE DEVRT_NOINLINE Pack<Raw, kCount> LoadSpread(
    const RowsArgs& args, int operand, uint32_t first) {
  const auto* const data = static_cast<const char*>(args.data[operand]);
  Pack<Raw, kCount> pack = {};
  for (int i = 0; i < kCount; ++i, first += kThreads) {
    if (first < args.units) {
      pack.items[i] =
          *reinterpret_cast<const Raw*>(data + args.OffsetOf(first, operand));
    }
  }
  return pack;
}

template <typename Raw, int kCount>
DEVRT_HOST_DEVICE DEVRT_NOINLINE void StoreSpread(const RowsArgs& args,
                                                  uint32_t first,
                                                  Pack<Raw, kCount> pack) {
  auto* const data = static_cast<char*>(args.data[0]);
  for (int i = 0; i < kCount; ++i, first += kThreads) {
    if (first < args.units) {
      *reinterpret_cast<Raw*>(data + args.OffsetOf(first, 0)) = pack.items[i];
    }
  }
}

template <typename T, int kCount>
DEVRT_HOST_DEVICE Pack<T, kCount> LoadPack(const RowsArgs& args, int operand,
                                           uint32_t unit) {
  const char* const from = static_cast<const char*>(args.data[operand]) +
                           args.OffsetOf(unit, operand);
  if ((args.is_same >> operand & 1) == 0) {
    return LoadOnce(reinterpret_cast<const Pack<T, kCount>*>(from));
  }
  Pack<T, kCount> pack;
  const T element = *reinterpret_cast<const T*>(from);
  for (int i = 0; i < kCount; ++i) pack.items[i] = element;
  return pack;
}

template <typename T, int kCount>
DEVRT_HOST_DEVICE void StorePack(const RowsArgs& args, uint32_t unit,
                                 const Pack<T, kCount>& pack) {
  char* const to = static_cast<char*>(args.data[0]) + args.OffsetOf(unit, 0);
  StoreOnce(reinterpret_cast<Pack<T, kCount>*>(to), pack);
}

// What one thread of a block takes: kPacks times kCount elements.
template <int kCount, int kPacks>
struct RowUnits {
  uint32_t first;  // unit; the next ones are kThreads further

  DEVRT_HOST_DEVICE RowUnits(const RowsArgs& args, uint32_t tile,
                             uint32_t thread)
      : first(tile * kThreads * PerThread(args.is_packed != 0) + thread) {}

  static constexpr uint32_t PerThread(bool is_packed) {
    return static_cast<uint32_t>(is_packed ? kPacks : kPacks * kCount);
  }

  template <typename T>
  DEVRT_HOST_DEVICE void Load(const RowsArgs& args, int operand,
                              T* values) const {
    for (int k = 0; k < kPacks; ++k) {
      Pack<T, kCount> pack = {};
      if (args.is_packed != 0) {
        const uint32_t unit = first + static_cast<uint32_t>(k) * kThreads;
        if (kPacks == 1 || unit < args.units) {
          pack = LoadPack<T, kCount>(args, operand, unit);
        }
      } else {
        const auto raw = LoadSpread<RawType<T>, kCount>(
            args, operand,
            first + static_cast<uint32_t>(k * kCount) * kThreads);
        CopyBytes(&pack, &raw, sizeof pack);
      }
      for (int i = 0; i < kCount; ++i) values[k * kCount + i] = pack.items[i];
    }
  }

  template <typename T>
  DEVRT_HOST_DEVICE void Store(const RowsArgs& args, const T* values) const {
    for (int k = 0; k < kPacks; ++k) {
      Pack<T, kCount> pack;
      for (int i = 0; i < kCount; ++i) pack.items[i] = values[k * kCount + i];
      if (args.is_packed != 0) {
        const uint32_t unit = first + static_cast<uint32_t>(k) * kThreads;
        if (kPacks == 1 || unit < args.units) StorePack(args, unit, pack);
        continue;
      }
      Pack<RawType<T>, kCount> raw;
      CopyBytes(&raw, &pack, sizeof raw);
      StoreSpread(args, first + static_cast<uint32_t>(k * kCount) * kThreads,
                  raw);
    }
  }
};

// ---- devrt_rows_<dtype> -----------------------------------------------------

// Of a kernel for elements of so many bytes.
constexpr int RowsPack(size_t item) { return static_cast<int>(16 / item); }
// So many packs does a thread take.
inline constexpr int kRowsPacks = 1;

template <typename T, int kPacks>
DEVRT_HOST_DEVICE void RowsThread(const RowsArgs& args, uint32_t tile,
                                  uint32_t thread) {
  constexpr int kPack = RowsPack(sizeof(T)), kCount = kPack * kPacks;
  const RowUnits<kPack, kPacks> units(args, tile, thread);
  if (units.first >= args.units) return;
  ThreadApply<T, kCount> work;
  if constexpr (kIsRaw<T>) {
    if (args.op == DEVRT_OP_WHERE) {
      tensor::Bool condition[kCount];
      units.Load(args, 1, condition);
      units.Load(args, 2, work.a);
      units.Load(args, 3, work.b);
      work.Select(condition);
      return units.Store(args, work.result);
    }
  }
  units.Load(args, 1, work.a);
  if constexpr (tensor::kIsComplex<T>) {
    if (args.op == DEVRT_OP_ABS) {
      decltype(T::re) lengths[kCount];
      work.Lengths(lengths);
      return units.Store(args, lengths);
    }
  }
  if (args.op >= DEVRT_OP_ADD) units.Load(args, 2, work.b);
  work.Compute(args.op);
  if (args.out_dtype == DEVRT_BOOL) {
    units.Store(args, work.truth);
  } else {
    units.Store(args, work.result);
  }
}

template <typename T, int kPacks = kRowsPacks>
DEVRT_HOST_DEVICE void RowsBlock(const RowsArgs& args, const Block& block) {
  block.ForEachThread([&](uint32_t thread) {
    RowsThread<T, kPacks>(args, block.index, thread);
  });
}

// ---- devrt_cast_<dtype> -----------------------------------------------------

// Of a cast between elements of so many bytes: a pack, and how many of these a
// thread takes at once.
constexpr int CastPack(size_t from, size_t to) {
  return static_cast<int>(16 / (from > to ? from : to));
}
constexpr int CastPacks(int pack) { return pack > 8 ? 1 : 2; }
// And how many elements, where there are no packs.
inline constexpr int kCastSpread = 4;

template <typename To, typename From>
DEVRT_HOST_DEVICE To CastOne(From element) {
  const auto value = tensor::Widen(element);
  using Value = std::remove_const_t<decltype(value)>;
  // To a narrow float what no float may hold is rounded once, so not by way of
  // the nearest float.
  if constexpr (tensor::kIsNarrowFloat<To> && std::is_integral_v<Value> &&
                sizeof(Value) == 8) {
    return tensor::Narrow<To>(
        tensor::Cast<tensor::OddFloat, Value>::Convert(value));
  } else if constexpr (tensor::kIsNarrowFloat<To> &&
                       (std::is_same_v<Value, double> || sizeof(Value) == 4) &&
                       !std::is_same_v<Value, float>) {
    return tensor::Narrow<To>(tensor::RoundToOdd(static_cast<double>(value)));
  } else {
    using Computed = tensor::ComputeType<To>;
    return tensor::Narrow<To>(tensor::Cast<Computed, Value>::Convert(value));
  }
}

template <typename From, typename To, int kPacks>
DEVRT_HOST_DEVICE void CastPacked(const RowsArgs& args, uint32_t first) {
  constexpr int kCount = CastPack(sizeof(From), sizeof(To));
  Pack<From, kCount> from[kPacks];
  for (int i = 0; i < kPacks; ++i) {
    const uint32_t unit = first + static_cast<uint32_t>(i) * kThreads;
    if (unit < args.units) from[i] = LoadPack<From, kCount>(args, 1, unit);
  }
  for (int i = 0; i < kPacks; ++i) {
    const uint32_t unit = first + static_cast<uint32_t>(i) * kThreads;
    if (unit >= args.units) return;
    Pack<To, kCount> to;
    for (int j = 0; j < kCount; ++j) {
      to.items[j] = CastOne<To>(from[i].items[j]);
    }
    StorePack(args, unit, to);
  }
}

template <typename From, typename To>
DEVRT_HOST_DEVICE void CastSpread(const RowsArgs& args, uint32_t first) {
  const auto raw = LoadSpread<RawType<From>, kCastSpread>(args, 1, first);
  Pack<From, kCastSpread> from;
  CopyBytes(&from, &raw, sizeof from);
  Pack<To, kCastSpread> to;
  for (int i = 0; i < kCastSpread; ++i) {
    to.items[i] = CastOne<To>(from.items[i]);
  }
  Pack<RawType<To>, kCastSpread> raw_to;
  CopyBytes(&raw_to, &to, sizeof raw_to);
  StoreSpread(args, first, raw_to);
}

template <typename From, typename To,
          int kPacks = CastPacks(CastPack(sizeof(From), sizeof(To)))>
DEVRT_HOST_DEVICE void CastThread(const RowsArgs& args, uint32_t tile,
                                  uint32_t thread) {
  if (args.is_packed != 0) {
    return CastPacked<From, To, kPacks>(args,
                                        tile * kThreads * kPacks + thread);
  }
  CastSpread<From, To>(args, tile * kThreads * kCastSpread + thread);
}

template <typename T>
inline constexpr bool kIsInteger = std::is_integral_v<T>;

// Whether the cast has code of its own: of integers that only keep or extend
// bits one of several does it (CastOf in fast_paths.h says which).
template <typename From, typename To>
constexpr bool HasCast() {
  constexpr bool kFromBits = kIsInteger<From>;
  constexpr bool kToBits = kIsInteger<To>;
  if (std::is_same_v<From, To>) return false;
  if (kToBits && (kFromBits || std::is_same_v<From, tensor::Bool>)) {
    if (std::is_signed_v<To>) return false;
    if (!kFromBits) return true;
    if (sizeof(From) == sizeof(To)) return false;
    return sizeof(From) < sizeof(To) || !std::is_signed_v<From>;
  }
  if (kFromBits && std::is_same_v<To, tensor::Bool>) {
    return !std::is_signed_v<From>;
  }
  return true;
}

template <typename From, typename To>
DEVRT_HOST_DEVICE void CastThreads(const RowsArgs& args, const Block& block) {
  if constexpr (HasCast<From, To>()) {
    block.ForEachThread([&](uint32_t thread) {
      CastThread<From, To>(args, block.index, thread);
    });
  }
}

template <typename From>
DEVRT_HOST_DEVICE void CastBlock(const RowsArgs& args, const Block& block) {
  switch (args.out_dtype) {
#define DEVRT_KERNEL_DTYPE(name, dtype, type) \
  case dtype:                                 \
    return CastThreads<From, type>(args, block);
#define DEVRT_REAL_DTYPES_ONLY
#include "backends/gpu/kernel_dtypes.inc"
#undef DEVRT_KERNEL_DTYPE
    default:
      return;
  }
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_ROWS_KERNEL_H_
