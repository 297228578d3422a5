// SPDX-License-Identifier: Apache-2.0

#include "backends/gpu/fast_paths.h"

#include <algorithm>

#include "backends/gpu/rows_kernel.h"
#include "backends/gpu/turn_kernel.h"
#include "backends/tensor/dtype.h"
#include "backends/tensor/tensor.h"

namespace devrt::gpu {

const TileKernel kTileKernels[kTileKernelCount] = {
#define DEVRT_KERNEL_TILE(name, type, side) \
  {#name, sizeof(type), side, side, 0, false, TurnRows::kAny},
#define DEVRT_KERNEL_TURN(name, type, x, y, rows) \
  {#name,                                         \
   sizeof(type),                                  \
   Turn<type, x, y, TurnRows::rows>::kSideX,      \
   Turn<type, x, y, TurnRows::rows>::kSideY,      \
   Turn<type, x, y, TurnRows::rows>::kLeading,    \
   true,                                          \
   TurnRows::rows},
#include "backends/gpu/kernel_tiles.inc"
#undef DEVRT_KERNEL_TURN
#undef DEVRT_KERNEL_TILE
};

namespace {

using Path = FastApply::Path;
using tensor::DtypeClass;
using tensor::Magnitude;
using ApplyWalk = Walk<ApplyArgs::kOperands>;

// The bytes of an element.  The dtype was checked before.
constexpr uint32_t DtypeSize(uint32_t dtype) { return (dtype & 0xff) / 8; }

struct Launchable {
  const ApplyWalk& walk;
  const Operand* operands;
  int count;

  bool IsAligned() const {
    for (int i = 0; i < count; ++i) {
      if (operands[i].is_aligned == 0) return false;
    }
    return true;
  }
};

unsigned BlocksFor(uint64_t units, uint64_t per_thread) {
  const uint64_t per_block = per_thread * kThreads;
  return static_cast<unsigned>((units + per_block - 1) / per_block);
}

// ---- Rows and casts

// Returns true if packs of `pack` elements of that operand are adjacent and
// aligned, or repeat one element.
bool HasPacks(const Launchable& l, int operand, int64_t pack) {
  const int64_t item = DtypeSize(l.operands[operand].dtype);
  const int64_t inner = l.walk.strides[0][operand];
  if (inner == 0) return operand > 0;
  if (inner != item) return false;
  uint64_t bits = reinterpret_cast<uintptr_t>(l.operands[operand].data);
  for (uint32_t k = 1; k < l.walk.axes; ++k) {
    bits |= static_cast<uint64_t>(l.walk.strides[k][operand]);
  }
  const int64_t together = std::min<int64_t>(item * pack, 16);
  return bits % static_cast<uint64_t>(together) == 0;
}

bool IsPacked(const Launchable& l, int64_t pack) {
  if (l.walk.extents[0] % pack != 0) return false;
  for (int i = 0; i < l.count; ++i) {
    if (!HasPacks(l, i, pack)) return false;
  }
  return true;
}

// Returns true if they fit.
bool PackRows(const Launchable& l, uint32_t op, int64_t pack, RowsArgs* rows) {
  const ApplyWalk& walk = l.walk;
  rows->is_packed = IsPacked(l, pack) ? 1 : 0;
  const int64_t unit = rows->is_packed != 0 ? pack : 1;
  const uint64_t units = walk.elements / static_cast<uint64_t>(unit);
  if (units >= kDivisibleEnd || walk.axes > RowsArgs::kMostAxes) return false;
  rows->op = op;
  rows->out_dtype = l.operands[0].dtype;
  rows->units = static_cast<uint32_t>(units);
  rows->is_same = 0;
  rows->axes = walk.axes;
  for (int i = 0; i < l.count; ++i) {
    rows->data[i] = l.operands[i].data;
    if (walk.strides[0][i] == 0) rows->is_same |= 1u << i;
    for (uint32_t k = 0; k < walk.axes; ++k) {
      rows->strides[k][i] = walk.strides[k][i] * (k == 0 ? unit : 1);
    }
  }
  for (uint32_t k = 0; k + 1 < walk.axes; ++k) {
    const int64_t extent = walk.extents[k] / (k == 0 ? unit : 1);
    rows->extents[k] = Divisor::Of(static_cast<uint64_t>(extent));
  }
  return true;
}

// A copy of bools changes bits: their bytes become 0 or 1.
unsigned RowsBlocks(const RowsArgs& rows, uint32_t kernel) {
  if (rows.op == DEVRT_OP_COPY && kernel != DEVRT_BOOL) {
    return BlocksFor(rows.units, kCopied);
  }
  if (rows.is_packed != 0) return BlocksFor(rows.units, 1);
  const int pack = RowsPack(DtypeSize(kernel));
  return BlocksFor(rows.units, static_cast<uint64_t>(SpreadCount(pack)));
}

bool IsInteger(DtypeClass kind) {
  return kind == DtypeClass::kSigned || kind == DtypeClass::kUnsigned;
}

uint32_t UnsignedOf(uint32_t dtype) {
  return DEVRT_DTYPE(1, DtypeSize(dtype) * 8);
}

// Finds the cast kernel, and the dtype that it casts to: equal casts share
// code.  Returns false if there is none.  A pair of one dtype is a plain copy.
bool CastOf(uint32_t* from, uint32_t* to) {
  const DtypeClass source = tensor::ClassOf(*from);
  const DtypeClass target = tensor::ClassOf(*to);
  for (const DtypeClass kind : {source, target}) {
    if (kind == DtypeClass::kFloat8 || kind == DtypeClass::kComplex) {
      return false;
    }
  }
  const bool keeps_bits =
      IsInteger(source) &&
      (target == DtypeClass::kBool ||
       (IsInteger(target) && DtypeSize(*from) >= DtypeSize(*to)));
  if (keeps_bits) *from = UnsignedOf(*from);
  if (IsInteger(target) && (IsInteger(source) || source == DtypeClass::kBool)) {
    *to = UnsignedOf(*to);
  }
  return true;
}

bool ChooseCast(const Launchable& l, FastApply* fast) {
  uint32_t from = l.operands[1].dtype, to = l.operands[0].dtype;
  if (!CastOf(&from, &to)) return false;
  if (from == to) {
    const int pack = RowsPack(DtypeSize(to));
    if (!PackRows(l, DEVRT_OP_COPY, pack, &fast->rows)) return false;
    fast->path = Path::kRows;
    fast->rows.out_dtype = to;
    fast->kernel = to;
    fast->blocks = RowsBlocks(fast->rows, fast->kernel);
    return true;
  }
  const int pack = CastPack(DtypeSize(from), DtypeSize(to));
  if (!PackRows(l, DEVRT_OP_COPY, pack, &fast->rows)) return false;
  fast->path = Path::kCast;
  fast->rows.out_dtype = to;
  fast->kernel = from;
  fast->blocks =
      BlocksFor(fast->rows.units,
                static_cast<uint64_t>(
                    fast->rows.is_packed != 0 ? CastPacks(pack) : kCastSpread));
  return true;
}

// The kernel whose type computes `op`.  `in`: the dtype of the first input.
uint32_t KernelDtype(uint32_t op, uint32_t out, uint32_t in) {
  if (op == DEVRT_OP_COPY) return tensor::RawDtype(out);
  if (op != DEVRT_OP_WHERE) return in;
  return out == DEVRT_BOOL ? DEVRT_UINT8 : tensor::RawDtype(out);
}

// Returns true for a copy whose rows are whole words of several elements, but
// too few or not aligned for packs.  `wide` is the walk by words.
bool WidenCopy(const Launchable& l, uint32_t* kernel, ApplyWalk* wide) {
  const uint64_t item = DtypeSize(*kernel);
  const ApplyWalk& walk = l.walk;
  auto bits = static_cast<uint64_t>(walk.extents[0]) * item;
  for (int i = 0; i < 2; ++i) {
    if (walk.strides[0][i] != static_cast<int64_t>(item)) return false;
    bits |= reinterpret_cast<uintptr_t>(l.operands[i].data);
    for (uint32_t k = 1; k < walk.axes; ++k) {
      bits |= static_cast<uint64_t>(walk.strides[k][i]);
    }
  }
  uint64_t word = sizeof(uint64_t);
  while (word > item && bits % word != 0) word /= 2;
  if (word <= item) return false;
  *kernel = DEVRT_DTYPE(1, word * 8);
  *wide = walk;
  wide->elements /= word / item;
  wide->extents[0] /= static_cast<int64_t>(word / item);
  for (int i = 0; i < 2; ++i) wide->strides[0][i] = static_cast<int64_t>(word);
  return true;
}

// The least bytes of a row from which words that are shifted are faster.
constexpr uint64_t kLeastShifted = 1024;

// Takes a copy of long rows that begin anywhere, whose elements are adjacent.
bool ChooseShift(const Launchable& l, FastApply* fast) {
  const ApplyWalk& walk = l.walk;
  const auto item = static_cast<int64_t>(DtypeSize(l.operands[0].dtype));
  const auto bytes = static_cast<uint64_t>(walk.extents[0] * item);
  if (walk.strides[0][0] != item || walk.strides[0][1] != item ||
      bytes < kLeastShifted || bytes >= kDivisibleEnd ||
      walk.axes > RowsArgs::kMostAxes) {
    return false;
  }
  // A row may begin within a word of the output.
  const uint64_t parts = (bytes + 7 + kShiftedBytes - 1) / kShiftedBytes;
  const uint64_t blocks =
      walk.elements / static_cast<uint64_t>(walk.extents[0]) * parts;
  if (blocks >= kDivisibleEnd) return false;
  RowsArgs* const rows = &fast->rows;
  rows->op = DEVRT_OP_COPY;
  rows->out_dtype = l.operands[0].dtype;
  rows->units = static_cast<uint32_t>(bytes);
  rows->axes = walk.axes;
  rows->extents[0] = Divisor::Of(parts);
  for (uint32_t k = 1; k + 1 < walk.axes; ++k) {
    rows->extents[k] = Divisor::Of(static_cast<uint64_t>(walk.extents[k]));
  }
  for (int i = 0; i < 2; ++i) {
    rows->data[i] = l.operands[i].data;
    for (uint32_t k = 1; k < walk.axes; ++k) {
      rows->strides[k][i] = walk.strides[k][i];
    }
  }
  fast->path = Path::kShift;
  fast->blocks = static_cast<unsigned>(blocks);
  return true;
}

// Sets the kernel and the number of blocks for rows whose arguments are set.
void SetRowsLaunch(FastApply* fast) {
  const RowsArgs& rows = fast->rows;
  bool is_bytes = false;
  if (rows.op == DEVRT_OP_ADD || rows.op == DEVRT_OP_SUB) {
    is_bytes = DtypeSize(fast->kernel) <= 2 && rows.is_packed != 0 &&
               rows.is_same == 0 && IsInteger(tensor::ClassOf(fast->kernel));
  }
  fast->path = is_bytes ? Path::kBytes : Path::kRows;
  fast->blocks = is_bytes ? BlocksFor(rows.units, kBytePacks)
                          : RowsBlocks(rows, fast->kernel);
}

bool ChooseRows(uint32_t op, const Launchable& l, FastApply* fast) {
  fast->kernel = KernelDtype(op, l.operands[0].dtype, l.operands[1].dtype);
  const int pack = RowsPack(DtypeSize(fast->kernel));
  ApplyWalk wide;
  const bool copies =
      op == DEVRT_OP_COPY && fast->kernel != DEVRT_BOOL && !IsPacked(l, pack);
  const bool widens = copies && WidenCopy(l, &fast->kernel, &wide);
  if (copies && DtypeSize(fast->kernel) < 8 && ChooseShift(l, fast)) {
    return true;
  }
  if (widens) {
    const Launchable words = {wide, l.operands, l.count};
    if (!PackRows(words, op, 1, &fast->rows)) return false;
  } else if (!PackRows(l, op, pack, &fast->rows)) {
    return false;
  }
  SetRowsLaunch(fast);
  return true;
}

// ---- Tiles

// The least extent from which tiles are faster.
constexpr int64_t kLeastTiled = 8;
// Input elements at most this far apart count as adjacent.
constexpr uint64_t kAdjacent = 32;

// Returns the axis on which the input's elements are adjacent if the output's
// are adjacent on another, the first.  0 if there is none.
uint32_t TurnedAxis(const Launchable& l) {
  uint32_t turned = 0;
  for (uint32_t k = 1; k < l.walk.axes; ++k) {
    const uint64_t stride = Magnitude(l.walk.strides[k][1]);
    if (stride != 0 && stride < Magnitude(l.walk.strides[turned][1])) {
      turned = k;
    }
  }
  const bool is_worth_it =
      turned != 0 && Magnitude(l.walk.strides[turned][1]) <= kAdjacent &&
      l.walk.extents[turned] >= kLeastTiled && l.walk.extents[0] >= kLeastTiled;
  return is_worth_it ? turned : 0;
}

// Returns true if the output's rows begin and end at multiples of kTurnLead.
bool AreOutRowsWhole(const Launchable& l) {
  const uint64_t item = DtypeSize(l.operands[0].dtype);
  uint64_t bits = reinterpret_cast<uintptr_t>(l.operands[0].data) |
                  static_cast<uint64_t>(l.walk.extents[0]) * item;
  for (uint32_t k = 1; k < l.walk.axes; ++k) {
    bits |= static_cast<uint64_t>(l.walk.strides[k][0]);
  }
  return bits % kTurnLead == 0;
}

// Elements that are adjacent on both axes have kernels of their own.
uint32_t FindTile(const Launchable& l, uint32_t turned) {
  const uint32_t item = DtypeSize(l.operands[0].dtype);
  const bool turns =
      l.walk.strides[turned][1] == item && l.walk.strides[0][0] == item;
  const TurnRows rows = AreOutRowsWhole(l) ? TurnRows::kWhole : TurnRows::kAny;
  uint32_t found = 0;
  for (uint32_t i = 0; i < kTileKernelCount; ++i) {
    const TileKernel& kernel = kTileKernels[i];
    if (kernel.item != item) continue;
    if (!kernel.is_turn || (turns && kernel.rows == rows)) found = i;
  }
  return found;
}

void SetOperands(const Launchable& l, uint32_t turned, TileArgs* args) {
  const ApplyWalk& walk = l.walk;
  args->is_bool = l.operands[0].dtype == DEVRT_BOOL ? 1 : 0;
  args->in = l.operands[1].data;
  args->out = l.operands[0].data;
  args->in_x = walk.strides[turned][1];
  args->in_y = walk.strides[0][1];
  args->out_x = walk.strides[turned][0];
  args->out_y = walk.strides[0][0];
}

bool ChooseTiles(const Launchable& l, FastApply* fast) {
  const ApplyWalk& walk = l.walk;
  const uint32_t turned = TurnedAxis(l);
  if (turned == 0 || walk.axes > 2 + TileArgs::kMostBatchAxes) return false;
  fast->kernel = FindTile(l, turned);
  const TileKernel& kernel = kTileKernels[fast->kernel];
  TileArgs* const args = &fast->tiles;
  const auto side = [&](uint32_t axis) {
    return uint64_t{axis == 0 ? kernel.side_y : kernel.side_x};
  };
  const auto tiles = [&](uint32_t axis) {
    const auto extent = static_cast<uint64_t>(walk.extents[axis]);
    const uint64_t lead = axis == 0 ? kernel.lead : 0;
    return (extent + lead + side(axis) - 1) / side(axis);
  };
  uint64_t all = 1;
  args->batch_axes = 0;
  for (uint32_t k = 0; k < walk.axes; ++k) {
    const bool is_batch = k != 0 && k != turned;
    const uint64_t extent =
        is_batch ? static_cast<uint64_t>(walk.extents[k]) : tiles(k);
    if (extent >= kDivisibleEnd || all * extent >= kDivisibleEnd) return false;
    all *= extent;
    if (!is_batch) {
      if (static_cast<uint64_t>(walk.extents[k]) + 2 * side(k) >=
          kDivisibleEnd) {
        return false;
      }
      continue;
    }
    args->batch[args->batch_axes] = Divisor::Of(extent);
    args->batch_strides[args->batch_axes][0] = walk.strides[k][1];
    args->batch_strides[args->batch_axes][1] = walk.strides[k][0];
    ++args->batch_axes;
  }
  args->extent_x = static_cast<uint32_t>(walk.extents[turned]);
  args->extent_y = static_cast<uint32_t>(walk.extents[0]);
  args->tiles = static_cast<uint32_t>(all);
  args->tiles_x = Divisor::Of(tiles(turned));
  args->tiles_y = Divisor::Of(tiles(0));
  SetOperands(l, turned, args);
  fast->path = Path::kTiles;
  fast->blocks = args->tiles;
  return true;
}

}  // namespace

void ChooseFast(uint32_t op, const ApplyWalk& walk, const Operand* operands,
                int count, FastApply* fast) {
  const Launchable l = {walk, operands, count};
  fast->path = Path::kNone;
  if (!l.IsAligned()) return;
  if (op != DEVRT_OP_COPY) {
    (void)ChooseRows(op, l, fast);
  } else if (operands[0].dtype != operands[1].dtype) {
    (void)ChooseCast(l, fast);
  } else if (!ChooseTiles(l, fast)) {
    (void)ChooseRows(op, l, fast);
  }
}

void ChooseFlat(uint32_t op, uint64_t elements,
                const devrt_tensor_v0* const* tensors, int count,
                FastApply* fast) {
  fast->path = Path::kNone;
  fast->kernel = KernelDtype(op, tensors[0]->dtype, tensors[1]->dtype);
  // Sizes are powers of two, and masks and shifts are faster than divisions.
  const int pack_bits = 4 - __builtin_ctz(DtypeSize(fast->kernel));
  RowsArgs* const rows = &fast->rows;
  uint64_t past_pack = elements & ((uint64_t{1} << pack_bits) - 1);
  uint64_t past_item = 0;
  for (int i = 0; i < count; ++i) {
    const uint64_t item = DtypeSize(tensors[i]->dtype);
    const uint64_t together = std::min<uint64_t>(item << pack_bits, 16);
    const auto address = reinterpret_cast<uintptr_t>(tensors[i]->data);
    past_pack |= address & (together - 1);
    past_item |= address & (item - 1);
    rows->data[i] = tensors[i]->data;
    rows->strides[0][i] = static_cast<int64_t>(item);
  }
  uint64_t units = elements;
  if (past_pack == 0) {
    units >>= pack_bits;
    for (int i = 0; i < count; ++i) rows->strides[0][i] <<= pack_bits;
  }
  if (past_item != 0 || units >= kDivisibleEnd) return;
  rows->op = op;
  rows->out_dtype = tensors[0]->dtype;
  rows->units = static_cast<uint32_t>(units);
  rows->is_packed = past_pack == 0 ? 1 : 0;
  rows->is_same = 0;
  rows->axes = 1;
  SetRowsLaunch(fast);
}

}  // namespace devrt::gpu
