// SPDX-License-Identifier: Apache-2.0
//
// The kernels of backends/gpu on tensors: their own code, compiled for the host
// and run thread by thread on the simulated device's view of memory.
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "backends/gpu/adjacent_kernel.h"
#include "backends/gpu/columns_kernel.h"
#include "backends/gpu/elementwise_kernel.h"
#include "backends/gpu/reduce_kernel.h"
#include "backends/gpu/rows_kernel.h"
#include "backends/gpu/tile_kernel.h"
#include "backends/gpu/turn_kernel.h"
#include "backends/tensor/tensor.h"
#include "tests/fakes/common/kernel.h"
#include "tests/fakes/common/options.h"
#include "tests/fakes/common/simulator.h"

namespace devrt::fake {
namespace {

using gpu::ApplyArgs;
using gpu::Block;
using gpu::FillArgs;
using gpu::Operand;
using gpu::ReduceArgs;

// The bytes of an operand, from its first element.
struct Range {
  int64_t low, high;
  void Add(uint64_t extent, int64_t stride) {
    const int64_t span = static_cast<int64_t>(extent - 1) * stride;
    (span < 0 ? low : high) += span;
  }
};

// Makes `*data` what the body may touch.
template <typename Data>
bool Locate(const devrt_kernel_context_v0& context, const Range& range,
            uint32_t mode, Data** data) {
  char* const first =
      static_cast<char*>(const_cast<void*>(static_cast<const void*>(*data))) +
      range.low;
  auto* const local = static_cast<char*>(context.local(
      &context, first, static_cast<uint64_t>(range.high - range.low), mode));
  if (local == nullptr) return false;
  if ((local - first) % 16 != 0) {
    Die("the simulated memory is aligned to less than 16 bytes");
  }
  *data = local - range.low;
  return true;
}

// That operand's bytes of the walk.
template <int kOperands>
bool Locate(const devrt_kernel_context_v0& context,
            const gpu::Walk<kOperands>& walk, int operand, uint32_t mode,
            Operand* out) {
  Range range = {0, tensor::DtypeSize(out->dtype)};
  for (uint32_t k = 0; k < walk.axes; ++k) {
    range.Add(static_cast<uint64_t>(walk.extents[k]), walk.strides[k][operand]);
  }
  return Locate(context, range, mode, &out->data);
}

template <typename Args>
Args ArgsOf(const Grid& grid, void** arguments) {
  if (grid.threads != gpu::kThreads) {
    Die("a kernel on tensors is launched with %u threads, not %u", grid.threads,
        gpu::kThreads);
  }
  Args args;
  std::memcpy(&args, arguments[0], sizeof args);
  return args;
}

template <void (*kBlock)(const ApplyArgs&, const Block&)>
int LaunchApply(const Work& work, const Grid& grid, void** arguments) {
  const auto args = ArgsOf<ApplyArgs>(grid, arguments);
  const unsigned blocks = grid.blocks;
  return engine::LaunchBody(
      work.sim, "apply", [args, blocks](const devrt_kernel_context_v0& c) {
        ApplyArgs local = args;
        if (local.walk.elements == 0) return;
        for (int i = 0; i < ApplyArgs::kOperands; ++i) {
          Operand* const operand = &local.operands[i];
          if (operand->data == nullptr) continue;
          const uint32_t mode = i == 0 ? DEVRT_ACCESS_WRITE : DEVRT_ACCESS_READ;
          if (!Locate(c, local.walk, i, mode, operand)) return;
        }
        for (unsigned i = 0; i < blocks; ++i) kBlock(local, Block{i, blocks});
      });
}

// `items` are the bytes of an element of each operand, `pack` how many elements
// a unit has.
bool LocateRows(const devrt_kernel_context_v0& context, const int64_t* items,
                int64_t pack, gpu::RowsArgs* args) {
  for (int i = 0; i < gpu::RowsArgs::kOperands && items[i] != 0; ++i) {
    const bool is_pack = args->is_packed != 0 && (args->is_same >> i & 1) == 0;
    Range range = {0, is_pack ? items[i] * pack : items[i]};
    uint64_t last = args->units;
    for (uint32_t k = 0; k < args->axes; ++k) {
      const bool is_last = k + 1 == args->axes;
      const uint64_t extent = is_last ? last : args->extents[k].number;
      range.Add(extent, args->strides[k][i]);
      last /= extent;
    }
    const uint32_t mode = i == 0 ? DEVRT_ACCESS_WRITE : DEVRT_ACCESS_READ;
    if (!Locate(context, range, mode, &args->data[i])) return false;
  }
  return true;
}

template <typename T>
int LaunchRows(const Work& work, const Grid& grid, void** arguments) {
  const auto args = ArgsOf<gpu::RowsArgs>(grid, arguments);
  const unsigned blocks = grid.blocks;
  return engine::LaunchBody(
      work.sim, "rows", [args, blocks](const devrt_kernel_context_v0& c) {
        gpu::RowsArgs local = args;
        if (local.units == 0) return;
        const auto out = int64_t{tensor::DtypeSize(local.out_dtype)};
        const int64_t item = sizeof(T);
        const bool where = local.op == DEVRT_OP_WHERE;
        const int64_t items[] = {out, where ? 1 : item,
                                 local.op >= DEVRT_OP_ADD ? item : 0,
                                 where ? item : 0};
        if (!LocateRows(c, items, gpu::RowsPack(sizeof(T)), &local)) return;
        for (unsigned i = 0; i < blocks; ++i) {
          gpu::RowsBlock<T>(local, Block{i, blocks});
        }
      });
}

template <typename From>
int LaunchCast(const Work& work, const Grid& grid, void** arguments) {
  const auto args = ArgsOf<gpu::RowsArgs>(grid, arguments);
  const unsigned blocks = grid.blocks;
  return engine::LaunchBody(
      work.sim, "cast", [args, blocks](const devrt_kernel_context_v0& c) {
        gpu::RowsArgs local = args;
        if (local.units == 0) return;
        const auto out = int64_t{tensor::DtypeSize(local.out_dtype)};
        const int64_t items[] = {out, sizeof(From), 0, 0};
        const int pack = gpu::CastPack(sizeof(From), static_cast<size_t>(out));
        if (!LocateRows(c, items, pack, &local)) return;
        for (unsigned i = 0; i < blocks; ++i) {
          gpu::CastBlock<From>(local, Block{i, blocks});
        }
      });
}

int LaunchBytes(const Work& work, const Grid& grid, void** arguments) {
  const auto args = ArgsOf<gpu::RowsArgs>(grid, arguments);
  const unsigned blocks = grid.blocks;
  return engine::LaunchBody(
      work.sim, "bytes", [args, blocks](const devrt_kernel_context_v0& c) {
        gpu::RowsArgs local = args;
        if (local.units == 0) return;
        const int64_t items[] = {1, 1, 1, 0};
        if (!LocateRows(c, items, gpu::RowsPack(1), &local)) return;
        for (unsigned i = 0; i < blocks; ++i) {
          for (uint32_t thread = 0; thread < gpu::kThreads; ++thread) {
            gpu::BytesThread(local, i, thread);
          }
        }
      });
}

int LaunchShift(const Work& work, const Grid& grid, void** arguments) {
  const auto args = ArgsOf<gpu::RowsArgs>(grid, arguments);
  const unsigned blocks = grid.blocks;
  return engine::LaunchBody(
      work.sim, "shift", [args, blocks](const devrt_kernel_context_v0& c) {
        gpu::RowsArgs local = args;
        if (local.units == 0) return;
        for (int i = 0; i < 2; ++i) {
          Range range = {0, int64_t{local.units}};
          uint64_t rows = blocks / local.extents[0].number;
          for (uint32_t k = 1; k < local.axes; ++k) {
            const uint64_t extent =
                k + 1 == local.axes ? rows : local.extents[k].number;
            range.Add(extent, local.strides[k][i]);
            rows /= extent;
          }
          const uint32_t mode = i == 0 ? DEVRT_ACCESS_WRITE : DEVRT_ACCESS_READ;
          if (!Locate(c, range, mode, &local.data[i])) return;
        }
        for (unsigned i = 0; i < blocks; ++i) {
          for (uint32_t thread = 0; thread < gpu::kThreads; ++thread) {
            gpu::ShiftThread(local, i, thread);
          }
        }
      });
}

bool LocateTiles(const devrt_kernel_context_v0& context, int64_t item,
                 gpu::TileArgs* args) {
  Range in = {0, item}, out = {0, item};
  in.Add(args->extent_x, args->in_x);
  in.Add(args->extent_y, args->in_y);
  out.Add(args->extent_x, args->out_x);
  out.Add(args->extent_y, args->out_y);
  for (uint32_t k = 0; k < args->batch_axes; ++k) {
    in.Add(args->batch[k].number, args->batch_strides[k][0]);
    out.Add(args->batch[k].number, args->batch_strides[k][1]);
  }
  return Locate(context, in, DEVRT_ACCESS_READ, &args->in) &&
         Locate(context, out, DEVRT_ACCESS_WRITE, &args->out);
}

template <typename T, typename Tile>
int LaunchTiles(const Work& work, const Grid& grid, void** arguments) {
  const auto args = ArgsOf<gpu::TileArgs>(grid, arguments);
  const unsigned blocks = grid.blocks;
  return engine::LaunchBody(
      work.sim, "tiles", [args, blocks](const devrt_kernel_context_v0& c) {
        gpu::TileArgs local = args;
        if (local.tiles == 0) return;
        if (!LocateTiles(c, sizeof(T), &local)) return;
        const auto shared = std::make_unique<typename Tile::Shared>();
        for (unsigned i = 0; i < blocks; ++i) {
          Tile::Run(local, Block{i, blocks}, shared.get());
        }
      });
}

int LaunchFill(const Work& work, const Grid& grid, void** arguments) {
  const auto args = ArgsOf<FillArgs>(grid, arguments);
  const unsigned blocks = grid.blocks;
  return engine::LaunchBody(
      work.sim, "fill", [args, blocks](const devrt_kernel_context_v0& c) {
        FillArgs local = args;
        if (local.walk.elements == 0) return;
        if (!Locate(c, local.walk, 0, DEVRT_ACCESS_WRITE, &local.out)) return;
        for (unsigned i = 0; i < blocks; ++i) {
          gpu::FillBlock(local, Block{i, blocks});
        }
      });
}

enum class Reduction { kReduce, kColumns, kAdjacent };

struct Freeing {
  void operator()(void* memory) const { std::free(memory); }
};

// The slots of the module that was loaded there, zero at first.  They are
// megabytes of which a program uses little, so the system makes them zero.
template <Reduction kWhich>
auto* SlotsOf(const void* modules) {
  using Slot = std::conditional_t<kWhich == Reduction::kColumns,
                                  gpu::ColumnsSlot, gpu::Slot>;
  static auto* const mutex = new std::mutex();
  static_assert(std::is_trivial_v<Slot>);
  static auto* const slots =
      new std::map<const void*, std::unique_ptr<Slot[], Freeing>>();
  const std::lock_guard<std::mutex> lock(*mutex);
  std::unique_ptr<Slot[], Freeing>& mine = (*slots)[modules];
  if (mine == nullptr) {
    mine.reset(static_cast<Slot*>(
        std::calloc(Slot::kCount + gpu::kLeasedSlots, sizeof(Slot))));
  }
  if (mine == nullptr) Die("out of memory");
  return mine.get();
}

template <Reduction kWhich>
int LaunchClaim(const Work& work, const Grid& grid, void** arguments) {
  if (grid.blocks != 1 || grid.threads != 1) Die("a claim is one thread's");
  uint32_t ticket;
  std::memcpy(&ticket, arguments[0], sizeof ticket);
  auto* const slots = SlotsOf<kWhich>(work.modules);
  return engine::LaunchBody(work.sim, "claim",
                            [slots, ticket](const devrt_kernel_context_v0&) {
                              gpu::ClaimSlot(slots, ticket);
                            });
}

bool LocateReduced(const devrt_kernel_context_v0& context, ReduceArgs* args) {
  if (!Locate(context, args->kept, 1, DEVRT_ACCESS_WRITE, &args->out)) {
    return false;
  }
  // The input is walked over both kinds of axes.
  gpu::Walk<1> all = args->reduced;
  if (all.elements == 1) all.axes = 0;  // so that 32 is enough
  for (uint32_t k = 0; k < args->kept.axes; ++k, ++all.axes) {
    all.extents[all.axes] = args->kept.extents[k];
    all.strides[all.axes][0] = args->kept.strides[k][0];
  }
  return Locate(context, all, 0, DEVRT_ACCESS_READ, &args->in);
}

template <typename T>
int LaunchReduce(const Work& work, const Grid& grid, void** arguments) {
  const auto args = ArgsOf<ReduceArgs>(grid, arguments);
  gpu::Slot* const slots = SlotsOf<Reduction::kReduce>(work.modules);
  const unsigned blocks = grid.blocks;
  return engine::LaunchBody(
      work.sim, "reduce",
      [args, slots, blocks](const devrt_kernel_context_v0& c) {
        ReduceArgs local = args;
        if (local.kept.elements == 0 || !LocateReduced(c, &local)) return;
        const auto shared =
            std::make_unique<gpu::Shared<gpu::PartialType<T>>>();
        for (unsigned i = 0; i < blocks; ++i) {
          gpu::ReduceBlock<T>(local, Block{i, blocks}, slots, shared.get());
        }
      });
}

template <typename T>
int LaunchColumns(const Work& work, const Grid& grid, void** arguments) {
  const auto args = ArgsOf<ReduceArgs>(grid, arguments);
  gpu::ColumnsSlot* const slots = SlotsOf<Reduction::kColumns>(work.modules);
  const unsigned blocks = grid.blocks;
  return engine::LaunchBody(
      work.sim, "columns",
      [args, slots, blocks](const devrt_kernel_context_v0& c) {
        ReduceArgs local = args;
        if (local.groups == 0 || !LocateReduced(c, &local)) return;
        const auto shared = std::make_unique<gpu::ColumnsShared<T>>();
        for (unsigned i = 0; i < blocks; ++i) {
          gpu::ColumnsBlock<T>(local, Block{i, blocks}, slots, shared.get());
        }
      });
}

template <typename T, typename Op>
int LaunchAdjacent(const Work& work, const Grid& grid, void** arguments) {
  const auto args = ArgsOf<ReduceArgs>(grid, arguments);
  gpu::Slot* const slots = SlotsOf<Reduction::kAdjacent>(work.modules);
  const unsigned blocks = grid.blocks;
  return engine::LaunchBody(
      work.sim, "adjacent",
      [args, slots, blocks](const devrt_kernel_context_v0& c) {
        ReduceArgs local = args;
        if (local.kept.elements == 0 || !LocateReduced(c, &local)) return;
        const auto shared = std::make_unique<gpu::AdjacentShared<T, Op>>();
        for (unsigned i = 0; i < blocks; ++i) {
          gpu::AdjacentBlock<T, Op>(local, Block{i, blocks}, slots,
                                    shared.get());
        }
      });
}

template <typename T, typename Op>
int LaunchShort(const Work& work, const Grid& grid, void** arguments) {
  const auto args = ArgsOf<ReduceArgs>(grid, arguments);
  const unsigned blocks = grid.blocks;
  return engine::LaunchBody(
      work.sim, "short", [args, blocks](const devrt_kernel_context_v0& c) {
        ReduceArgs local = args;
        if (local.kept.elements == 0 || !LocateReduced(c, &local)) return;
        gpu::PerThread<typename gpu::Folding<T, Op>::Few>
            shared[gpu::kShortRows];
        for (unsigned i = 0; i < blocks; ++i) {
          gpu::ShortBlock<T, Op>(local, Block{i, blocks}, shared);
        }
      });
}

constexpr Kernel kKernels[] = {
    {"devrt_fill", &LaunchFill},
    {"devrt_bytes", &LaunchBytes},
    {"devrt_shift", &LaunchShift},
    {"devrt_convert", &LaunchApply<&gpu::ConvertBlock>},
    {"devrt_reduce_claim", &LaunchClaim<Reduction::kReduce>},
    {"devrt_columns_claim", &LaunchClaim<Reduction::kColumns>},
    {"devrt_adjacent_claim", &LaunchClaim<Reduction::kAdjacent>},
#define ADJACENT(operation, name, type, Op)                            \
  {"devrt_adjacent_" #operation "_" #name, &LaunchAdjacent<type, Op>}, \
      {"devrt_short_" #operation "_" #name, &LaunchShort<type, Op>},
#define DEVRT_KERNEL_DTYPE(name, dtype, type)  \
  ADJACENT(sum, name, type, tensor::Add)       \
  ADJACENT(prod, name, type, tensor::Multiply) \
  ADJACENT(truth, name, type, gpu::BitOr)
#include "backends/gpu/kernel_dtypes.inc"
#undef DEVRT_KERNEL_DTYPE
#define DEVRT_KERNEL_DTYPE(name, dtype, type) \
  ADJACENT(min, name, type, tensor::Minimum)  \
  ADJACENT(max, name, type, tensor::Maximum)
#define DEVRT_REAL_DTYPES_ONLY
#include "backends/gpu/kernel_dtypes.inc"
#undef DEVRT_KERNEL_DTYPE
#undef ADJACENT
#define DEVRT_KERNEL_DTYPE(name, dtype, type)                   \
  {"devrt_apply_" #name, &LaunchApply<&gpu::ApplyBlock<type>>}, \
      {"devrt_rows_" #name, &LaunchRows<type>},                 \
      {"devrt_reduce_" #name, &LaunchReduce<type>},             \
      {"devrt_columns_" #name, &LaunchColumns<type>},
#include "backends/gpu/kernel_dtypes.inc"
#undef DEVRT_KERNEL_DTYPE
#define DEVRT_KERNEL_DTYPE(name, dtype, type) \
  {"devrt_cast_" #name, &LaunchCast<type>},
#define DEVRT_REAL_DTYPES_ONLY
#include "backends/gpu/kernel_dtypes.inc"
#undef DEVRT_KERNEL_DTYPE
#define DEVRT_KERNEL_TILE(name, type, side) \
  {"devrt_tile_" #name, &LaunchTiles<type, gpu::Tile<type, side>>},
#define DEVRT_KERNEL_TURN(name, type, x, y, rows) \
  {"devrt_turn_" #name,                           \
   &LaunchTiles<type, gpu::Turn<type, x, y, gpu::TurnRows::rows>>},
#include "backends/gpu/kernel_tiles.inc"
#undef DEVRT_KERNEL_TURN
#undef DEVRT_KERNEL_TILE
};

}  // namespace

const Kernel* FindTensorKernel(const char* name) {
  for (const Kernel& kernel : kKernels) {
    if (std::strcmp(kernel.name, name) == 0) return &kernel;
  }
  return nullptr;
}

}  // namespace devrt::fake
