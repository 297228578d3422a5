// SPDX-License-Identifier: Apache-2.0
//
// The kernels of devrt.reduce/0, as functions of a block's number.
//
// The lanes of a result each combine some of its elements, then the lanes are
// combined as a tree.  Where there are too few results to keep a device busy,
// each is shared by several blocks, the parts; the last block to be done
// combines them, in an order that does not depend on which one that is.
//
// Parts lie in a slot of the device's, which a launch just before has claimed.
// Where another call still has the slot, the first block does the work of all:
// slow, the same bits, and nothing ever waits.

#ifndef DEVRT_BACKENDS_GPU_REDUCE_KERNEL_H_
#define DEVRT_BACKENDS_GPU_REDUCE_KERNEL_H_

#include <limits>
#include <type_traits>

#include "backends/gpu/device_code.h"
#include "backends/gpu/elements.h"
#include "backends/gpu/tensor_args.h"
#include "backends/tensor/cast.h"
#include "backends/tensor/dtype.h"
#include "backends/tensor/scalar.h"

namespace devrt::gpu {

// ---- Combining --------------------------------------------------------------

// What elements of T are combined in: the widest of their kind, but float for
// the 16-bit floats.
template <typename T, typename C = tensor::ComputeType<T>>
using PartialType = std::conditional_t<
    !std::is_integral_v<C>, C,
    std::conditional_t<std::is_same_v<C, bool> || std::is_signed_v<C>, int64_t,
                       uint64_t>>;

// f(operation) for that of `op`.  ANY and ALL are of values that are 0 or 1, of
// which complex numbers have no order.
template <typename P, typename F>
DEVRT_HOST_DEVICE P WithOperation(uint32_t op, const F& f) {
  constexpr bool kOrdered = !tensor::kIsComplex<P>;
  switch (op) {
    case DEVRT_REDUCE_SUM:
      return f(tensor::Add());
    case DEVRT_REDUCE_PROD:
      return f(tensor::Multiply());
    case DEVRT_REDUCE_MIN:
    case DEVRT_REDUCE_ALL:
      return f(
          std::conditional_t<kOrdered, tensor::Minimum, tensor::Multiply>());
    default:
      return f(std::conditional_t<kOrdered, tensor::Maximum, tensor::Add>());
  }
}

template <typename P>
DEVRT_HOST_DEVICE P Combine(uint32_t op, P a, P b) {
  return WithOperation<P>(
      op, [&](auto operation) { return decltype(operation)::Apply(a, b); });
}

// All of them, as a tree.  Destroys them.
template <int kCount, typename Operation, typename P>
DEVRT_HOST_DEVICE P Fold(P* values) {
  for (int width = kCount / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) {
      values[i] = Operation::Apply(values[i], values[i + width]);
    }
  }
  return values[0];
}

template <typename P>
DEVRT_HOST_DEVICE P Neutral(uint32_t op) {
  if constexpr (tensor::kIsComplex<P>) {
    const bool one = op == DEVRT_REDUCE_PROD || op == DEVRT_REDUCE_ALL;
    return {one ? decltype(P::re){1} : decltype(P::re){0}, 0};
  } else {
    using Limits = std::numeric_limits<P>;
    constexpr P kMost =
        Limits::has_infinity ? Limits::infinity() : Limits::max();
    constexpr P kLeast =
        Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    switch (op) {
      case DEVRT_REDUCE_SUM:
        return 0;
      case DEVRT_REDUCE_PROD:
        return 1;
      case DEVRT_REDUCE_MIN:
      case DEVRT_REDUCE_ALL:
        return kMost;
      default:
        return kLeast;
    }
  }
}

// kPack values of many each: so that the error of a sum grows with the
// logarithm of their number, 8 of a level are one of the next.
template <typename P, int kPack>
class PackLevels {
 public:
  DEVRT_HOST_DEVICE explicit PackLevels(P neutral) : neutral_(neutral) {
    for (int k = 0; k < kLevels; ++k) {
      for (int i = 0; i < kPack; ++i) levels_[k][i] = neutral;
    }
  }

  template <typename Operation>
  DEVRT_HOST_DEVICE void Push(const P* values) {
    Add<Operation>(0, values);
    uint32_t count = ++count_;
    for (int k = 1; k < kLevels; ++k) {
      if (count % 8 != 0) return;
      Add<Operation>(k, levels_[k - 1]);
      for (int i = 0; i < kPack; ++i) levels_[k - 1][i] = neutral_;
      count /= 8;
    }
  }

  // In levels_[0].
  template <typename Operation>
  DEVRT_HOST_DEVICE const P* Finish() {
    for (int k = 1; k < kLevels; ++k) Add<Operation>(0, levels_[k]);
    return levels_[0];
  }

 private:
  // In registers.  Integers lose nothing.
  static constexpr int kLevels = std::is_integral_v<P> ? 1 : 5;

  template <typename Operation>
  DEVRT_HOST_DEVICE void Add(int k, const P* values) {
    for (int i = 0; i < kPack; ++i) {
      levels_[k][i] = Operation::Apply(levels_[k][i], values[i]);
    }
  }

  const P neutral_;
  uint32_t count_ = 0;
  P levels_[kLevels][kPack];
};

// ---- One thread's elements --------------------------------------------------

// What a few elements of T are combined in: 32 bits where they suffice.
template <typename T, typename Operation, typename P = PartialType<T>>
using FoldType = std::conditional_t<
    std::is_integral_v<P> &&
        ((sizeof(T) <= 2 && !std::is_same_v<Operation, tensor::Multiply>) ||
         (sizeof(T) == 4 && (std::is_same_v<Operation, tensor::Minimum> ||
                             std::is_same_v<Operation, tensor::Maximum>))),
    std::conditional_t<std::is_signed_v<P>, int32_t, uint32_t>, P>;

template <typename P, typename F>
DEVRT_HOST_DEVICE P FromFold(F value) {
  if constexpr (std::is_same_v<P, F>) {
    return value;
  } else {
    return static_cast<P>(value);
  }
}

template <typename F, typename T>
DEVRT_HOST_DEVICE F ValueOf(uint32_t op, T element) {
  const auto value = tensor::Widen(element);
  using C = std::remove_const_t<decltype(value)>;
  if (op == DEVRT_REDUCE_ANY || op == DEVRT_REDUCE_ALL) {
    return tensor::Cast<F, bool>::Convert(
        tensor::Cast<bool, C>::Convert(value));
  }
  return tensor::Cast<F, C>::Convert(value);
}

inline constexpr int kGathered = 4;

// Elements `first`, `first` + lanes, ... of a result, where they are before
// `end`.
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

template <typename T, typename Operation>
DEVRT_HOST_DEVICE PartialType<T> FoldGathered(const ReduceArgs& args,
                                              const char* base, uint64_t first,
                                              uint64_t end) {
  using P = PartialType<T>;
  const auto raw = GatherReduced<RawType<T>>(args, base, first, end);
  Pack<T, kGathered> pack;
  CopyBytes(&pack, &raw, sizeof pack);
  P values[kGathered];
  for (int i = 0; i < kGathered; ++i, first += args.lanes) {
    values[i] =
        first < end ? ValueOf<P>(args.op, pack.items[i]) : Neutral<P>(args.op);
  }
  return Fold<kGathered, Operation>(values);
}

template <typename T, typename Operation>
DEVRT_HOST_DEVICE PartialType<T> ReduceGathered(const ReduceArgs& args,
                                                const char* base, uint32_t lane,
                                                uint64_t begin, uint64_t end) {
  using P = PartialType<T>;
  PackLevels<P, 1> total(Neutral<P>(args.op));
  const uint64_t step = uint64_t{args.lanes} * kGathered;
  for (uint64_t at = begin; at + lane < end;) {
    P some = Neutral<P>(args.op);
    for (int i = 0; i < 4 && at + lane < end; ++i, at += step) {
      some = Operation::Apply(
          some, FoldGathered<T, Operation>(args, base, at + lane, end));
    }
    total.template Push<Operation>(&some);
  }
  return *total.template Finish<Operation>();
}

// So many packs of 16 bytes of adjacent memory does a thread take at once.
inline constexpr int kPacksAtOnce = 4;

// Of `count` elements that are adjacent from `base` on.
template <typename T, typename Operation>
DEVRT_HOST_DEVICE PartialType<T> ReducePacked(const ReduceArgs& args,
                                              const char* base, uint32_t lane,
                                              uint64_t count) {
  using P = PartialType<T>;
  using F = FoldType<T, Operation>;
  constexpr int kItems = 16 / sizeof(T);
  PackLevels<P, 1> total(Neutral<P>(args.op));
  const uint64_t packs = count / kItems;
  for (uint64_t at = lane; at < packs; at += args.lanes * kPacksAtOnce) {
    Pack<T, kItems> some[kPacksAtOnce];
    for (int i = 0; i < kPacksAtOnce; ++i) {
      const uint64_t pack = at + static_cast<uint32_t>(i) * args.lanes;
      if (pack < packs) {
        some[i] = *reinterpret_cast<const Pack<T, kItems>*>(base + pack * 16);
      }
    }
    F folded[kPacksAtOnce];
    for (int i = 0; i < kPacksAtOnce; ++i) {
      const uint64_t pack = at + static_cast<uint32_t>(i) * args.lanes;
      F values[kItems];
      for (int j = 0; j < kItems; ++j) {
        values[j] = pack < packs ? ValueOf<F>(args.op, some[i].items[j])
                                 : Neutral<F>(args.op);
      }
      folded[i] = Fold<kItems, Operation>(values);
    }
    const P value = FromFold<P>(Fold<kPacksAtOnce, Operation>(folded));
    total.template Push<Operation>(&value);
  }
  for (uint64_t at = packs * kItems + lane; at < count; at += args.lanes) {
    const P value =
        ValueOf<P>(args.op, *reinterpret_cast<const T*>(base + at * sizeof(T)));
    total.template Push<Operation>(&value);
  }
  return *total.template Finish<Operation>();
}

// The lane's elements of `result` from `begin` to `end`.
template <typename T>
DEVRT_HOST_DEVICE PartialType<T> ReduceLane(const ReduceArgs& args,
                                            uint64_t result, uint32_t lane,
                                            uint64_t begin, uint64_t end) {
  const char* const base =
      static_cast<const char*>(args.in.data) + args.kept.OffsetOf(result, 0);
  return WithOperation<PartialType<T>>(args.op, [&](auto operation) {
    using Operation = decltype(operation);
    if (args.is_packed != 0) {
      return ReducePacked<T, Operation>(args, base + begin * sizeof(T), lane,
                                        end - begin);
    }
    return ReduceGathered<T, Operation>(args, base, lane, begin, end);
  });
}

template <typename T>
DEVRT_HOST_DEVICE void StoreResult(const ReduceArgs& args, uint64_t result,
                                   PartialType<T> value) {
  using P = PartialType<T>;
  char* const to =
      static_cast<char*>(args.out.data) + args.kept.OffsetOf(result, 1);
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

// ---- One block --------------------------------------------------------------

// What the threads of a block share.
template <typename P>
struct Shared {
  P lanes[kThreads];
  P parts[Slot::kMostOfGroup];
  uint32_t is_last;
};

// Who of a block's threads works on what.
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

// Below so many the lanes of a result are in one warp.  On the host none are.
inline constexpr uint32_t kShuffled = DEVRT_ON_DEVICE ? 32 : 1;

// To the first lane of each.
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
  // The same tree, between the threads of a warp.
  block.Together([&](uint32_t thread) {
    P mine = values[thread];
    for (; width > 0; width /= 2) {
      mine = Combine(op, mine, ShuffleDown(mine, width));
    }
    if (lanes.LaneOf(thread) == 0) values[thread] = mine;
  });
#endif
}

// The part with that number of a group's results: to `parts` of them, from
// result `first` on, or to memory where that is null.
template <typename T>
DEVRT_HOST_DEVICE void ReducePart(const ReduceArgs& args, const Block& block,
                                  uint64_t group, uint32_t part,
                                  PartialType<T>* parts, uint64_t first,
                                  Shared<PartialType<T>>* shared) {
  const Lanes lanes = {args.lanes, args.lanes_adjacent != 0};
  const uint64_t begin = part * args.part_elements;
  const uint64_t rest = args.reduced.elements - begin;
  const uint64_t end =
      begin + (rest < args.part_elements ? rest : args.part_elements);
  block.Together([&](uint32_t thread) {
    const uint64_t result = group * lanes.Results() + lanes.ResultOf(thread);
    if (result >= args.kept.elements) return;
    shared->lanes[thread] =
        ReduceLane<T>(args, result, lanes.LaneOf(thread), begin, end);
  });
  CombineLanes(args.op, lanes, block, shared->lanes);
  block.Together([&](uint32_t thread) {
    const uint64_t result = group * lanes.Results() + lanes.ResultOf(thread);
    if (lanes.LaneOf(thread) != 0 || result >= args.kept.elements) return;
    if (parts == nullptr) {
      StoreResult<T>(args, result, shared->lanes[thread]);
    } else {
      parts[(result - first) * args.parts + part] = shared->lanes[thread];
      Fence();
    }
  });
}

// Combines the parts of `count` results from `first` on; they lie one result
// after the other.
template <typename T>
DEVRT_HOST_DEVICE void CombineParts(const ReduceArgs& args, const Block& block,
                                    uint64_t first, uint64_t count,
                                    const PartialType<T>* parts,
                                    PartialType<T>* values) {
  using P = PartialType<T>;
  Lanes lanes = {1, true};
  while (lanes.count < args.parts && lanes.count < kThreads) lanes.count *= 2;
  for (uint64_t done = 0; done < count; done += lanes.Results()) {
    block.Together([&](uint32_t thread) {
      const uint64_t result = done + lanes.ResultOf(thread);
      P value = Neutral<P>(args.op);
      if (result < count) {
        for (uint32_t i = lanes.LaneOf(thread); i < args.parts;
             i += lanes.count) {
          value = Combine(args.op, value,
                          LoadFresh(&parts[result * args.parts + i]));
        }
      }
      values[thread] = value;
    });
    CombineLanes(args.op, lanes, block, values);
    block.Together([&](uint32_t thread) {
      const uint64_t result = done + lanes.ResultOf(thread);
      if (lanes.LaneOf(thread) != 0 || result >= count) return;
      StoreResult<T>(args, first + result, values[thread]);
    });
  }
}

// Whether this is the last block of the slot's owner.
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
template <typename T>
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
    // In a slot are the parts of all results, else those of a group.
    const uint64_t first = slot != nullptr ? 0 : group * results;
    const uint64_t rest = args.kept.elements - first;
    const uint64_t count = slot != nullptr || rest < results ? rest : results;
    for (uint32_t part = begin; part < end; ++part) {
      ReducePart<T>(args, block, group, part, parts, first, shared);
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

// devrt_reduce_claim, in one thread.
DEVRT_HOST_DEVICE inline void ClaimSlot(Slot* slots, uint32_t ticket) {
  AtomicReplace(&slots[ticket % kSlots].owner, 0, ticket);
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_REDUCE_KERNEL_H_
