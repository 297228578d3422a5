// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "backends/gpu/elementwise_kernel.h"
#include "backends/gpu/fast_args.h"
#include "backends/gpu/make_walk.h"
#include "backends/gpu/pack.h"

namespace devrt::gpu {

using tensor::Tensor;

namespace {

// The elements from which a lane is worth its work, and the elements in a lane
// from which a part of a result is.
constexpr uint64_t kPerLane = 16;
constexpr uint64_t kPerPart = 64;
// The number of adjacent results that makes whole cache lines.
constexpr uint64_t kSideBySide = 32;
// The number of results that keep a device busy with one lane each, and the
// number of blocks.
constexpr uint64_t kManyResults = 1 << 16;
constexpr uint64_t kMostBlocks = 1 << 20;

// Returns the largest power of two up to `value` and kThreads.
uint64_t PowerUpTo(uint64_t value) {
  uint64_t power = 1;
  while (power * 2 <= std::min<uint64_t>(value, kThreads)) power *= 2;
  return power;
}

// Returns the least power of two from `value` on, or kThreads.
uint64_t PowerFrom(uint64_t value) {
  uint64_t power = 1;
  while (power < std::min<uint64_t>(value, kThreads)) power *= 2;
  return power;
}

// ---- Adjacent elements

// Fewer bytes than these are gathered.
constexpr uint64_t kLeastAdjacent = 32;
// The bytes of a part that are worth a lane, and results that have a pack for
// each lane of a warp.
constexpr uint64_t kLeastOfLane = 64;
constexpr uint64_t kMostShort = 512;

// Returns how many blocks keep a device busy.  Fewer of the kernels that load
// more at once fit it: kAdjacentBlocks.
uint64_t BusyBlocks(const ReduceTuning& tuning, const ReduceArgs& args) {
  const tensor::DtypeClass kind = tensor::ClassOf(args.in.dtype);
  const bool loads_more = kind == tensor::DtypeClass::kFloat &&
                          args.op != DEVRT_REDUCE_ANY &&
                          args.op != DEVRT_REDUCE_ALL;
  return loads_more ? tuning.adjacent_float_blocks : tuning.adjacent_blocks;
}

void ChooseAdjacentParts(const ReduceTuning& tuning, ReduceArgs* args) {
  const uint64_t all = args->reduced.elements;
  const uint64_t results = args->kept.elements;
  if (results > Slot::kMostGroups) return;
  const uint64_t least =
      kThreads * kLeastOfLane /
      static_cast<uint64_t>(tensor::DtypeSize(args->in.dtype));
  const uint64_t parts = std::min({BusyBlocks(tuning, *args) / results,
                                   Slot::kMost / results, all / least});
  if (parts < 2) return;
  args->lanes = kThreads;
  const uint64_t share = (all + parts - 1) / parts;
  args->part_elements = (share + least - 1) / least * least;
  args->parts = static_cast<uint32_t>((all + args->part_elements - 1) /
                                      args->part_elements);
}

// Returns true if a kernel for adjacent elements takes the reduction.
bool ChooseAdjacent(const ReduceTuning& tuning, ReduceArgs* args) {
  const auto item = static_cast<uint64_t>(tensor::DtypeSize(args->in.dtype));
  const uint64_t bytes = args->reduced.elements * item;
  if (args->reduced.axes != 1 || args->in.is_aligned == 0 ||
      args->reduced.strides[0][0] != static_cast<int64_t>(item) ||
      bytes < kLeastAdjacent || args->kept.elements >= kDivisibleEnd) {
    return false;
  }
  args->lanes_adjacent = 1;
  args->parts = 1;
  args->part_elements = args->reduced.elements;
  if (bytes <= kMostShort) {
    args->kind = ReduceKind::kShort;
    args->lanes = static_cast<uint32_t>(PowerFrom(bytes / 16));
    return true;
  }
  args->lanes = static_cast<uint32_t>(
      PowerUpTo(std::max<uint64_t>(bytes / tuning.lane_bytes, 1)));
  ChooseAdjacentParts(tuning, args);
  // The kernel counts packs in 32 bits.
  if (args->part_elements * item / 16 >= kDivisibleEnd) return false;
  args->kind = ReduceKind::kAdjacent;
  return true;
}

uint64_t AdjacentBlocks(const ReduceTuning& tuning, const ReduceArgs& args) {
  const uint64_t rows = args.kind == ReduceKind::kShort ? tuning.short_rows : 1;
  const uint64_t per_block = kThreads / args.lanes * rows;
  return (args.kept.elements + per_block - 1) / per_block * args.parts;
}

// ---- Elements anywhere

// Neighbouring threads read neighbouring memory: elements of one result, or of
// several.
void ChooseLanes(ReduceArgs* args) {
  const uint64_t results = args->kept.elements;
  const uint64_t most = PowerUpTo(args->reduced.elements / kPerLane);
  const bool several =
      results > 1 && tensor::Magnitude(args->kept.strides[0][0]) <
                         tensor::Magnitude(args->reduced.strides[0][0]);
  args->lanes_adjacent = several ? 0 : 1;
  if (!several) {
    args->lanes = static_cast<uint32_t>(most);
  } else if (results >= kManyResults) {
    args->lanes = 1;
  } else {
    const uint64_t beside = PowerUpTo(std::min(2 * results - 1, kSideBySide));
    args->lanes = static_cast<uint32_t>(std::min(most, kThreads / beside));
  }
}

void ChooseParts(const ReduceTuning& tuning, ReduceArgs* args) {
  const uint64_t all = args->reduced.elements;
  const uint64_t results = args->kept.elements;
  const uint64_t per_block = kThreads / args->lanes;
  const uint64_t blocks = (results + per_block - 1) / per_block;
  const uint64_t least = args->lanes * kPerPart;
  const uint64_t parts =
      std::min({tuning.blocks / blocks, Slot::kMost / results,
                Slot::kMostOfGroup / per_block, all / least});
  args->parts = 1;
  args->part_elements = all;
  if (parts < 2) return;
  const uint64_t share = (all + parts - 1) / parts;
  args->part_elements = (share + least - 1) / least * least;
  args->parts = static_cast<uint32_t>((all + args->part_elements - 1) /
                                      args->part_elements);
}

// ---- Columns

// The elements of one result that are worth a thread, and in a thread those
// that are worth a part.
constexpr uint64_t kPerRowThread = 4;
constexpr uint64_t kPerColumnsPart = 16;
// Fewer parts cost more than they gain.
constexpr uint64_t kLeastColumnParts = 3;
// With fewer blocks than this, groups are made smaller, down to kLeastAcross
// bytes.
constexpr uint64_t kFewColumnBlocks = 192;
constexpr uint64_t kLeastAcross = 32;
// The least bytes of a row of threads that has results to itself, where rows
// begin at packs.
constexpr uint64_t kLeastAlone = 128;

uint64_t PartialSize(uint32_t dtype) {
  if (dtype == DEVRT_COMPLEX128) return 16;
  const bool is_float = dtype == DEVRT_FLOAT16 || dtype == DEVRT_BFLOAT16 ||
                        dtype == DEVRT_FLOAT32;
  return is_float ? 4 : 8;
}

// Returns true if every row of the input begins at a pack.
bool RowsBeginAtPacks(const ReduceArgs& args, uint64_t bytes) {
  uint64_t bits = reinterpret_cast<uintptr_t>(args.in.data) |
                  static_cast<uint64_t>(args.reduced.strides[0][0]);
  for (uint32_t k = 1; k < args.kept.axes; ++k) {
    bits |= static_cast<uint64_t>(args.kept.strides[k][0]);
  }
  return bits % bytes == 0;
}

void ChooseColumnParts(const ReduceTuning& tuning, ReduceArgs* args) {
  const uint64_t all = args->reduced.elements;
  const uint64_t size = PartialSize(args->in.dtype);
  const uint64_t least = args->lanes * kPerColumnsPart;
  args->parts = 1;
  args->part_elements = all;
  if (args->groups > ColumnsSlot::kMostGroups) return;
  // The blocks that keep a device busy, or twice as many where they are too few
  // parts.
  uint64_t busy = tuning.columns_blocks / args->groups;
  if (busy < kLeastColumnParts) busy = 2 * tuning.columns_blocks / args->groups;
  const uint64_t parts = std::min(
      {busy, ColumnsSlot::kBytes / (size * args->kept.elements), all / least});
  if (parts < kLeastColumnParts) return;
  args->part_elements = (all + parts - 1) / parts;
  args->parts = static_cast<uint32_t>((all + args->part_elements - 1) /
                                      args->part_elements);
}

// Returns true if the columns kernel takes the reduction.
bool ChooseColumns(const ReduceTuning& tuning, ReduceArgs* args) {
  const Walk<2>& kept = args->kept;
  const int64_t item = tensor::DtypeSize(args->in.dtype);
  if (args->reduced.axes != 1 || args->in.is_aligned == 0 ||
      kept.elements == 1 || kept.strides[0][0] != item ||
      tensor::Magnitude(args->reduced.strides[0][0]) <=
          static_cast<uint64_t>(item)) {
    return false;
  }
  const uint64_t columns =
      kept.axes == 1 ? kept.elements : static_cast<uint64_t>(kept.extents[0]);
  const auto pack = static_cast<uint64_t>(ColumnsPack(item));
  const uint64_t pack_bytes = pack * static_cast<uint64_t>(item);
  // Elsewhere a row of threads takes a pack less, since that much is missing
  // before and behind the results of some rows.  The rows that a thread takes
  // begin alike if as many rows as a pack has elements are between them.
  const bool begin_at_packs = RowsBeginAtPacks(*args, pack_bytes);
  const uint64_t extra = begin_at_packs ? 0 : pack;
  const uint64_t least = begin_at_packs ? 1 : 2;
  const uint64_t most =
      std::max(std::min(PowerFrom((columns + extra + pack - 1) / pack),
                        begin_at_packs ? kThreads : kThreads / pack),
               least);
  const uint64_t rows =
      PowerUpTo(std::max<uint64_t>(args->reduced.elements / kPerRowThread, 1));
  uint64_t across = std::min(
      most, std::max({tuning.across / pack_bytes, kThreads / rows, least}));
  const auto share = [&](uint64_t threads) {
    args->lanes = static_cast<uint32_t>(kThreads / threads);
    const uint64_t width = threads * pack - extra;
    args->group_columns = static_cast<uint32_t>(width);
    args->column_groups = (columns + width - 1) / width;
    args->groups = args->column_groups * (kept.elements / columns);
    ChooseColumnParts(tuning, args);
  };
  // Of elements of 8 bytes, two blocks fit a multiprocessor.  A few blocks more
  // than fit at once would take as long as all before.
  share(across);
  if (item == 8 && across * 2 <= most && args->groups > tuning.columns_blocks &&
      args->groups < tuning.columns_blocks * 3 / 2) {
    across *= 2;
  }
  // Without parts if that keeps a device busy: parts of results are written,
  // read and waited for.
  const uint64_t enough = begin_at_packs ? tuning.columns_blocks * 15 / 16
                                         : tuning.columns_blocks / 2;
  const uint64_t alone_least = begin_at_packs ? kLeastAlone : 2 * kLeastAlone;
  for (uint64_t alone = across; alone * pack_bytes >= alone_least; alone /= 2) {
    share(alone);
    if (args->groups < enough) continue;
    args->parts = 1;
    args->part_elements = args->reduced.elements;
    return true;
  }
  share(across);
  while (args->groups * args->parts < kFewColumnBlocks && across > least &&
         across * pack_bytes > kLeastAcross) {
    share(across /= 2);
  }
  return true;
}

}  // namespace

unsigned PackReduce(uint32_t op, const Tensor& out, const Tensor& in,
                    uint32_t axes, ReduceArgs* args,
                    const ReduceTuning& tuning) {
  *args = {};
  args->op = op;
  args->out = OperandOf(out);
  args->in = OperandOf(in);
  const Tensor* const both[] = {&in, &out};
  MakeWalk(both, 2, tensor::OrderAxes(in, ~axes), &args->kept);
  MakeWalk(both, 1, tensor::OrderAxes(in, axes), &args->reduced);
  if (ChooseAdjacent(tuning, args)) {
    return static_cast<unsigned>(AdjacentBlocks(tuning, *args));
  }
  if (ChooseColumns(tuning, args)) {
    args->kind = ReduceKind::kColumns;
    return static_cast<unsigned>(std::min(args->groups, kMostBlocks) *
                                 args->parts);
  }
  ChooseLanes(args);
  ChooseParts(tuning, args);
  const uint64_t per_block = kThreads / args->lanes;
  const uint64_t blocks = (args->kept.elements + per_block - 1) / per_block;
  return static_cast<unsigned>(std::min(blocks, kMostBlocks) * args->parts);
}

unsigned PackNeutral(uint32_t op, const Tensor& out, FillArgs* args) {
  const uint64_t one =
      op == DEVRT_REDUCE_PROD || op == DEVRT_REDUCE_ALL ? 1 : 0;
  uint8_t value[16] = {};
  StoreAs(one, out.dtype, value, false);
  return PackFill(out, value, args);
}

}  // namespace devrt::gpu
