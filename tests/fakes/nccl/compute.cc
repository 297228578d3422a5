// SPDX-License-Identifier: Apache-2.0
//
// The results of collectives, reduced in the order of the ranks.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tests/fakes/nccl/world.h"

namespace devrt::fake::nccl {
namespace {

namespace abi = collectives::nccl;

template <typename T>
T Reduced(Reduction reduction, T a, T b) {
  switch (reduction) {
    case abi::kProd:
      return static_cast<T>(a * b);
    case abi::kMin:
      return std::min(a, b);
    case abi::kMax:
      return std::max(a, b);
    default:
      return static_cast<T>(a + b);  // the average divides at the end
  }
}

// Reduces element `first` and the following of all inputs into `out`.
template <typename T>
void ReduceAs(const std::map<int, Op*>& ranks, size_t first, size_t count,
              char* out) {
  const Reduction reduction = ranks.begin()->second->reduction;
  for (size_t i = 0; i < count; ++i) {
    T total{};
    for (const auto& [rank, op] : ranks) {
      T value;
      std::memcpy(&value, op->in.data + (first + i) * sizeof value,
                  sizeof value);
      total = rank == 0 ? value : Reduced(reduction, total, value);
    }
    if (reduction == abi::kAvg) {
      total = static_cast<T>(total / static_cast<T>(ranks.size()));
    }
    std::memcpy(out + i * sizeof total, &total, sizeof total);
  }
}

void Reduce(const std::map<int, Op*>& ranks, size_t first, size_t count,
            char* out) {
  switch (ranks.begin()->second->type) {
    case abi::kInt8:
      return ReduceAs<int8_t>(ranks, first, count, out);
    case abi::kUint8:
      return ReduceAs<uint8_t>(ranks, first, count, out);
    case abi::kInt32:
      return ReduceAs<int32_t>(ranks, first, count, out);
    case abi::kUint32:
      return ReduceAs<uint32_t>(ranks, first, count, out);
    case abi::kInt64:
      return ReduceAs<int64_t>(ranks, first, count, out);
    case abi::kUint64:
      return ReduceAs<uint64_t>(ranks, first, count, out);
    case abi::kFloat32:
      return ReduceAs<float>(ranks, first, count, out);
    case abi::kFloat64:
      return ReduceAs<double>(ranks, first, count, out);
    default:
      Crash("the fake does not reduce this dtype");
  }
}

}  // namespace

size_t SizeOf(DataType type) {
  switch (type) {
    case abi::kInt8:
    case abi::kUint8:
    case abi::kFloat8E4m3:
    case abi::kFloat8E5m2:
      return 1;
    case abi::kFloat16:
    case abi::kBfloat16:
      return 2;
    case abi::kInt64:
    case abi::kUint64:
    case abi::kFloat64:
      return 8;
    default:
      return 4;
  }
}

size_t PartsRead(const Op& op, int ranks, int rank) {
  const auto all = static_cast<size_t>(ranks);
  switch (op.kind) {
    case Kind::kBroadcast:
      return rank == op.root ? 1 : 0;
    case Kind::kReduceScatter:
    case Kind::kAllToAll:
      return all;
    case Kind::kScatter:
      return rank == op.root ? all : 0;
    case Kind::kRecv:
      return 0;
    default:
      return 1;
  }
}

size_t PartsWritten(const Op& op, int ranks, int rank) {
  const auto all = static_cast<size_t>(ranks);
  switch (op.kind) {
    case Kind::kReduce:
      return rank == op.root ? 1 : 0;
    case Kind::kAllGather:
    case Kind::kAllToAll:
      return all;
    case Kind::kGather:
      return rank == op.root ? all : 0;
    case Kind::kSend:
      return 0;
    default:
      return 1;
  }
}

void Compute(const std::map<int, Op*>& ranks) {
  const size_t part =
      ranks.begin()->second->count * SizeOf(ranks.begin()->second->type);
  for (const auto& [rank, op] : ranks) {
    char* const out = op->out.data;
    const auto own = static_cast<size_t>(rank);
    switch (op->kind) {
      case Kind::kReduce:
        if (rank != op->root) break;
        [[fallthrough]];
      case Kind::kAllReduce:
        Reduce(ranks, 0, op->count, out);
        break;
      case Kind::kReduceScatter:
        Reduce(ranks, own * op->count, op->count, out);
        break;
      case Kind::kBroadcast:
        std::memcpy(out, ranks.at(op->root)->in.data, part);
        break;
      case Kind::kScatter:
        std::memcpy(out, ranks.at(op->root)->in.data + own * part, part);
        break;
      case Kind::kGather:
        if (rank != op->root) break;
        [[fallthrough]];
      case Kind::kAllGather:
        for (const auto& [from, other] : ranks) {
          std::memcpy(out + static_cast<size_t>(from) * part, other->in.data,
                      part);
        }
        break;
      case Kind::kAllToAll:
        for (const auto& [from, other] : ranks) {
          std::memcpy(out + static_cast<size_t>(from) * part,
                      other->in.data + own * part, part);
        }
        break;
      case Kind::kSend:
      case Kind::kRecv:
        break;
    }
  }
}

}  // namespace devrt::fake::nccl
