// SPDX-License-Identifier: Apache-2.0
//
// What operations write, by their definitions, and the comparison with what a
// provider writes.  Values are small integers: sums are exact in every dtype.

#ifndef DEVRT_TESTS_COLLECTIVES_NCCL_NCCL_VALUES_H_
#define DEVRT_TESTS_COLLECTIVES_NCCL_NCCL_VALUES_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/collectives/nccl/nccl_fixture.h"

namespace devrt::collectives {

inline constexpr uint64_t kCount = 5;

template <typename T>
std::vector<char> Bytes(const std::vector<T>& values) {
  std::vector<char> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// The value of an element of a rank: small, so that products fit 8 bits.
inline int ValueOf(uint32_t rank, uint64_t i) {
  return static_cast<int>((rank * 2 + i) % 4 + 1);
}
template <typename T>
std::vector<T> Input(uint32_t rank, uint64_t count) {
  std::vector<T> values(count);
  for (uint64_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(ValueOf(rank, i));
  }
  return values;
}

template <typename T>
T Reduced(uint32_t reduction, uint64_t i, uint32_t ranks) {
  int value = ValueOf(0, i);
  for (uint32_t rank = 1; rank < ranks; ++rank) {
    const int next = ValueOf(rank, i);
    switch (reduction) {
      case DEVRT_COLLECTIVE_PROD:
        value *= next;
        break;
      case DEVRT_COLLECTIVE_MIN:
        value = std::min(value, next);
        break;
      case DEVRT_COLLECTIVE_MAX:
        value = std::max(value, next);
        break;
      default:
        value += next;
    }
  }
  T result = static_cast<T>(value);
  if (reduction == DEVRT_COLLECTIVE_AVG)
    result = result / static_cast<T>(ranks);
  return result;
}

// What `op` writes on a rank, by the definition of the operation; `reduction`
// with T.
template <typename T>
std::vector<T> Expected(uint32_t op, uint32_t reduction, uint32_t rank,
                        uint32_t root, uint32_t ranks) {
  std::vector<T> out;
  const auto add = [&](uint32_t from, uint64_t first) {
    for (uint64_t i = 0; i < kCount; ++i) {
      out.push_back(static_cast<T>(ValueOf(from, first + i)));
    }
  };
  switch (op) {
    case DEVRT_COLLECTIVE_REDUCE:
      if (rank != root) break;
      [[fallthrough]];
    case DEVRT_COLLECTIVE_ALL_REDUCE:
      for (uint64_t i = 0; i < kCount; ++i) {
        out.push_back(Reduced<T>(reduction, i, ranks));
      }
      break;
    case DEVRT_COLLECTIVE_REDUCE_SCATTER:
      for (uint64_t i = 0; i < kCount; ++i) {
        out.push_back(Reduced<T>(reduction, rank * kCount + i, ranks));
      }
      break;
    case DEVRT_COLLECTIVE_BROADCAST:
      add(root, 0);
      break;
    case DEVRT_COLLECTIVE_SCATTER:
      add(root, rank * kCount);
      break;
    case DEVRT_COLLECTIVE_GATHER:
      if (rank != root) break;
      [[fallthrough]];
    case DEVRT_COLLECTIVE_ALL_GATHER:
      for (uint32_t from = 0; from < ranks; ++from) add(from, 0);
      break;
    case DEVRT_COLLECTIVE_ALL_TO_ALL:
      for (uint32_t from = 0; from < ranks; ++from) add(from, rank * kCount);
      break;
  }
  return out;
}

inline uint64_t InputCount(uint32_t op, uint32_t ranks) {
  switch (op) {
    case DEVRT_COLLECTIVE_REDUCE_SCATTER:
    case DEVRT_COLLECTIVE_ALL_TO_ALL:
    case DEVRT_COLLECTIVE_SCATTER:
      return ranks * kCount;
    default:
      return kCount;
  }
}

// What the provider says of an operation.
inline bool Supports(uint32_t op, uint32_t dtype, uint32_t reduction) {
  uint32_t yes = 9;
  EXPECT_EQ(
      Text(Call<&devrt_collectives_v0::supports>(op, dtype, reduction, &yes)),
      "");
  return yes == 1;
}

// Does the operation on all ranks, and compares the outputs.
template <typename T>
void CheckOp(std::vector<Rank>* ranks, uint32_t op, uint32_t dtype,
             uint32_t reduction) {
  const auto count = static_cast<uint32_t>(ranks->size());
  const uint32_t root = count - 1;
  std::vector<void*> outputs;
  std::vector<devrt_collective_v0> ops;
  for (uint32_t i = 0; i < count; ++i) {
    Rank& rank = (*ranks)[i];
    const void* const src =
        rank.Upload(Bytes(Input<T>(i, InputCount(op, count))));
    outputs.push_back(rank.Allocate(count * kCount * sizeof(T)));
    ops.push_back(Op(op, src, outputs[i], kCount, dtype, reduction,
                     static_cast<int32_t>(root)));
    if (rank.waits) continue;
    ASSERT_EQ(Text(rank.Submit({ops.back()})), "");
  }
  if ((*ranks)[0].waits) {
    ASSERT_EQ(Text(SubmitTogether(ranks, ops)), "");
  }
  for (Rank& rank : *ranks) ASSERT_EQ(Text(WaitReady(rank.comm)), "");
  for (uint32_t i = 0; i < count; ++i) {
    const auto expected = Bytes(Expected<T>(op, reduction, i, root, count));
    EXPECT_EQ((*ranks)[i].Download(outputs[i], expected.size()), expected)
        << "op " << op << " dtype " << dtype << " reduction " << reduction
        << " rank " << i;
  }
}

// CheckOp for each operation and reduction that the provider has for the dtype.
template <typename T>
void CheckDtype(std::vector<Rank>* ranks, uint32_t dtype) {
  for (uint32_t op = 0; op < DEVRT_COLLECTIVE_SEND; ++op) {
    const bool reduces = op == DEVRT_COLLECTIVE_ALL_REDUCE ||
                         op == DEVRT_COLLECTIVE_REDUCE ||
                         op == DEVRT_COLLECTIVE_REDUCE_SCATTER;
    for (uint32_t reduction = 0; reduction <= (reduces ? 4u : 0u);
         ++reduction) {
      if (Supports(op, dtype, reduction)) {
        CheckOp<T>(ranks, op, dtype, reduction);
      }
    }
  }
}

inline void CheckAllDtypes(std::vector<Rank>* ranks) {
  CheckDtype<int8_t>(ranks, DEVRT_INT8);
  CheckDtype<uint8_t>(ranks, DEVRT_UINT8);
  CheckDtype<int32_t>(ranks, DEVRT_INT32);
  CheckDtype<uint32_t>(ranks, DEVRT_UINT32);
  CheckDtype<int64_t>(ranks, DEVRT_INT64);
  CheckDtype<uint64_t>(ranks, DEVRT_UINT64);
  CheckDtype<float>(ranks, DEVRT_FLOAT32);
  CheckDtype<double>(ranks, DEVRT_FLOAT64);
}

}  // namespace devrt::collectives

#endif  // DEVRT_TESTS_COLLECTIVES_NCCL_NCCL_VALUES_H_
