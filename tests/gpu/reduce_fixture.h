// SPDX-License-Identifier: Apache-2.0
//
// ReduceTest: runs of the kernels of devrt.reduce/0, one after the other.

#ifndef DEVRT_TESTS_GPU_REDUCE_FIXTURE_H_
#define DEVRT_TESTS_GPU_REDUCE_FIXTURE_H_

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/gpu/adjacent_kernel.h"
#include "backends/gpu/columns_kernel.h"
#include "backends/gpu/pack.h"
#include "backends/gpu/reduce_kernel.h"
#include "tests/gpu/tensors.h"

namespace devrt::gpu {

inline constexpr uint32_t kTicket = 5;

// Blocks run in the given order.
class ReduceTest : public ::testing::Test {
 protected:
  template <typename T>
  void Launch(const ReduceArgs& args, unsigned blocks, bool backwards = false) {
    for (unsigned i = 0; i < blocks; ++i) {
      RunBlock<T>(args, Block{backwards ? blocks - 1 - i : i, blocks});
    }
  }
  template <typename T>
  void RunBlock(const ReduceArgs& args, const Block& block) {
    ++seen_[{args.kind, args.parts > 1}];
    if (args.kind == ReduceKind::kColumns) {
      const auto shared = std::make_unique<ColumnsShared<T>>();
      return ColumnsBlock<T>(args, block, columns_slots_.get(), shared.get());
    }
    if (args.kind == ReduceKind::kGathered) {
      const auto shared = std::make_unique<Shared<PartialType<T>>>();
      return ReduceBlock<T>(args, block, slots_.get(), shared.get());
    }
    (void)WithFolding<T>(args.op, [&](const auto& folding) {
      using Operation = typename std::decay_t<decltype(folding)>::Operation;
      if (args.kind == ReduceKind::kAdjacent) {
        const auto shared = std::make_unique<AdjacentShared<T, Operation>>();
        AdjacentBlock<T, Operation>(args, block, slots_.get(), shared.get());
      } else {
        PerThread<typename Folding<T, Operation>::Few> shared[kShortRows];
        ShortBlock<T, Operation>(args, block, shared);
      }
      return 0;
    });
  }
  Slot& TheSlot() { return slots_[kTicket % kSlots]; }
  ColumnsSlot& TheColumnsSlot() {
    return columns_slots_[kTicket % ColumnsSlot::kCount];
  }
  // Claims slots of both kinds.
  void Claim(uint32_t ticket) {
    ClaimSlot(slots_.get(), ticket);
    ClaimSlot(columns_slots_.get(), ticket);
  }
  // The slots are of a call that still runs.
  void GiveSlotsTo(uint32_t ticket) {
    TheSlot().owner = ticket;
    TheColumnsSlot().owner = ticket;
  }

  // Of a float tensor; `blocks` is what was launched.
  unsigned Pack(uint32_t op, const std::vector<float>& in,
                const std::vector<int64_t>& shape, uint32_t axes,
                std::vector<float>* out, ReduceArgs* args) {
    std::vector<int64_t> reduced = shape;
    int64_t results = 1;
    for (size_t k = 0; k < shape.size(); ++k) {
      if ((axes >> k & 1) != 0) reduced[k] = 1;
      results *= reduced[k];
    }
    out->assign(static_cast<size_t>(results), -1);
    const unsigned blocks =
        PackReduce(op, TensorOf(out->data(), DEVRT_FLOAT32, reduced),
                   TensorOf(in.data(), DEVRT_FLOAT32, shape), axes, args);
    args->ticket = kTicket;
    return blocks;
  }

  std::vector<float> Random(size_t count) {
    std::uniform_real_distribution<float> any(-1, 1);
    std::vector<float> values(count);
    for (float& value : values) value = any(random_);
    return values;
  }

  std::mt19937 random_{20261122};
  std::unique_ptr<Slot[]> slots_{new Slot[kSlots + kLeasedSlots]()};
  std::unique_ptr<ColumnsSlot[]> columns_slots_{
      new ColumnsSlot[ColumnsSlot::kCount + ColumnsSlot::kLeased]()};
  std::map<std::pair<ReduceKind, bool>, int> seen_;  // and whether in parts
};

}  // namespace devrt::gpu

#endif  // DEVRT_TESTS_GPU_REDUCE_FIXTURE_H_
