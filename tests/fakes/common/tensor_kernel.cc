// SPDX-License-Identifier: Apache-2.0
//
// The kernels of backends/gpu on tensors: their own code, compiled for the host
// and run thread by thread on the simulated device's view of memory.
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "backends/gpu/elementwise_kernel.h"
#include "backends/gpu/reduce_kernel.h"
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

// Makes `operand` what the body may touch: that operand's bytes of the walk.
template <int kOperands>
bool Locate(const devrt_kernel_context_v0& context,
            const gpu::Walk<kOperands>& walk, int operand, uint32_t mode,
            Operand* out) {
  int64_t low = 0;
  int64_t high = tensor::DtypeSize(out->dtype);
  for (uint32_t k = 0; k < walk.axes; ++k) {
    const int64_t span = (walk.extents[k] - 1) * walk.strides[k][operand];
    (span < 0 ? low : high) += span;
  }
  char* const first = static_cast<char*>(out->data) + low;
  auto* const local = static_cast<char*>(
      context.local(&context, first, static_cast<uint64_t>(high - low), mode));
  if (local == nullptr) return false;
  if ((local - first) % 16 != 0) {
    Die("the simulated memory is aligned to less than 16 bytes");
  }
  out->data = local - low;
  return true;
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

// The slots of the module that was loaded there, zero at first.
gpu::Slot* SlotsOf(const void* modules) {
  static auto* const mutex = new std::mutex();
  static auto* const slots =
      new std::map<const void*, std::unique_ptr<gpu::Slot[]>>();
  const std::lock_guard<std::mutex> lock(*mutex);
  std::unique_ptr<gpu::Slot[]>& mine = (*slots)[modules];
  if (mine == nullptr) mine.reset(new gpu::Slot[gpu::kSlots]());
  return mine.get();
}

int LaunchClaim(const Work& work, const Grid& grid, void** arguments) {
  if (grid.blocks != 1 || grid.threads != 1) Die("a claim is one thread's");
  uint32_t ticket;
  std::memcpy(&ticket, arguments[0], sizeof ticket);
  gpu::Slot* const slots = SlotsOf(work.modules);
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
  gpu::Slot* const slots = SlotsOf(work.modules);
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

constexpr Kernel kKernels[] = {
    {"devrt_fill", &LaunchFill},
    {"devrt_convert", &LaunchApply<&gpu::ConvertBlock>},
    {"devrt_reduce_claim", &LaunchClaim},
#define DEVRT_KERNEL_DTYPE(name, dtype, type)                   \
  {"devrt_apply_" #name, &LaunchApply<&gpu::ApplyBlock<type>>}, \
      {"devrt_reduce_" #name, &LaunchReduce<type>},
#include "backends/gpu/kernel_dtypes.inc"
#undef DEVRT_KERNEL_DTYPE
};

}  // namespace

const Kernel* FindTensorKernel(const char* name) {
  for (const Kernel& kernel : kKernels) {
    if (std::strcmp(kernel.name, name) == 0) return &kernel;
  }
  return nullptr;
}

}  // namespace devrt::fake
