// SPDX-License-Identifier: Apache-2.0
//
// The kernels of devrt.reduce/0 for results that are adjacent in memory, as
// functions of a block's number.  A thread takes elements of some adjacent
// results.  A row of threads takes those of a group of results, and the rows of
// a block share the elements.  Parts are as in reduce_kernel.h, but each group
// of results has a last block of its own.
//
// A thread loads packs that are aligned, wherever the rows of the input begin.
// The rows that one thread loads begin alike, so its packs have elements of the
// same results in all of them: where rows begin at different places within a
// pack, the block's rows of threads do, and shared memory brings their results
// together.  A pack at the end of a row has elements of others, which are
// loaded and ignored.

#ifndef DEVRT_BACKENDS_GPU_COLUMNS_KERNEL_H_
#define DEVRT_BACKENDS_GPU_COLUMNS_KERNEL_H_

#include <cstring>
#include <type_traits>

#include "backends/gpu/reduce_kernel.h"

namespace devrt::gpu {

// The number of adjacent results that a thread takes.
template <typename T>
inline constexpr int kColumnsPack = ColumnsPack(sizeof(T));

template <typename T>
struct ColumnsShared {
  using P = PartialType<T>;
  static constexpr uint32_t kMost = kThreads * kColumnsPack<T>;
  P columns[kMost];  // of each row of threads
  P kept[kMost];     // where one block takes all parts
  uint32_t is_last;
};

// Where a group's results lie, and how the threads of its block share them.
struct ColumnGroup {
  uint64_t first;   // the first result
  uint32_t count;   // results
  uint32_t before;  // results of the same row of the input before the first
  uint32_t behind;  // and from the first on
  uint32_t across;  // threads in a row

  DEVRT_HOST_DEVICE ColumnGroup(const ReduceArgs& args, uint64_t group) {
    across = kThreads / args.lanes;
    const uint64_t columns = args.kept.axes == 1
                                 ? args.kept.elements
                                 : static_cast<uint64_t>(args.kept.extents[0]);
    const uint64_t outer = group / args.column_groups;
    const uint64_t at =
        (group - outer * args.column_groups) * args.group_columns;
    const uint64_t rest = columns - at;
    first = outer * columns + at;
    count = static_cast<uint32_t>(
        rest < args.group_columns ? rest : args.group_columns);
    before = static_cast<uint32_t>(at < kThreads ? at : kThreads);
    behind = static_cast<uint32_t>(rest < kMostBehind ? rest : kMostBehind);
  }

 private:
  static constexpr uint64_t kMostBehind = kThreads * 16;
};

// The aligned packs of a thread: those of its first row, and what they are of.
template <typename T, int kPack>
struct ColumnPacks {
  // A pack as it is loaded.  As items the compiler would keep each byte in a
  // register of its own.
  using Words = Pack<uint32_t, kPack* static_cast<int>(sizeof(T)) / 4>;
  const char* from;
  int32_t column;   // the first item's, counted from the group's first
  uint32_t lo, hi;  // the items that are of the row

  // `row` is where the group begins in the row.
  DEVRT_HOST_DEVICE ColumnPacks(const ColumnGroup& group, const char* row,
                                uint32_t thread) {
    const uint32_t skip = Skip(row);
    const uint32_t item = thread % group.across * kPack;
    from = row + (static_cast<int64_t>(item) - int64_t{skip}) *
                     static_cast<int64_t>(sizeof(T));
    column = static_cast<int32_t>(item) - static_cast<int32_t>(skip);
    const int32_t first = -static_cast<int32_t>(group.before);
    const int32_t rest = static_cast<int32_t>(group.behind) - column;
    lo = column < first ? static_cast<uint32_t>(first - column) : 0u;
    hi = rest < kPack ? static_cast<uint32_t>(rest < 0 ? 0 : rest) : kPack;
  }
  // Returns how many elements of the first pack are before the group.
  DEVRT_HOST_DEVICE static uint32_t Skip(const char* row) {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(row) %
                                 (sizeof(T) * kPack) / sizeof(T));
  }
  // The host has no memory around the elements.
  DEVRT_HOST_DEVICE Words Load(const char* at) const {
#if DEVRT_ON_DEVICE
    return *reinterpret_cast<const Words*>(at);
#else
    Words words = {};
    const uint64_t bytes = lo < hi ? (hi - lo) * sizeof(T) : 0;
    std::memcpy(reinterpret_cast<char*>(&words) + lo * sizeof(T),
                at + lo * sizeof(T), bytes);
    return words;
#endif
  }
};

// Adds the bytes of each column.
template <int kRows, typename T, int kPack, typename Words, typename Sum>
DEVRT_HOST_DEVICE void AddByteColumns(const Words* rows, Sum* sums) {
  for (int j = 0; j < kPack; ++j) sums[j] = 0;
  for (int i = 0; i < kRows; ++i) {
#if defined(__CUDA_ARCH__)
    // The product with a word of a single 1 takes out a byte.
    for (int j = 0; j < kPack; ++j) {
      sums[j] = __dp4a(static_cast<Sum>(rows[i].items[j / 4]),
                       static_cast<Sum>(1 << 8 * (j % 4)), sums[j]);
    }
#else
    Pack<T, kPack> pack;
    CopyBytes(&pack, &rows[i], sizeof pack);
    for (int j = 0; j < kPack; ++j) sums[j] += pack.items[j];
#endif
  }
}

// Folds kRows packs, `step` bytes apart, into all[].
template <typename T, int kPack, int kRows, typename Folding>
DEVRT_HOST_DEVICE void FoldRows(const Folding& folding,
                                const ColumnPacks<T, kPack>& mine,
                                const char* from, int64_t step,
                                typename Folding::Many* all) {
  typename ColumnPacks<T, kPack>::Words words[kRows];
  for (int i = 0; i < kRows; ++i) words[i] = mine.Load(from + step * i);
  typename Folding::Few folded[kPack];
  if constexpr (kSumsBytes<T, typename Folding::Operation>) {
    AddByteColumns<kRows, T, kPack>(words, folded);
  } else {
    Pack<T, kPack> packs[kRows];
    CopyBytes(packs, words, sizeof packs);
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

// Reduces `left` packs of a thread, kDeep at once.
template <typename T, int kPack, int kDeep, typename Folding>
DEVRT_HOST_DEVICE void ReduceRows(const Folding& folding,
                                  const ColumnPacks<T, kPack>& mine,
                                  int64_t step, uint64_t left,
                                  PartialType<T>* out) {
  using Many = typename Folding::Many;
  using Operation = typename Folding::Operation;
  PackLevels<Many, kPack> total(folding.NothingOfMany());
  const char* from = mine.from;
  Many all[kPack];
  for (; left >= kDeep; left -= kDeep, from += step * kDeep) {
    FoldRows<T, kPack, kDeep>(folding, mine, from, step, all);
    total.template Push<Operation>(all);
  }
  constexpr int kSome = kDeep / 4;
  for (; left >= kSome; left -= kSome, from += step * kSome) {
    FoldRows<T, kPack, kSome>(folding, mine, from, step, all);
    total.template Push<Operation>(all);
  }
  for (; left > 0; --left, from += step) {
    FoldRows<T, kPack, 1>(folding, mine, from, step, all);
    total.template Push<Operation>(all);
  }
  const Many* const results = total.template Finish<Operation>();
  for (int j = 0; j < kPack; ++j) out[j] = folding.Result(results[j]);
}

// Writes the thread's results to shared->columns.  It takes every args.lanes-th
// row from `begin` to `end`.
template <typename T, int kDeep>
DEVRT_HOST_DEVICE void ReduceThread(const ReduceArgs& args, const char* base,
                                    const ColumnGroup& group, uint64_t begin,
                                    uint64_t end, uint32_t thread,
                                    ColumnsShared<T>* shared) {
  constexpr int kPack = kColumnsPack<T>;
  const int64_t row = args.reduced.strides[0][0];
  const uint64_t lane = begin + thread / group.across;
  const uint64_t left = lane < end ? (end - lane - 1) / args.lanes + 1 : 0;
  const ColumnPacks<T, kPack> mine(
      group, base + static_cast<int64_t>(lane) * row, thread);
  if (mine.column >= static_cast<int32_t>(group.count)) return;
  PartialType<T> results[kPack];
  WithFolding<T>(args.op, [&](const auto& folding) {
    ReduceRows<T, kPack, kDeep>(
        folding, mine, row * static_cast<int64_t>(args.lanes), left, results);
  });
  const uint32_t first = thread / group.across * group.count;
  for (int j = 0; j < kPack; ++j) {
    const int32_t column = mine.column + j;
    if (column < 0 || column >= static_cast<int32_t>(group.count)) continue;
    shared->columns[first + static_cast<uint32_t>(column)] = results[j];
  }
}

// Reduces one part of a group into the first of shared->columns.
template <typename T, int kDeep>
DEVRT_HOST_DEVICE void ReduceGroupPart(const ReduceArgs& args,
                                       const Block& block,
                                       const ColumnGroup& group, uint32_t part,
                                       ColumnsShared<T>* shared) {
  using P = PartialType<T>;
  const uint64_t begin = part * args.part_elements;
  const uint64_t rest = args.reduced.elements - begin;
  const uint64_t end =
      begin + (rest < args.part_elements ? rest : args.part_elements);
  const char* const base = static_cast<const char*>(args.in.data) +
                           args.kept.OffsetOf(group.first, 0);
  block.Together([&](uint32_t thread) {
    ReduceThread<T, kDeep>(args, base, group, begin, end, thread, shared);
  });
  for (uint32_t width = args.lanes / 2; width > 0; width /= 2) {
    block.Together([&](uint32_t thread) {
      const uint32_t count = width * group.count;
      DEVRT_NOT_UNROLLED
      for (uint32_t i = thread; i < count; i += kThreads) {
        P* const mine = &shared->columns[i];
        *mine = Combine(args.op, *mine, mine[count]);
      }
    });
  }
}

// Writes the results of a group to memory.
template <typename T>
DEVRT_HOST_DEVICE void StoreColumns(const ReduceArgs& args, const Block& block,
                                    const ColumnGroup& group,
                                    const ColumnsShared<T>& shared) {
  block.Together([&](uint32_t thread) {
    for (uint32_t i = thread; i < group.count; i += kThreads) {
      StoreResult<T>(args, group.first + i, shared.columns[i]);
    }
  });
}

// Writes a part of a group to the slot's memory.
template <typename T>
DEVRT_HOST_DEVICE void PutPart(const ReduceArgs& args, const Block& block,
                               const ColumnGroup& group, uint32_t part,
                               const ColumnsShared<T>& shared,
                               PartialType<T>* parts) {
  block.Together([&](uint32_t thread) {
    for (uint32_t i = thread; i < group.count; i += kThreads) {
      parts[(group.first + i) * args.parts + part] = shared.columns[i];
    }
    Fence();
  });
}

// Combines a part of a group with those before, as CombineSome does once all
// parts are there.
template <typename T>
DEVRT_HOST_DEVICE void KeepPart(const ReduceArgs& args, const Block& block,
                                const ColumnGroup& group, uint32_t part,
                                ColumnsShared<T>* shared) {
  using P = PartialType<T>;
  const Lanes lanes = LanesOfParts(args, group.count);
  block.Together([&](uint32_t thread) {
    for (uint32_t i = thread; i < group.count; i += kThreads) {
      P* const mine = &shared->kept[i * lanes.count];
      if (part == 0) {
        for (uint32_t k = 0; k < lanes.count; ++k) {
          mine[k] = Neutral<P>(args.op);
        }
      }
      P* const one = mine + part % lanes.count;
      *one = Combine(args.op, *one, shared->columns[i]);
    }
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

// The parts that a thread loads at once where the last block combines them.
inline constexpr uint32_t kColumnPartsAtOnce = 16;

// devrt_columns_<dtype>
template <typename T, int kDeep = sizeof(T) == 1 ? 16 : 8>
DEVRT_HOST_DEVICE void ColumnsBlock(const ReduceArgs& args, const Block& block,
                                    ColumnsSlot* slots,
                                    ColumnsShared<T>* shared) {
  using P = PartialType<T>;
  uint64_t number = block.index, step = block.count;
  uint32_t begin = 0, end = 1;  // parts
  ColumnsSlot* slot = nullptr;
  if (args.parts > 1) {
    slot = args.lease != 0 ? &slots[ColumnsSlot::kCount + args.lease - 1]
                           : &slots[args.ticket % ColumnsSlot::kCount];
    if (args.lease != 0 || LoadFresh(&slot->owner) == args.ticket) {
      number = block.index % args.groups;
      step = args.groups;
      begin = static_cast<uint32_t>(block.index / args.groups);
      end = begin + 1;
    } else {
      if (block.index != 0) return;
      slot = nullptr;
      step = 1;
      end = args.parts;
    }
  }
  P* const parts =
      slot == nullptr ? nullptr : reinterpret_cast<P*>(slot->partials);
  for (; number < args.groups; number += step) {
    const ColumnGroup group(args, number);
    for (uint32_t part = begin; part < end; ++part) {
      ReduceGroupPart<T, kDeep>(args, block, group, part, shared);
      if (args.parts == 1) {
        StoreColumns<T>(args, block, group, *shared);
      } else if (slot != nullptr) {
        PutPart<T>(args, block, group, part, *shared, parts);
      } else {
        KeepPart<T>(args, block, group, part, shared);
      }
    }
    if (args.parts == 1) continue;
    const Lanes lanes = LanesOfParts(args, group.count);
    if (slot == nullptr) {
      StoreCombined<T>(args, block, group.first, group.count, lanes,
                       shared->columns, [&](uint64_t result, uint32_t lane) {
                         return shared->kept[result * lanes.count + lane];
                       });
      continue;
    }
    if (!IsLastAt(block, &slot->group_done[number], args.parts,
                  &shared->is_last)) {
      continue;
    }
    StoreCombined<T>(args, block, group.first, group.count, lanes,
                     shared->columns, [&](uint64_t result, uint32_t lane) {
                       return CombineSome<kColumnPartsAtOnce>(
                           args, lanes, lane,
                           parts + (group.first + result) * args.parts);
                     });
  }
  if (slot == nullptr || args.lease != 0) return;
  if (!IsLastAt(block, &slot->done, block.count, &shared->is_last)) return;
  block.ForEachThread([&](uint32_t thread) {
    if (thread == 0) (void)AtomicExchange(&slot->owner, 0);
  });
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_COLUMNS_KERNEL_H_
