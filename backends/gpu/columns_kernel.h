// SPDX-License-Identifier: Apache-2.0
//
// The kernels of devrt.reduce/0 for results that are adjacent in memory, as
// functions of a block's number.  A thread takes elements of some adjacent
// results.  A row of threads takes those of a group of results, and the rows of
// a block share the elements.  Parts are as in reduce_kernel.h, but each group
// of results has a last block of its own.

#ifndef DEVRT_BACKENDS_GPU_COLUMNS_KERNEL_H_
#define DEVRT_BACKENDS_GPU_COLUMNS_KERNEL_H_

#include <type_traits>

#include "backends/gpu/reduce_kernel.h"

namespace devrt::gpu {

// The number of adjacent results that a thread takes: 16 bytes of elements, at
// most 4.
template <typename T>
inline constexpr int kColumnsPack = ColumnsPack(sizeof(T));

template <typename T>
struct ColumnsShared {
  using P = PartialType<T>;
  P lanes[kColumnsPack<T>][kThreads];
  P parts[kColumnsPartBytes / sizeof(P)];
  uint32_t is_last;
};

// Where a group's results lie, and how the threads of its block share them.
struct ColumnGroup {
  uint64_t first;  // the first result
  uint32_t count;
  uint32_t across;  // threads in a row

  DEVRT_HOST_DEVICE ColumnGroup(const ReduceArgs& args, uint64_t group) {
    across = kThreads / args.lanes;
    const uint64_t columns = args.kept.axes == 1
                                 ? args.kept.elements
                                 : static_cast<uint64_t>(args.kept.extents[0]);
    const uint64_t outer = group / args.column_groups;
    const uint64_t width = uint64_t{across} * args.columns_pack;
    const uint64_t at = (group - outer * args.column_groups) * width;
    const uint64_t rest = columns - at;
    first = outer * columns + at;
    count = static_cast<uint32_t>(rest < width ? rest : width);
  }
};

// Adds the bytes of each of four columns.
template <int kRows, typename T, typename Sum>
DEVRT_HOST_DEVICE void AddByteColumns(const Pack<T, 4>* rows, Sum* sums) {
  for (int j = 0; j < 4; ++j) sums[j] = 0;
  for (int i = 0; i < kRows; ++i) {
#if defined(__CUDA_ARCH__)
    Sum four;
    CopyBytes(&four, rows[i].items, sizeof four);
    // The product with a word of a single 1 takes out a byte.
    for (int j = 0; j < 4; ++j) {
      sums[j] = __dp4a(four, static_cast<Sum>(1 << 8 * j), sums[j]);
    }
#else
    for (int j = 0; j < 4; ++j) sums[j] += rows[i].items[j];
#endif
  }
}

// Folds kRows rows of kPack elements, `step` bytes apart, into all[].
template <typename T, int kPack, int kRows, typename Folding>
DEVRT_HOST_DEVICE void FoldRows(const Folding& folding, const char* from,
                                int64_t step, typename Folding::Many* all) {
  Pack<T, kPack> packs[kRows];
  for (int i = 0; i < kRows; ++i) {
    packs[i] = *reinterpret_cast<const Pack<T, kPack>*>(from + step * i);
  }
  typename Folding::Few folded[kPack];
  if constexpr (kSumsBytes<T, typename Folding::Operation> && kPack == 4) {
    AddByteColumns<kRows>(packs, folded);
  } else {
    for (int j = 0; j < kPack; ++j) {
      typename Folding::Few values[kRows];
      for (int i = 0; i < kRows; ++i) {
        values[i] = folding.ValueOf(packs[i].items[j]);
      }
      folded[j] = Fold<kRows, typename Folding::Operation>(values);
    }
  }
  for (int j = 0; j < kPack; ++j) {
    all[j] = FromFold<typename Folding::Many>(folded[j]);
  }
}

// Reduces a thread's rows from `begin` to `end`, every args.lanes-th of them,
// kDeep at once.
template <typename T, int kPack, int kDeep, typename Folding>
DEVRT_HOST_DEVICE void ReduceRows(const ReduceArgs& args,
                                  const Folding& folding, const char* base,
                                  uint64_t begin, uint64_t end,
                                  PartialType<T>* out) {
  using Many = typename Folding::Many;
  using Operation = typename Folding::Operation;
  const int64_t row = args.reduced.strides[0][0];
  const int64_t step = row * static_cast<int64_t>(args.lanes);
  const char* from = base + static_cast<int64_t>(begin) * row;
  PackLevels<Many, kPack> total(folding.NothingOfMany());
  uint64_t left = begin < end ? (end - begin - 1) / args.lanes + 1 : 0;
  Many all[kPack];
  for (; left >= kDeep; left -= kDeep, from += step * kDeep) {
    FoldRows<T, kPack, kDeep>(folding, from, step, all);
    total.template Push<Operation>(all);
  }
  constexpr int kSome = kDeep / 4;
  for (; left >= kSome; left -= kSome, from += step * kSome) {
    FoldRows<T, kPack, kSome>(folding, from, step, all);
    total.template Push<Operation>(all);
  }
  for (; left > 0; --left, from += step) {
    FoldRows<T, kPack, 1>(folding, from, step, all);
    total.template Push<Operation>(all);
  }
  const Many* const results = total.template Finish<Operation>();
  for (int j = 0; j < kPack; ++j) out[j] = folding.Result(results[j]);
}

// Writes the results of the group's threads to shared->lanes.
template <typename T, int kPack, int kDeep>
DEVRT_HOST_DEVICE void ReduceThread(const ReduceArgs& args, const char* base,
                                    const ColumnGroup& group, uint64_t begin,
                                    uint64_t end, uint32_t thread,
                                    ColumnsShared<T>* shared) {
  using P = PartialType<T>;
  const uint32_t column = thread % group.across * kPack;
  if (column >= group.count) return;
  P results[kPack];
  WithFolding<T>(args.op, [&](const auto& folding) {
    ReduceRows<T, kPack, kDeep>(args, folding,
                                base + uint64_t{column} * sizeof(T),
                                begin + thread / group.across, end, results);
  });
  for (int j = 0; j < kPack; ++j) shared->lanes[j][thread] = results[j];
}

// Reduces one part of a group into `parts`, from result `first` on.  If `parts`
// is null, writes the results to memory.
template <typename T, int kDeep>
DEVRT_HOST_DEVICE void ReduceGroupPart(const ReduceArgs& args,
                                       const Block& block,
                                       const ColumnGroup& group, uint32_t part,
                                       PartialType<T>* parts, uint64_t first,
                                       ColumnsShared<T>* shared) {
  using P = PartialType<T>;
  const uint64_t begin = part * args.part_elements;
  const uint64_t rest = args.reduced.elements - begin;
  const uint64_t end =
      begin + (rest < args.part_elements ? rest : args.part_elements);
  const char* const base = static_cast<const char*>(args.in.data) +
                           args.kept.OffsetOf(group.first, 0);
  const uint32_t pack = args.columns_pack;
  block.Together([&](uint32_t thread) {
    if (pack == 1) {
      ReduceThread<T, 1, kDeep>(args, base, group, begin, end, thread, shared);
    } else {
      ReduceThread<T, kColumnsPack<T>, kDeep>(args, base, group, begin, end,
                                              thread, shared);
    }
  });
  for (uint32_t width = args.lanes / 2; width > 0; width /= 2) {
    block.Together([&](uint32_t thread) {
      if (thread / group.across >= width) return;
      if (thread % group.across * pack >= group.count) return;
#if DEVRT_ON_DEVICE
#pragma unroll 1
#endif
      for (uint32_t j = 0; j < pack; ++j) {
        P* const mine = &shared->lanes[j][thread];
        *mine = Combine(args.op, *mine, mine[width * group.across]);
      }
    });
  }
  block.Together([&](uint32_t thread) {
    for (uint32_t i = thread; i < group.count; i += kThreads) {
      const P value = shared->lanes[i % pack][i / pack];
      if (parts == nullptr) {
        StoreResult<T>(args, group.first + i, value);
      } else {
        parts[(group.first + i - first) * args.parts + part] = value;
      }
    }
    Fence();
  });
}

// Returns true if this is the last of `count` blocks to count itself at
// `counter`.  Sets the counter to 0 then.
DEVRT_HOST_DEVICE inline bool IsLastAt(const Block& block, uint32_t* counter,
                                       uint32_t count, uint32_t* is_last) {
  block.Together([&](uint32_t thread) {
    if (thread != 0) return;
    *is_last = AtomicAdd(counter, 1) + 1 == count ? 1 : 0;
    if (*is_last != 0) *counter = 0;
    Fence();
  });
  return *is_last != 0;
}

// devrt_columns_<dtype>
template <typename T, int kDeep = sizeof(T) == 1 ? 16 : 8>
DEVRT_HOST_DEVICE void ColumnsBlock(const ReduceArgs& args, const Block& block,
                                    Slot* slots, ColumnsShared<T>* shared) {
  using P = PartialType<T>;
  uint64_t number = block.index, step = block.count;
  uint32_t begin = 0, end = 1;  // parts
  P* parts = nullptr;
  Slot* slot = nullptr;
  if (args.parts > 1) {
    slot = &slots[args.ticket % kSlots];
    if (LoadFresh(&slot->owner) == args.ticket) {
      parts = reinterpret_cast<P*>(slot->partials);
      number = block.index % args.groups;
      step = args.groups;
      begin = static_cast<uint32_t>(block.index / args.groups);
      end = begin + 1;
    } else {
      if (block.index != 0) return;
      slot = nullptr;
      parts = shared->parts;
      step = 1;
      end = args.parts;
    }
  }
  for (; number < args.groups; number += step) {
    const ColumnGroup group(args, number);
    // A slot has the parts of all results.  Memory gets the results of one
    // group.
    const uint64_t first = slot != nullptr ? 0 : group.first;
    for (uint32_t part = begin; part < end; ++part) {
      ReduceGroupPart<T, kDeep>(args, block, group, part, parts, first, shared);
    }
    if (parts == nullptr) continue;
    if (slot != nullptr && !IsLastAt(block, &slot->group_done[number],
                                     args.parts, &shared->is_last)) {
      continue;
    }
    CombineParts<T>(
        args, block, group.first, group.count, group.across * args.columns_pack,
        parts + (group.first - first) * args.parts, shared->lanes[0]);
  }
  if (slot == nullptr) return;
  if (!IsLastAt(block, &slot->done, block.count, &shared->is_last)) return;
  block.ForEachThread([&](uint32_t thread) {
    if (thread == 0) (void)AtomicExchange(&slot->owner, 0);
  });
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_COLUMNS_KERNEL_H_
