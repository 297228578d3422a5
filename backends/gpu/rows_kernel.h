// SPDX-License-Identifier: Apache-2.0
//
// The elementwise kernels for aligned tensors of fewer than 2^31 packs and few
// axes, as functions of a block's number.
//
// Every thread takes 16 bytes of the widest operand at once, if each operand
// has those elements together or repeats one element.  Otherwise threads take
// single elements, and neighbouring threads take neighbouring ones.

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

// ---- Units of operands ------------------------------------------------------

template <typename T, int kCount>
DEVRT_HOST_DEVICE Pack<T, kCount> LoadPack(const RowsArgs& args, int operand,
                                           uint32_t unit) {
  const char* const from = static_cast<const char*>(args.data[operand]) +
                           args.OffsetOf(unit, operand);
  if ((args.is_same >> operand & 1) == 0) {
    return *reinterpret_cast<const Pack<T, kCount>*>(from);
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
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
}

// Loads the element of operand k at `offset`.
template <typename T>
DEVRT_HOST_DEVICE T LoadAt(const RowsArgs& args, int operand, int64_t offset) {
  return *reinterpret_cast<const T*>(
      static_cast<const char*>(args.data[operand]) + offset);
}

// The number of single elements that a thread takes where it cannot take a pack
// of `pack` elements.
constexpr int SpreadCount(int pack) { return pack < 4 ? pack : 4; }

template <int kCount>
using Cursor = RowsCursor<kCount, kThreads>;

// The units of one thread: a pack, or a few elements, in arrays with room for a
// pack.
template <int kCount>
struct RowUnits {
  static constexpr int kSpread = SpreadCount(kCount);
  uint32_t first;            // the first unit; others are kThreads apart
  int64_t to[kSpread] = {};  // the outputs of these

  DEVRT_HOST_DEVICE RowUnits(const RowsArgs& args, uint32_t tile,
                             uint32_t thread)
      : first(tile * kThreads *
                  (args.is_packed != 0 ? 1u : static_cast<uint32_t>(kSpread)) +
              thread) {}

  // Loads all inputs of the operation.
  template <typename... Ts>
  DEVRT_HOST_DEVICE void Load(const RowsArgs& args, Ts*... values) {
    int operand = 0;
    if (args.is_packed != 0) {
      (LoadItems(args, ++operand, values), ...);
      return;
    }
    Cursor<1 + sizeof...(Ts)> at(args, first);
    for (int i = 0; i < kSpread; ++i, at.Advance(args)) {
      if (at.unit >= args.units) break;
      to[i] = at.offsets[0];
      operand = 0;
      ((++operand, values[i] = LoadAt<Ts>(args, operand, at.offsets[operand])),
       ...);
    }
  }

  template <typename T>
  DEVRT_HOST_DEVICE void Store(const RowsArgs& args, const T* values) const {
    if (args.is_packed != 0) {
      Pack<T, kCount> pack;
      for (int i = 0; i < kCount; ++i) pack.items[i] = values[i];
      return StorePack(args, first, pack);
    }
    for (int i = 0; i < kSpread; ++i) {
      if (first + static_cast<uint32_t>(i) * kThreads >= args.units) return;
      *reinterpret_cast<T*>(static_cast<char*>(args.data[0]) + to[i]) =
          values[i];
    }
  }

 private:
  template <typename T>
  DEVRT_HOST_DEVICE void LoadItems(const RowsArgs& args, int operand,
                                   T* values) const {
    const auto pack = LoadPack<T, kCount>(args, operand, first);
    for (int i = 0; i < kCount; ++i) values[i] = pack.items[i];
  }
};

// ---- devrt_rows_<dtype> -----------------------------------------------------

// The number of elements in a pack, for elements of `item` bytes.
constexpr int RowsPack(size_t item) { return static_cast<int>(16 / item); }

// The number of packs, or elements, that a thread copies without changing bits.
inline constexpr int kCopied = 4;

template <typename T>
DEVRT_HOST_DEVICE void CopyThread(const RowsArgs& args, uint32_t tile,
                                  uint32_t thread) {
  const uint32_t first = tile * kThreads * kCopied + thread;
  if (args.is_packed != 0) {
    constexpr int kCount = RowsPack(sizeof(T));
    Pack<T, kCount> packs[kCopied];
    for (int i = 0; i < kCopied; ++i) {
      const uint32_t unit = first + static_cast<uint32_t>(i) * kThreads;
      if (unit < args.units) packs[i] = LoadPack<T, kCount>(args, 1, unit);
    }
    for (int i = 0; i < kCopied; ++i) {
      const uint32_t unit = first + static_cast<uint32_t>(i) * kThreads;
      if (unit < args.units) StorePack(args, unit, packs[i]);
    }
    return;
  }
  T values[kCopied] = {};
  int64_t to[kCopied] = {};
  Cursor<2> at(args, first);
  for (int i = 0; i < kCopied; ++i, at.Advance(args)) {
    if (at.unit >= args.units) break;
    to[i] = at.offsets[0];
    values[i] = LoadAt<T>(args, 1, at.offsets[1]);
  }
  for (int i = 0; i < kCopied; ++i) {
    if (first + static_cast<uint32_t>(i) * kThreads >= args.units) return;
    *reinterpret_cast<T*>(static_cast<char*>(args.data[0]) + to[i]) = values[i];
  }
}

template <typename T>
DEVRT_HOST_DEVICE void RowsThread(const RowsArgs& args, uint32_t tile,
                                  uint32_t thread) {
  constexpr int kCount = RowsPack(sizeof(T));
  if constexpr (kIsRaw<T>) {
    if (args.op == DEVRT_OP_COPY) return CopyThread<T>(args, tile, thread);
  }
  RowUnits<kCount> units(args, tile, thread);
  if (units.first >= args.units) return;
  ThreadApply<T, kCount> work;
  if constexpr (kIsRaw<T>) {
    if (args.op == DEVRT_OP_WHERE) {
      tensor::Bool condition[kCount] = {};
      units.Load(args, condition, work.a, work.b);
      work.Select(condition);
      return units.Store(args, work.result);
    }
  }
  if (args.op >= DEVRT_OP_ADD) {
    units.Load(args, work.a, work.b);
  } else {
    units.Load(args, work.a);
  }
  if constexpr (tensor::kIsComplex<T>) {
    if (args.op == DEVRT_OP_ABS) {
      decltype(T::re) lengths[kCount];
      work.Lengths(lengths);
      return units.Store(args, lengths);
    }
  }
  work.Compute(args.op);
  if (args.out_dtype == DEVRT_BOOL) {
    units.Store(args, work.truth);
  } else {
    units.Store(args, work.result);
  }
}

template <typename T>
DEVRT_HOST_DEVICE void RowsBlock(const RowsArgs& args, const Block& block) {
  block.ForEachThread(
      [&](uint32_t thread) { RowsThread<T>(args, block.index, thread); });
}

// ---- devrt_bytes ------------------------------------------------------------

// The number of packs of 16 bytes that a thread takes.
inline constexpr int kBytePacks = 2;

// Adds or subtracts integers of 1 or 2 bytes in packs of which none repeats one
// element.
template <int kPacks = kBytePacks>
DEVRT_HOST_DEVICE void BytesThread(const RowsArgs& args, uint32_t tile,
                                   uint32_t thread) {
  const uint32_t first = tile * kThreads * kPacks + thread;
  const uint32_t bits = UpperBits((args.out_dtype & 0xff) / 8);
  Pack<uint32_t, 4> a[kPacks], b[kPacks];
  for (int i = 0; i < kPacks; ++i) {
    const uint32_t unit = first + static_cast<uint32_t>(i) * kThreads;
    if (unit >= args.units) break;
    a[i] = LoadPack<uint32_t, 4>(args, 1, unit);
    b[i] = LoadPack<uint32_t, 4>(args, 2, unit);
  }
  for (int i = 0; i < kPacks; ++i) {
    const uint32_t unit = first + static_cast<uint32_t>(i) * kThreads;
    if (unit >= args.units) return;
    for (int j = 0; j < 4; ++j) {
      a[i].items[j] =
          AddParts(a[i].items[j], b[i].items[j], bits, args.op == DEVRT_OP_SUB);
    }
    StorePack(args, unit, a[i]);
  }
}

// ---- devrt_cast_<dtype> -----------------------------------------------------

// For a cast between elements of those sizes: the pack, and the number of packs
// that a thread takes at once.
constexpr int CastPack(size_t from, size_t to) {
  return static_cast<int>(16 / (from > to ? from : to));
}
constexpr int CastPacks(int pack) { return pack > 4 ? 1 : pack > 2 ? 2 : 4; }
// The number of elements that a thread casts at once without packs.
inline constexpr int kCastSpread = 2;

template <typename To, typename From>
DEVRT_HOST_DEVICE To CastOne(From element) {
  const auto value = tensor::Widen(element);
  using Value = std::remove_const_t<decltype(value)>;
  // An integer that float cannot hold is rounded to a narrow float once:
  // rounding to float first would round twice.
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
    if (unit < args.units) {
      Pack<To, kCount> to;
      for (int j = 0; j < kCount; ++j) {
        to.items[j] = CastOne<To>(from[i].items[j]);
      }
      StorePack(args, unit, to);
    }
  }
}

template <typename From, typename To>
DEVRT_HOST_DEVICE void CastSpread(const RowsArgs& args, uint32_t first) {
  From from[kCastSpread] = {};
  int64_t to[kCastSpread] = {};
  Cursor<2> at(args, first);
  for (int i = 0; i < kCastSpread; ++i, at.Advance(args)) {
    if (at.unit >= args.units) break;
    to[i] = at.offsets[0];
    from[i] = LoadAt<From>(args, 1, at.offsets[1]);
  }
  for (int i = 0; i < kCastSpread; ++i) {
    if (first + static_cast<uint32_t>(i) * kThreads >= args.units) return;
    *reinterpret_cast<To*>(static_cast<char*>(args.data[0]) + to[i]) =
        CastOne<To>(from[i]);
  }
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

// Returns true if the cast has code of its own.  Casts of integers that only
// keep or extend bits share code (CastOf in fast_paths.cc).
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
