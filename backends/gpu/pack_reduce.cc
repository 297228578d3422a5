// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "backends/gpu/elementwise_kernel.h"
#include "backends/gpu/pack.h"
#include "backends/gpu/walks.h"

namespace devrt::gpu {

using tensor::Tensor;

namespace {

// A lane is worth its work from so many elements on, a part of a result from so
// many per lane.
constexpr uint64_t kPerLane = 16;
constexpr uint64_t kPerPart = 64;
// Results side by side in memory: so many make whole lines of it.
constexpr uint64_t kSideBySide = 32;
// So many results keep a device busy with one lane each, so many blocks do.
constexpr uint64_t kManyResults = 1 << 16;
constexpr uint64_t kManyBlocks = 512;
constexpr uint64_t kMostBlocks = 1 << 20;

// The largest power of two up to `value` and kThreads.
uint64_t PowerUpTo(uint64_t value) {
  uint64_t power = 1;
  while (power * 2 <= std::min<uint64_t>(value, kThreads)) power *= 2;
  return power;
}

// Threads beside each other read memory that is beside each other: elements of
// one result, or of several.
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

void ChooseParts(ReduceArgs* args) {
  const uint64_t all = args->reduced.elements;
  const uint64_t results = args->kept.elements;
  const uint64_t per_block = kThreads / args->lanes;
  const uint64_t blocks = (results + per_block - 1) / per_block;
  const uint64_t least = args->lanes * kPerPart;
  const uint64_t parts =
      std::min({kManyBlocks / blocks, Slot::kMost / results,
                Slot::kMostOfGroup / per_block, all / least});
  args->parts = 1;
  args->part_elements = all;
  if (parts < 2) return;
  const uint64_t share = (all + parts - 1) / parts;
  args->part_elements = (share + least - 1) / least * least;
  args->parts = static_cast<uint32_t>((all + args->part_elements - 1) /
                                      args->part_elements);
}

bool IsPacked(const ReduceArgs& args) {
  const int64_t item = tensor::DtypeSize(args.in.dtype);
  if (args.lanes_adjacent == 0 || args.reduced.axes != 1 ||
      args.reduced.strides[0][0] != item) {
    return false;
  }
  uint64_t bits = reinterpret_cast<uintptr_t>(args.in.data);
  for (uint32_t k = 0; k < args.kept.axes; ++k) {
    bits |= static_cast<uint64_t>(args.kept.strides[k][0]);
  }
  return bits % 16 == 0;
}

}  // namespace

unsigned PackReduce(uint32_t op, const Tensor& out, const Tensor& in,
                    uint32_t axes, ReduceArgs* args) {
  *args = {};
  args->op = op;
  args->out = OperandOf(out);
  args->in = OperandOf(in);
  MakeWalk<2>({&in, &out}, tensor::OrderAxes(in, ~axes), &args->kept);
  MakeWalk<1>({&in}, tensor::OrderAxes(in, axes), &args->reduced);
  ChooseLanes(args);
  ChooseParts(args);
  args->is_packed = IsPacked(*args) ? 1 : 0;
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
