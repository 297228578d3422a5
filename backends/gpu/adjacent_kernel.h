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

  // Fewer than 2^32 packs.
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
};

// Folds the lane's share of the elements outside of packs.
template <typename T, typename Folding>
DEVRT_HOST_DEVICE typename Folding::Few FoldOutside(const Folding& folding,
                                                    const Adjacent<T>& all,
                                                    uint32_t lane,
                                                    uint32_t lanes) {
  auto few = folding.Nothing();
  const char* const head = all.packs - all.head * sizeof(T);
  const char* const tail = all.packs + uint64_t{all.count} * 16;
  DEVRT_NOT_UNROLLED
  for (uint32_t i = lane; i < all.head + all.tail; i += lanes) {
    const char* const at =
        i < all.head ? head + i * sizeof(T) : tail + (i - all.head) * sizeof(T);
    few = Folding::Operation::Apply(
        few, folding.ValueOf(*reinterpret_cast<const T*>(at)));
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
  if (all.head + all.tail != 0) {
    const auto many = FromFold<Many>(FoldOutside<T>(folding, all, lane, lanes));
    total.template Push<Operation>(&many);
  }
  return *total.template Finish<Operation>();
}

// ---- One block --------------------------------------------------------------

template <typename T, typename Op>
struct AdjacentShared {
  using Many = typename Folding<T, Op>::Many;
  Many lanes[kThreads];
  Many parts[kThreads];
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

// Combines the values of each result into its first lane.
template <typename Operation, typename P>
DEVRT_HOST_DEVICE void CombineAdjacent(uint32_t lanes, const Block& block,
                                       P* values) {
  uint32_t width = lanes / 2;
  for (; width >= kShuffled; width /= 2) {
    block.Together([&](uint32_t thread) {
      if (thread % lanes >= width) return;
      values[thread] = Operation::Apply(values[thread], values[thread + width]);
    });
  }
#if DEVRT_ON_DEVICE
  block.Together([&](uint32_t thread) {
    const P mine = CombineInWarp<Operation>(width, values[thread]);
    if (thread % lanes == 0) values[thread] = mine;
  });
#endif
}

// One result of which each block takes a part.
template <typename T, typename Folding>
struct AdjacentParts {
  using Many = typename Folding::Many;
  using Operation = typename Folding::Operation;

  // Combines the parts, one of each thread, and stores the result.
  DEVRT_HOST_DEVICE static void Finish(const ReduceArgs& args,
                                       const Folding& folding,
                                       const Block& block, uint32_t result,
                                       Many* parts) {
    CombineAdjacent<Operation>(kThreads, block, parts);
    block.ForEachThread([&](uint32_t thread) {
      if (thread != 0) return;
      StoreAdjacent<T>(args, result, folding.Result(parts[0]));
    });
  }

  // Loads the parts of `result` that the thread combines.
  DEVRT_HOST_DEVICE static Many Load(const ReduceArgs& args,
                                     const Folding& folding, const Many* from,
                                     uint32_t thread) {
    constexpr uint32_t kAtOnce = 8;
    Many value = folding.NothingOfMany();
    for (uint32_t i = thread; i < args.parts; i += kThreads * kAtOnce) {
      Many some[kAtOnce];
      for (uint32_t k = 0; k < kAtOnce; ++k) {
        const uint32_t part = i + k * kThreads;
        some[k] = LoadFresh(&from[part < args.parts ? part : i]);
      }
      for (uint32_t k = 0; k < kAtOnce; ++k) {
        if (i + k * kThreads < args.parts) {
          value = Operation::Apply(value, some[k]);
        }
      }
    }
    return value;
  }
};

// devrt_adjacent_<operation>_<dtype>
template <typename T, typename Op, int kLoads = 4>
DEVRT_HOST_DEVICE void AdjacentBlock(const ReduceArgs& args, const Block& block,
                                     Slot* slots,
                                     AdjacentShared<T, Op>* shared) {
  using Fold = Folding<T, Op>;
  using Many = typename Fold::Many;
  using Parts = AdjacentParts<T, Fold>;
  const Fold folding(args.op);
  const uint32_t lanes = args.lanes;
  const uint32_t mine = block.index % args.parts;
  const uint32_t first = block.index / args.parts * (kThreads / lanes);
  Slot* const slot = &slots[args.ticket % kSlots];
  const bool has_slot =
      args.parts > 1 && LoadFresh(&slot->owner) == args.ticket;
  for (uint32_t part = mine; part < args.parts; ++part) {
    const uint64_t begin = part * args.part_elements;
    const uint64_t rest = args.reduced.elements - begin;
    const uint64_t count =
        rest < args.part_elements ? rest : args.part_elements;
    block.Together([&](uint32_t thread) {
      const uint32_t result = first + thread / lanes;
      if (result >= args.kept.elements) return;
      const char* const base = KeptAt(args, result) + begin * sizeof(T);
      shared->lanes[thread] = ReduceAdjacent<T, kLoads>(
          folding, Adjacent<T>(base, count), thread % lanes, lanes);
    });
    CombineAdjacent<Op>(lanes, block, shared->lanes);
    if (args.parts == 1) break;
    if (!has_slot) {
      if (mine != 0) return;
      block.Together([&](uint32_t thread) {
        Many* const sum = &shared->parts[thread];
        if (part == 0) *sum = folding.NothingOfMany();
        if (part % kThreads != thread) return;
        *sum = Op::Apply(*sum, shared->lanes[0]);
      });
      continue;
    }
    Many* const parts =
        reinterpret_cast<Many*>(slot->partials) + first * args.parts;
    block.Together([&](uint32_t thread) {
      if (thread != 0) return;
      parts[part] = shared->lanes[0];
      Fence();
      shared->is_last =
          AtomicAdd(&slot->group_done[first], 1) + 1 == args.parts ? 1 : 0;
      Fence();
    });
    if (shared->is_last == 0) return;
    block.Together([&](uint32_t thread) {
      shared->parts[thread] = Parts::Load(args, folding, parts, thread);
    });
    Parts::Finish(args, folding, block, first, shared->parts);
    block.ForEachThread([&](uint32_t thread) {
      if (thread != 0) return;
      slot->group_done[first] = 0;
      Fence();
      if (AtomicAdd(&slot->done, 1) + 1 != args.kept.elements) return;
      slot->done = 0;
      Fence();
      (void)AtomicExchange(&slot->owner, 0);
    });
    return;
  }
  if (args.parts > 1) {
    return Parts::Finish(args, folding, block, first, shared->parts);
  }
  block.ForEachThread([&](uint32_t thread) {
    const uint32_t result = first + thread / lanes;
    if (thread % lanes != 0 || result >= args.kept.elements) return;
    StoreAdjacent<T>(args, result, folding.Result(shared->lanes[thread]));
  });
}

// ---- Short results ----------------------------------------------------------

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
  uint32_t taken = 0, outside = 0;
  for (uint32_t r = 0; r < kShortRows; ++r) {
    const Adjacent<T> all = row(r);
    if (lane < all.count) {
      packs[r] = all.Load(lane);
      taken |= 1u << r;
    }
    outside |= all.head | all.tail;
  }
  for (uint32_t r = 0; r < kShortRows; ++r) {
    values[r] = (taken >> r & 1) != 0 ? FoldWords<T>(folding, packs[r])
                                      : folding.Nothing();
  }
  if (outside == 0) return;
  DEVRT_NOT_UNROLLED
  for (uint32_t r = 0; r < kShortRows; ++r) {
    const auto few = FoldOutside<T>(folding, row(r), lane, args.lanes);
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
    typename Folding<T, Op>::Few (*shared)[kThreads]) {
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
    CombineAdjacent<Op>(lanes, block, shared[r]);
    block.ForEachThread([&](uint32_t thread) {
      if (thread % lanes == 0) store(thread, r, shared[r][thread]);
    });
  }
#endif
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_ADJACENT_KERNEL_H_
