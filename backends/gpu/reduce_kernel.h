// SPDX-License-Identifier: Apache-2.0
//
// The kernels of devrt.reduce/0, as functions of a block's number.
//
// The threads that work on one result are its lanes.  Each lane combines some
// of the elements, then a tree combines the values of the lanes.  If there are
// too few results to keep a device busy, several blocks share each result.
// Each computes a part, and the last block to finish combines the parts, in an
// order that does not depend on which block that is.
//
// Parts lie in a slot of the device, which a launch just before has claimed.
// If another call still has the slot, the first block does all the work.  That
// is slow, gives the same bits, and never waits.

#ifndef DEVRT_BACKENDS_GPU_REDUCE_KERNEL_H_
#define DEVRT_BACKENDS_GPU_REDUCE_KERNEL_H_

#include "backends/gpu/device_code.h"
#include "backends/gpu/elements.h"
#include "backends/gpu/reduce_fold.h"
#include "backends/gpu/tensor_args.h"
#include "backends/tensor/cast.h"
#include "backends/tensor/dtype.h"

namespace devrt::gpu {

// ---- One thread's elements --------------------------------------------------

inline constexpr int kGathered = 4;

// Loads elements `first`, `first` + lanes, ... of a result, up to `end`.
template <typename Raw>
DEVRT_HOST_DEVICE DEVRT_NOINLINE Pack<Raw, kGathered> GatherReduced(
    const ReduceArgs& args, const char* base, uint64_t first, uint64_t end) {
  Pack<Raw, kGathered> pack = {};
  for (int i = 0; i < kGathered; ++i, first += args.lanes) {
    if (first < end) {
      pack.items[i] = LoadElement<Raw>(base + args.reduced.OffsetOf(first, 0),
                                       args.in.is_aligned != 0);
    }
  }
  return pack;
}

template <typename T, typename Folding>
DEVRT_HOST_DEVICE typename Folding::Many FoldGathered(const ReduceArgs& args,
                                                      const Folding& folding,
                                                      const char* base,
                                                      uint64_t first,
                                                      uint64_t end) {
  const auto raw = GatherReduced<RawType<T>>(args, base, first, end);
  Pack<T, kGathered> pack;
  CopyBytes(&pack, &raw, sizeof pack);
  typename Folding::Few values[kGathered];
  for (int i = 0; i < kGathered; ++i, first += args.lanes) {
    values[i] =
        first < end ? folding.ValueOf(pack.items[i]) : folding.Nothing();
  }
  return FromFold<typename Folding::Many>(
      Fold<kGathered, typename Folding::Operation>(values));
}

// How a lane reads elements that lie anywhere.
struct GatheredLane {
  // Reduces the lane's elements of the result at `base` from `begin` to `end`.
  template <typename T, typename Folding>
  DEVRT_HOST_DEVICE static PartialType<T> Reduce(const ReduceArgs& args,
                                                 const Folding& folding,
                                                 const char* base,
                                                 uint32_t lane, uint64_t begin,
                                                 uint64_t end) {
    using Many = typename Folding::Many;
    using Operation = typename Folding::Operation;
    PackLevels<Many, 1> total(folding.NothingOfMany());
    const uint64_t step = uint64_t{args.lanes} * kGathered;
    for (uint64_t at = begin; at + lane < end;) {
      Many some = folding.NothingOfMany();
      for (int i = 0; i < 4 && at + lane < end; ++i, at += step) {
        some = Operation::Apply(
            some, FoldGathered<T>(args, folding, base, at + lane, end));
      }
      total.template Push<Operation>(&some);
    }
    return folding.Result(*total.template Finish<Operation>());
  }
};

// Reduces the lane's elements of `result` from `begin` to `end`.
template <typename T, typename Lane>
DEVRT_HOST_DEVICE PartialType<T> ReduceLane(const ReduceArgs& args,
                                            uint64_t result, uint32_t lane,
                                            uint64_t begin, uint64_t end) {
  const char* const base =
      static_cast<const char*>(args.in.data) + args.kept.OffsetOf(result, 0);
  return WithFolding<T>(args.op, [&](const auto& folding) {
    return Lane::template Reduce<T>(args, folding, base, lane, begin, end);
  });
}

template <typename T>
DEVRT_HOST_DEVICE void StoreResultAt(const ReduceArgs& args, int64_t offset,
                                     PartialType<T> value) {
  using P = PartialType<T>;
  char* const to = static_cast<char*>(args.out.data) + offset;
  const bool is_aligned = args.out.is_aligned != 0;
  if (args.out.dtype == DEVRT_BOOL) {
    const bool truth = tensor::Cast<bool, P>::Convert(value);
    StoreElement<uint8_t>(to, truth ? 1 : 0, is_aligned);
  } else if (args.out.dtype == DEVRT_INT64 || args.out.dtype == DEVRT_UINT64) {
    StoreElement<P>(to, value, is_aligned);
  } else {
    using C = tensor::ComputeType<T>;
    StoreElement<T>(to, tensor::Narrow<T>(tensor::Cast<C, P>::Convert(value)),
                    is_aligned);
  }
}

template <typename T>
DEVRT_HOST_DEVICE void StoreResult(const ReduceArgs& args, uint64_t result,
                                   PartialType<T> value) {
  StoreResultAt<T>(args, args.kept.OffsetOf(result, 1), value);
}

// ---- One block --------------------------------------------------------------

// Memory that the threads of a block share.
template <typename P>
struct Shared {
  P lanes[kThreads];
  P parts[Slot::kMostOfGroup];
  uint32_t is_last;
};

// How the threads of a block share the results.
struct Lanes {
  uint32_t count;  // of one result
  bool is_adjacent;

  DEVRT_HOST_DEVICE uint32_t Results() const { return kThreads / count; }
  DEVRT_HOST_DEVICE uint32_t LaneOf(uint32_t thread) const {
    return is_adjacent ? thread % count : thread / Results();
  }
  DEVRT_HOST_DEVICE uint32_t ResultOf(uint32_t thread) const {
    return is_adjacent ? thread / count : thread % Results();
  }
};

// With fewer lanes than this, the lanes of a result are in one warp.  On the
// host none are.
inline constexpr uint32_t kShuffled = DEVRT_ON_DEVICE ? 32 : 1;

#if DEVRT_ON_DEVICE
// The tree of CombineLanes, within a warp.
template <typename P>
__device__ P CombineWarp(uint32_t op, uint32_t width, P value) {
  return WithOperation<P>(op, [&](auto operation) {
    for (; width > 0; width /= 2) {
      value = decltype(operation)::Apply(value, ShuffleDown(value, width));
    }
    return value;
  });
}
#endif

// Combines the values of each result into its first lane.
template <typename P>
DEVRT_HOST_DEVICE void CombineLanes(uint32_t op, const Lanes& lanes,
                                    const Block& block, P* values) {
  const uint32_t gap = lanes.is_adjacent ? 1 : lanes.Results();
  uint32_t width = lanes.count / 2;
  for (; width >= (lanes.is_adjacent ? kShuffled : 1); width /= 2) {
    block.Together([&](uint32_t thread) {
      if (lanes.LaneOf(thread) >= width) return;
      P* const mine = &values[thread];
      *mine = Combine(op, *mine, mine[width * gap]);
    });
  }
  if (width == 0) return;
#if DEVRT_ON_DEVICE
  block.Together([&](uint32_t thread) {
    const P mine = CombineWarp(op, width, values[thread]);
    if (lanes.LaneOf(thread) == 0) values[thread] = mine;
  });
#endif
}

// Reduces the part with that number of a group's results into `parts`, from
// result `first` on.  If `parts` is null, writes the results to memory.
template <typename T, typename Lane>
DEVRT_HOST_DEVICE void ReducePart(const ReduceArgs& args, const Block& block,
                                  uint64_t group, uint32_t part,
                                  PartialType<T>* parts, uint64_t first,
                                  Shared<PartialType<T>>* shared) {
  const Lanes lanes = {args.lanes, args.lanes_adjacent != 0};
  const uint64_t begin = part * args.part_elements;
  const uint64_t rest = args.reduced.elements - begin;
  const uint64_t end =
      begin + (rest < args.part_elements ? rest : args.part_elements);
  const auto store = [&](uint32_t thread, PartialType<T> value) {
    const uint64_t result = group * lanes.Results() + lanes.ResultOf(thread);
    if (lanes.LaneOf(thread) != 0 || result >= args.kept.elements) return;
    if (parts == nullptr) {
      StoreResult<T>(args, result, value);
    } else {
      parts[(result - first) * args.parts + part] = value;
      Fence();
    }
  };
#if DEVRT_ON_DEVICE
  if (lanes.is_adjacent && lanes.count <= 32 && parts == nullptr) {
    const auto thread = static_cast<uint32_t>(threadIdx.x);
    const uint64_t result = group * lanes.Results() + lanes.ResultOf(thread);
    auto value = Neutral<PartialType<T>>(args.op);
    if (result < args.kept.elements) {
      value =
          ReduceLane<T, Lane>(args, result, lanes.LaneOf(thread), begin, end);
    }
    return store(thread, CombineWarp(args.op, lanes.count / 2, value));
  }
#endif
  block.Together([&](uint32_t thread) {
    const uint64_t result = group * lanes.Results() + lanes.ResultOf(thread);
    if (result >= args.kept.elements) return;
    shared->lanes[thread] =
        ReduceLane<T, Lane>(args, result, lanes.LaneOf(thread), begin, end);
  });
  CombineLanes(args.op, lanes, block, shared->lanes);
  block.Together(
      [&](uint32_t thread) { store(thread, shared->lanes[thread]); });
}

// The number of parts that a thread loads at once.
inline constexpr uint32_t kPartsAtOnce = 4;

// Combines a lane's share of the parts of one result, which begin at `parts`.
template <uint32_t kAtOnce = kPartsAtOnce, typename P>
DEVRT_HOST_DEVICE P CombineSome(const ReduceArgs& args, const Lanes& lanes,
                                uint32_t lane, const P* parts) {
  return WithOperation<P>(args.op, [&](auto operation) {
    using Operation = decltype(operation);
    P value = NeutralOf<Operation, P>();
    for (uint32_t i = lane; i < args.parts; i += lanes.count * kAtOnce) {
      P some[kAtOnce];
      for (uint32_t k = 0; k < kAtOnce; ++k) {
        const uint32_t part = i + k * lanes.count;
        some[k] = LoadFresh(&parts[part < args.parts ? part : i]);
      }
      for (uint32_t k = 0; k < kAtOnce; ++k) {
        if (i + k * lanes.count >= args.parts) continue;
        value = Operation::Apply(value, some[k]);
      }
    }
    return value;
  });
}

// Returns how threads share the parts of `together` results, if there are
// enough of them.
DEVRT_HOST_DEVICE inline Lanes LanesOfParts(const ReduceArgs& args,
                                            uint32_t together) {
  Lanes lanes = {1, true};
  while (lanes.count < args.parts && lanes.count * 2 * together <= kThreads) {
    lanes.count *= 2;
  }
  return lanes;
}

// Combines what load(i, lane) returns for result `first` + i, and stores
// `count` results.
template <typename T, typename F>
DEVRT_HOST_DEVICE void StoreCombined(const ReduceArgs& args, const Block& block,
                                     uint64_t first, uint64_t count,
                                     const Lanes& lanes, PartialType<T>* values,
                                     const F& load) {
  for (uint64_t done = 0; done < count; done += lanes.Results()) {
    block.Together([&](uint32_t thread) {
      const uint64_t result = done + lanes.ResultOf(thread);
      if (result >= count) return;
      values[thread] = load(result, lanes.LaneOf(thread));
    });
    CombineLanes(args.op, lanes, block, values);
    block.Together([&](uint32_t thread) {
      const uint64_t result = done + lanes.ResultOf(thread);
      if (lanes.LaneOf(thread) != 0 || result >= count) return;
      StoreResult<T>(args, first + result, values[thread]);
    });
  }
}

// Combines the parts of `count` results from `first` on.  The parts of a result
// are adjacent.
template <typename T>
DEVRT_HOST_DEVICE void CombineParts(const ReduceArgs& args, const Block& block,
                                    uint64_t first, uint64_t count,
                                    const PartialType<T>* parts,
                                    PartialType<T>* values) {
  const Lanes lanes = LanesOfParts(args, 1);
  StoreCombined<T>(args, block, first, count, lanes, values,
                   [&](uint64_t result, uint32_t lane) {
                     return CombineSome(args, lanes, lane,
                                        parts + result * args.parts);
                   });
}

// Returns true if this is the last block of the slot's owner.
template <typename P>
DEVRT_HOST_DEVICE bool IsLast(const Block& block, Slot* slot,
                              Shared<P>* shared) {
  block.Together([&](uint32_t thread) {
    if (thread != 0) return;
    shared->is_last = AtomicAdd(&slot->done, 1) + 1 == block.count ? 1 : 0;
    Fence();
  });
  return shared->is_last != 0;
}

// devrt_reduce_<dtype>
template <typename T, typename Lane = GatheredLane>
DEVRT_HOST_DEVICE void ReduceBlock(const ReduceArgs& args, const Block& block,
                                   Slot* slots,
                                   Shared<PartialType<T>>* shared) {
  const uint32_t results = kThreads / args.lanes;
  const uint64_t groups = (args.kept.elements + results - 1) / results;
  uint64_t group = block.index, step = block.count;
  uint32_t begin = 0, end = 1;  // parts
  PartialType<T>* parts = nullptr;
  Slot* slot = nullptr;
  if (args.parts > 1) {
    slot = &slots[args.ticket % kSlots];
    if (LoadFresh(&slot->owner) == args.ticket) {
      parts = reinterpret_cast<PartialType<T>*>(slot->partials);
      group = block.index / args.parts;
      step = groups;
      begin = block.index % args.parts;
      end = begin + 1;
    } else {
      if (block.index != 0) return;
      slot = nullptr;
      parts = shared->parts;
      step = 1;
      end = args.parts;
    }
  }
  for (; group < groups; group += step) {
    // A slot has the parts of all results.  Memory gets the results of one
    // group.
    const uint64_t first = slot != nullptr ? 0 : group * results;
    const uint64_t rest = args.kept.elements - first;
    const uint64_t count = slot != nullptr || rest < results ? rest : results;
    for (uint32_t part = begin; part < end; ++part) {
      ReducePart<T, Lane>(args, block, group, part, parts, first, shared);
    }
    if (parts == nullptr) continue;
    if (slot != nullptr && !IsLast(block, slot, shared)) return;
    CombineParts<T>(args, block, first, count, parts, shared->lanes);
  }
  if (slot == nullptr) return;
  block.Together([&](uint32_t thread) {
    if (thread != 0) return;
    slot->done = 0;
    Fence();
    (void)AtomicExchange(&slot->owner, 0);
  });
}

// devrt_reduce_claim, which runs in one thread.
template <typename TheSlot>
DEVRT_HOST_DEVICE void ClaimSlot(TheSlot* slots, uint32_t ticket) {
  AtomicReplace(&slots[ticket % TheSlot::kCount].owner, 0, ticket);
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_REDUCE_KERNEL_H_
