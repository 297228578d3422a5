// SPDX-License-Identifier: Apache-2.0

#include "backends/gpu/pack.h"

#include <algorithm>
#include <cstring>

#include "backends/gpu/elementwise_kernel.h"
#include "backends/gpu/make_walk.h"
#include "backends/tensor/dtype.h"

namespace devrt::gpu {

using tensor::Tensor;

namespace {

// Blocks loop over more work than the grid has blocks.
constexpr uint64_t kMostBlocks = 1u << 20;

unsigned BlocksFor(uint64_t elements, uint64_t per_block) {
  const uint64_t blocks = (elements + per_block - 1) / per_block;
  return static_cast<unsigned>(std::min(blocks, kMostBlocks));
}

// Returns true if packs of `count` elements may be moved at once.
bool IsPacked(const ApplyArgs& args, int operands, int64_t count) {
  if (args.walk.axes != 1) return false;
  for (int i = 0; i < operands; ++i) {
    const int64_t item = tensor::DtypeSize(args.operands[i].dtype);
    const int64_t stride = args.walk.strides[0][i];
    if (i > 0 && stride == 0) continue;
    const auto address = reinterpret_cast<uintptr_t>(args.operands[i].data);
    const int64_t together = std::min<int64_t>(item * count, 16);
    if (stride != item || address % static_cast<uint64_t>(together) != 0) {
      return false;
    }
  }
  return true;
}

// All operands of a call, the output first.
struct Operands {
  Operands(const Tensor& out, const tensor::TensorList& inputs) {
    Add(out);
    for (const Tensor& input : inputs) Add(input);
  }
  void MakeWalk(Walk<ApplyArgs::kOperands>* walk) const {
    gpu::MakeWalk(all, count, tensor::OrderAxes(*all[0], tensor::kAllAxes),
                  walk);
  }

  size_t count = 0;
  const Tensor* all[ApplyArgs::kOperands];
  Operand operands[ApplyArgs::kOperands];

 private:
  void Add(const Tensor& tensor) {
    all[count] = &tensor;
    operands[count++] = OperandOf(tensor);
  }
};

}  // namespace

namespace {

// Maps (code, bytes) to the index of the dtype in kKernelDtypes.
struct KernelIndices {
  static constexpr uint32_t kCodes = 8, kMostBytes = 16;
  constexpr KernelIndices() {
    for (uint8_t i = 0; i < kKernelDtypeCount; ++i) {
      const uint32_t dtype = kKernelDtypes[i];
      of[dtype >> 8][(dtype & 0xff) / 8] = i;
    }
  }
  uint8_t of[kCodes][kMostBytes + 1] = {};
};

}  // namespace

size_t KernelIndex(uint32_t dtype) {
  static constexpr KernelIndices kIndices;
  return kIndices.of[dtype >> 8][(dtype & 0xff) / 8];
}

unsigned PackFill(const Tensor& out, const void* value, FillArgs* args) {
  *args = {};
  args->item = tensor::DtypeSize(out.dtype);
  args->out = OperandOf(out);
  const Tensor* const all[] = {&out};
  MakeWalk(all, 1, tensor::OrderAxes(out, tensor::kAllAxes), &args->walk);
  args->is_contiguous =
      args->walk.axes == 1 &&
      (args->walk.elements == 1 || args->walk.strides[0][0] == args->item);
  std::memcpy(args->value, value, args->item);
  if (out.dtype == DEVRT_BOOL) args->value[0] = args->value[0] != 0 ? 1 : 0;
  const auto address = reinterpret_cast<uintptr_t>(out.data);
  for (size_t i = 0; i < sizeof args->by_address; ++i) {
    args->by_address[(address + i) % 16] = args->value[i % args->item];
  }
  return BlocksFor(FillSteps(*args), kThreads);
}

unsigned PackApply(uint32_t op, const Tensor& out,
                   const tensor::TensorList& inputs, FastApply* fast,
                   ApplyArgs* args, uint32_t* kernel) {
  const Operands operands(out, inputs);
  Walk<ApplyArgs::kOperands> walk;
  operands.MakeWalk(&walk);
  ChooseFast(op, walk, operands.operands, static_cast<int>(operands.count),
             fast);
  if (fast->path != FastApply::Path::kNone) return fast->blocks;
  return PackApply(op, out, inputs, args, kernel);
}

unsigned PackApply(uint32_t op, const Tensor& out,
                   const tensor::TensorList& inputs, ApplyArgs* args,
                   uint32_t* kernel) {
  *args = {};
  args->op = op;
  const Operands operands(out, inputs);
  std::copy_n(operands.operands, operands.count, args->operands);
  operands.MakeWalk(&args->walk);
  const bool copies = op == DEVRT_OP_COPY;
  if (copies && inputs[0].dtype != out.dtype) {
    *kernel = 0;
    return BlocksFor(args->walk.elements, kConvertTile);
  }
  *kernel = inputs[0].dtype;
  if (copies && out.dtype != DEVRT_BOOL) *kernel = tensor::RawDtype(out.dtype);
  if (op == DEVRT_OP_WHERE) {  // bools keep their bits too
    const bool is_bool = out.dtype == DEVRT_BOOL;
    *kernel = is_bool ? DEVRT_UINT8 : tensor::RawDtype(out.dtype);
  }
  const int count = PackCount(tensor::DtypeSize(*kernel));
  args->is_packed = IsPacked(*args, static_cast<int>(operands.count), count);
  return BlocksFor(args->walk.elements,
                   kThreads * static_cast<uint64_t>(count));
}

}  // namespace devrt::gpu
