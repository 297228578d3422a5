// SPDX-License-Identifier: Apache-2.0
//
// The kernels of devrt.reduce/0 for results whose elements are adjacent in
// memory, as functions of a block's number.  Lanes load packs of 16 aligned
// bytes, wherever the elements begin: those before the first whole pack and
// behind the last are loaded one by one.  Parts are as in reduce_kernel.h.
//
// Each operation has a kernel of its own, since one kernel for all would need
// the registers of the greediest.

#ifndef DEVRT_BACKENDS_GPU_ADJACENT_KERNEL_H_
#define DEVRT_BACKENDS_GPU_ADJACENT_KERNEL_H_

#include "backends/gpu/reduce_kernel.h"

namespace devrt::gpu {

template <typename T>
inline constexpr int kAdjacentPack = 16 / static_cast<int>(sizeof(T));
// A pack as it is loaded.  As items the compiler would keep each byte in a
// register of its own.
using PackWords = Pack<uint32_t, 4>;

template <typename T, typename Folding>
DEVRT_HOST_DEVICE typename Folding::Few FoldWords(const Folding& folding,
                                                  const PackWords& words) {
  Pack<T, kAdjacentPack<T>> pack;
  CopyBytes(&pack, &words, sizeof pack);
  return FoldPack(folding, pack);
}

// Where the elements of a result begin in the input, operand 0, or the result
// in the output, operand 1.  Results are fewer than 2^31.
DEVRT_HOST_DEVICE inline int64_t KeptOffset(const ReduceArgs& args,
                                            uint32_t result, int operand) {
  int64_t offset = 0;
  const uint32_t last = args.kept.axes - 1;
  DEVRT_NOT_UNROLLED
  for (uint32_t k = 0; k < last; ++k) {
    const auto extent = static_cast<uint32_t>(args.kept.extents[k]);
    const uint32_t rest = result / extent;
    offset += static_cast<int64_t>(result - rest * extent) *
              args.kept.strides[k][operand];
    result = rest;
  }
  return offset +
         static_cast<int64_t>(result) * args.kept.strides[last][operand];
}
DEVRT_HOST_DEVICE inline const char* KeptAt(const ReduceArgs& args,
                                            uint32_t result) {
  return static_cast<const char*>(args.in.data) + KeptOffset(args, result, 0);
}

// The whole packs within adjacent elements, and the elements outside of them.
template <typename T>
struct Adjacent {
  const char* packs;
  uint32_t count;       // of the packs
  uint32_t head, tail;  // elements before and behind the packs

  // Fewer than kDivisibleEnd packs.
  DEVRT_HOST_DEVICE Adjacent(const char* from, uint64_t elements) {
    const auto above = static_cast<uint32_t>(
        -reinterpret_cast<uintptr_t>(from) % 16 / sizeof(T));
    head = elements < above ? static_cast<uint32_t>(elements) : above;
    packs = from + head * sizeof(T);
    count = static_cast<uint32_t>((elements - head) / kAdjacentPack<T>);
    tail = static_cast<uint32_t>((elements - head) % kAdjacentPack<T>);
  }
  DEVRT_HOST_DEVICE PackWords Load(uint32_t i) const {
    return *reinterpret_cast<const PackWords*>(packs + uint64_t{i} * 16);
  }
  // The elements outside of packs, by number.
  DEVRT_HOST_DEVICE uint32_t OutsideCount() const { return head + tail; }
  DEVRT_HOST_DEVICE T Outside(uint32_t i) const {
    const char* const at =
        i < head ? packs - (head - i) * sizeof(T)
                 : packs + uint64_t{count} * 16 + (i - head) * sizeof(T);
    return *reinterpret_cast<const T*>(at);
  }
};

// Folds every `lanes`-th element outside of packs, from number `first` on.
template <typename T, typename Folding>
DEVRT_HOST_DEVICE typename Folding::Few FoldOutside(const Folding& folding,
                                                    const Adjacent<T>& all,
                                                    uint32_t first,
                                                    uint32_t lanes) {
  auto few = folding.Nothing();
  DEVRT_NOT_UNROLLED
  for (uint32_t i = first; i < all.OutsideCount(); i += lanes) {
    few = Folding::Operation::Apply(few, folding.ValueOf(all.Outside(i)));
  }
  return few;
}

template <typename T>
DEVRT_HOST_DEVICE DEVRT_NOINLINE void StoreAdjacent(const ReduceArgs& args,
                                                    uint32_t result,
                                                    PartialType<T> value) {
  StoreResultAt<T>(args, KeptOffset(args, result, 1), value);
}

// ---- One thread's elements --------------------------------------------------

// The packs that a lane loads at once, and the blocks that shall fit a
// multiprocessor.  Integers, whose sums are wider, have no registers for more.
template <typename T, typename Op>
inline constexpr int kAdjacentLoads =
    std::is_floating_point_v<PartialType<T>> && !std::is_same_v<Op, BitOr> ? 8
                                                                           : 4;
template <typename T, typename Op>
inline constexpr int kAdjacentBlocks = kAdjacentLoads<T, Op> == 8 ? 3 : 4;

// Reduces every `lanes`-th pack, kLoads of them at once.
template <typename T, int kLoads, typename Folding>
DEVRT_HOST_DEVICE typename Folding::Many ReduceAdjacent(const Folding& folding,
                                                        const Adjacent<T>& all,
                                                        uint32_t lane,
                                                        uint32_t lanes) {
  using Few = typename Folding::Few;
  using Many = typename Folding::Many;
  using Operation = typename Folding::Operation;
  PackLevels<Many, 1> total(folding.NothingOfMany());
  DEVRT_NOT_UNROLLED
  for (uint32_t at = lane; at < all.count; at += lanes * kLoads) {
    // Instead of a pack beyond the end the first is loaded and ignored, so that
    // no load waits for a comparison.
    PackWords packs[kLoads];
    for (uint32_t i = 0; i < kLoads; ++i) {
      const uint32_t next = at + i * lanes;
      packs[i] = all.Load(next < all.count ? next : at);
    }
    Few folded[kLoads];
    for (uint32_t i = 0; i < kLoads; ++i) {
      folded[i] = FoldWords<T>(folding, packs[i]);
      if (at + i * lanes >= all.count) folded[i] = folding.Nothing();
    }
    const auto many = FromFold<Many>(Fold<kLoads, Operation>(folded));
    total.template Push<Operation>(&many);
  }
  if (all.OutsideCount() != 0) {
    const auto many = FromFold<Many>(FoldOutside<T>(folding, all, lane, lanes));
    total.template Push<Operation>(&many);
  }
  return *total.template Finish<Operation>();
}

// ---- One block --------------------------------------------------------------

inline constexpr uint32_t kWarp = 32;

template <typename T, typename Op>
struct AdjacentShared {
  using Many = typename Folding<T, Op>::Many;
  Many warps[kThreads / kWarp];
  Many part;  // where one block takes all parts of a result
  uint32_t is_last;
};

#if DEVRT_ON_DEVICE
// Combines the values of `width` * 2 lanes, which are in one warp.
template <typename Operation, typename P>
__device__ P CombineInWarp(uint32_t width, P value) {
  for (; width > 0; width /= 2) {
    value = Operation::Apply(value, ShuffleDown(value, width));
  }
  return value;
}
#endif

// Combines the values of each result into its first lane: those of each warp,
// then those of the warps.
template <typename Operation, typename P>
DEVRT_HOST_DEVICE void CombineAdjacent(uint32_t lanes, const Block& block,
                                       P* warps, PerThread<P>* values) {
  const uint32_t of_warp = lanes < kWarp ? lanes : kWarp;
#if DEVRT_ON_DEVICE
  (void)block;
  P value = CombineInWarp<Operation>(of_warp / 2, values->value);
  if (lanes > kWarp) {
    const uint32_t thread = threadIdx.x, count = lanes / kWarp;
    if (thread % kWarp == 0) warps[thread / kWarp] = value;
    __syncthreads();
    const uint32_t mine = thread / lanes * count + thread % lanes;
    value = warps[mine < kThreads / kWarp ? mine : 0];
    value = CombineInWarp<Operation>(count / 2, value);
  }
  values->value = value;
#else
  (void)block;
  (void)warps;
  const auto combine = [&](uint32_t width, uint32_t gap) {
    for (; width > 0; width /= 2) {
      for (uint32_t i = 0; i < kThreads; ++i) {
        if (i % gap != 0 || i % lanes % (gap * width * 2) >= gap * width) {
          continue;
        }
        (*values)[i] =
            Operation::Apply((*values)[i], (*values)[i + width * gap]);
      }
    }
  };
  combine(of_warp / 2, 1);
  combine(lanes / kWarp / 2, kWarp);
#endif
}

// Loads the parts of a result that a thread combines.
template <typename Folding>
DEVRT_HOST_DEVICE typename Folding::Many LoadParts(
    const Folding& folding, const typename Folding::Many* from, uint32_t count,
    uint32_t thread) {
  using Many = typename Folding::Many;
  constexpr uint32_t kAtOnce = 4;
  Many value = folding.NothingOfMany();
  DEVRT_NOT_UNROLLED
  for (uint32_t i = thread; i < count; i += kThreads * kAtOnce) {
    Many some[kAtOnce];
    DEVRT_UNROLLED
    for (uint32_t k = 0; k < kAtOnce; ++k) {
      const uint32_t part = i + k * kThreads;
      some[k] = LoadFresh(&from[part < count ? part : i]);
    }
    DEVRT_UNROLLED
    for (uint32_t k = 0; k < kAtOnce; ++k) {
      if (i + k * kThreads >= count) continue;
      value = Folding::Operation::Apply(value, some[k]);
    }
  }
  return value;
}

// Puts a part of result `first` into the slot.  Returns true if it is the last
// of the result's parts to come.
template <typename Many>
DEVRT_HOST_DEVICE bool IsLastPart(const ReduceArgs& args, const Block& block,
                                  Slot* slot, uint32_t first, uint32_t part,
                                  Many* parts, PerThread<Many>* values,
                                  uint32_t* is_last) {
  block.Together([&](uint32_t thread) {
    if (thread != 0) return;
    parts[part] = (*values)[0];
    Fence();
    uint32_t* const done = &slot->group_done[first];
    *is_last = AtomicAdd(done, 1) + 1 == args.parts ? 1 : 0;
    if (*is_last != 0) *done = 0;
    Fence();
  });
  return *is_last != 0;
}

// Frees the slot behind the last result in parts.
DEVRT_HOST_DEVICE inline void FreeSlot(const ReduceArgs& args, Slot* slot) {
  const auto results = static_cast<uint32_t>(args.kept.elements);
  // What this block has read is read before another call has the slot.
  Fence();
  if (results > 1) {
    if (AtomicAdd(&slot->done, 1) + 1 != results) return;
    slot->done = 0;
    Fence();
  }
  if (args.lease == 0) (void)AtomicExchange(&slot->owner, 0);
}

// devrt_adjacent_<operation>_<dtype>
template <typename T, typename Op, int kLoads = kAdjacentLoads<T, Op>>
DEVRT_HOST_DEVICE void AdjacentBlock(const ReduceArgs& args, const Block& block,
                                     Slot* slots,
                                     AdjacentShared<T, Op>* shared) {
  using Fold = Folding<T, Op>;
  using Many = typename Fold::Many;
  const Fold folding(args.op);
  const uint32_t lanes = args.lanes;
  const uint32_t mine = block.index % args.parts;
  const uint32_t first = block.index / args.parts * (kThreads / lanes);
  Slot* const slot = args.lease != 0 ? &slots[kSlots + args.lease - 1]
                                     : &slots[args.ticket % kSlots];
  const bool has_slot =
      args.parts > 1 &&
      (args.lease != 0 || LoadFresh(&slot->owner) == args.ticket);
  // The second are for a block that takes all parts of a result.
  PerThread<Many> values, sums;
  const auto store = [&](uint32_t thread) {
    const uint32_t result = first + thread / lanes;
    if (thread % lanes != 0 || result >= args.kept.elements) return;
    StoreAdjacent<T>(args, result, folding.Result(values[thread]));
  };
  for (uint32_t part = mine; part < args.parts; ++part) {
    const uint64_t begin = part * args.part_elements;
    const uint64_t rest = args.reduced.elements - begin;
    const uint64_t count =
        rest < args.part_elements ? rest : args.part_elements;
    block.ForEachThread([&](uint32_t thread) {
      const uint32_t result = first + thread / lanes;
      values[thread] = folding.NothingOfMany();
      if (result >= args.kept.elements) return;
      const char* const base = KeptAt(args, result) + begin * sizeof(T);
      values[thread] = ReduceAdjacent<T, kLoads>(
          folding, Adjacent<T>(base, count), thread % lanes, lanes);
    });
    CombineAdjacent<Op>(lanes, block, shared->warps, &values);
    if (args.parts == 1) return block.ForEachThread(store);
    if (has_slot) break;
    // Another call has the slot: the first block takes all parts.
    if (mine != 0) return;
    block.Together([&](uint32_t thread) {
      if (thread == 0) shared->part = values[0];
    });
    block.Together([&](uint32_t thread) {
      Many& sum = sums[thread];
      if (part == 0) sum = folding.NothingOfMany();
      if (part % kThreads == thread) sum = Op::Apply(sum, shared->part);
    });
  }
  if (has_slot) {
    Many* const parts =
        reinterpret_cast<Many*>(slot->partials) + first * args.parts;
    if (!IsLastPart(args, block, slot, first, mine, parts, &values,
                    &shared->is_last)) {
      return;
    }
    block.ForEachThread([&](uint32_t thread) {
      values[thread] = LoadParts(folding, parts, args.parts, thread);
    });
  } else {
    block.ForEachThread(
        [&](uint32_t thread) { values[thread] = sums[thread]; });
  }
  CombineAdjacent<Op>(kThreads, block, shared->warps, &values);
  block.ForEachThread([&](uint32_t thread) {
    store(thread);
    // All threads have loaded their parts.
    if (has_slot && thread == kWarp) FreeSlot(args, slot);
  });
}

// ---- Short results ----------------------------------------------------------

// True if a lane loads one element outside of packs of each result together
// with the packs.  A result of few elements has more of them than lanes: the
// others are loaded behind the packs, as all are of dtypes that have no
// registers for this.
template <typename T>
inline constexpr bool kOutsideAtOnce =
    std::is_same_v<T, float> || std::is_same_v<T, double>;

// Folds a lane's share of kShortRows results into values[]: of result `first`
// and every `apart`-th behind it.  A share is one pack at most, and elements
// outside of packs.  All packs are loaded before the first is used.
template <typename T, typename Folding>
DEVRT_HOST_DEVICE void FoldShort(const ReduceArgs& args, const Folding& folding,
                                 uint32_t first, uint32_t apart, uint32_t lane,
                                 typename Folding::Few* values) {
  const auto last = static_cast<uint32_t>(args.kept.elements - 1);
  // Behind the last result comes the last again.
  const auto row = [&](uint32_t r) {
    const uint32_t result = first + r * apart;
    return Adjacent<T>(KeptAt(args, result < last ? result : last),
                       args.reduced.elements);
  };
  PackWords packs[kShortRows] = {};
  T outside[kShortRows] = {};
  uint32_t taken = 0, taken_outside = 0, most = 0;
  for (uint32_t r = 0; r < kShortRows; ++r) {
    const Adjacent<T> all = row(r);
    if (lane < all.count) {
      packs[r] = all.Load(lane);
      taken |= 1u << r;
    }
    if (kOutsideAtOnce<T> && lane < all.OutsideCount()) {
      outside[r] = all.Outside(lane);
      taken_outside |= 1u << r;
    }
    most = most < all.OutsideCount() ? all.OutsideCount() : most;
  }
  for (uint32_t r = 0; r < kShortRows; ++r) {
    values[r] = (taken >> r & 1) != 0 ? FoldWords<T>(folding, packs[r])
                                      : folding.Nothing();
    if (kOutsideAtOnce<T> && (taken_outside >> r & 1) != 0) {
      values[r] =
          Folding::Operation::Apply(values[r], folding.ValueOf(outside[r]));
    }
  }
  const uint32_t done = kOutsideAtOnce<T> ? args.lanes : 0;
  if (most <= done) return;
  DEVRT_NOT_UNROLLED
  for (uint32_t r = 0; r < kShortRows; ++r) {
    const auto few = FoldOutside<T>(folding, row(r), lane + done, args.lanes);
    DEVRT_UNROLLED
    for (uint32_t k = 0; k < kShortRows; ++k) {
      if (k == r) values[k] = Folding::Operation::Apply(values[k], few);
    }
  }
}

// devrt_short_<operation>_<dtype>: each `lanes` threads of a block take
// kShortRows results.  Only the host needs the shared memory.
template <typename T, typename Op>
DEVRT_HOST_DEVICE void ShortBlock(
    const ReduceArgs& args, const Block& block,
    [[maybe_unused]] PerThread<typename Folding<T, Op>::Few>* shared) {
  using Fold = Folding<T, Op>;
  using Few = typename Fold::Few;
  using Many = typename Fold::Many;
  const Fold folding(args.op);
  const uint32_t lanes = args.lanes, apart = kThreads / lanes;
  const uint32_t first = block.index * apart * kShortRows;
  const auto store = [&](uint32_t thread, uint32_t r, Few value) {
    const uint32_t result = first + r * apart + thread / lanes;
    if (result >= args.kept.elements) return;
    StoreAdjacent<T>(args, result, folding.Result(FromFold<Many>(value)));
  };
  block.ForEachThread([&](uint32_t thread) {
    Few values[kShortRows];
    const uint32_t lane = thread % lanes;
    FoldShort<T>(args, folding, first + thread / lanes, apart, lane, values);
#if DEVRT_ON_DEVICE
    for (uint32_t width = lanes / 2; width > 0; width /= 2) {
      DEVRT_UNROLLED
      for (Few& value : values) {
        value = Op::Apply(value, ShuffleXor(value, width));
      }
    }
    // All lanes have all results now, and share the stores.
    DEVRT_NOT_UNROLLED
    for (uint32_t r = lane; r < kShortRows; r += lanes) {
      Few mine = values[0];
      DEVRT_UNROLLED
      for (uint32_t k = 1; k < kShortRows; ++k) {
        if (k == r) mine = values[k];
      }
      store(thread, r, mine);
    }
#else
    for (uint32_t r = 0; r < kShortRows; ++r) shared[r][thread] = values[r];
#endif
  });
#if !DEVRT_ON_DEVICE
  for (uint32_t r = 0; r < kShortRows; ++r) {
    CombineAdjacent<Op>(lanes, block, static_cast<Few*>(nullptr), &shared[r]);
    block.ForEachThread([&](uint32_t thread) {
      if (thread % lanes == 0) store(thread, r, shared[r][thread]);
    });
  }
#endif
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_ADJACENT_KERNEL_H_
