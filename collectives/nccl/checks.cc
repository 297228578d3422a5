// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/checks.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "collectives/nccl/errors.h"
#include "devrt/backends/abi/devrt_tensor.h"

namespace devrt::collectives::nccl {
namespace {

constexpr const char* kNames[DEVRT_COLLECTIVE_COUNT] = {
    "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter",
    "all_to_all", "gather", "scatter",   "send",       "recv",
};

bool HasRoot(uint32_t op) {
  switch (op) {
    case DEVRT_COLLECTIVE_REDUCE:
    case DEVRT_COLLECTIVE_BROADCAST:
    case DEVRT_COLLECTIVE_GATHER:
    case DEVRT_COLLECTIVE_SCATTER:
    case DEVRT_COLLECTIVE_SEND:
    case DEVRT_COLLECTIVE_RECV:
      return true;
    default:
      return false;
  }
}

// How many times `count` elements an operation reads and writes on a rank.
struct Parts {
  uint64_t src, dst;
};
Parts PartsOf(uint32_t op, uint64_t ranks, bool is_root) {
  switch (op) {
    case DEVRT_COLLECTIVE_REDUCE:
      return {1, is_root ? 1u : 0u};
    case DEVRT_COLLECTIVE_BROADCAST:
      return {is_root ? 1u : 0u, 1};
    case DEVRT_COLLECTIVE_ALL_GATHER:
      return {1, ranks};
    case DEVRT_COLLECTIVE_REDUCE_SCATTER:
      return {ranks, 1};
    case DEVRT_COLLECTIVE_ALL_TO_ALL:
      return {ranks, ranks};
    case DEVRT_COLLECTIVE_GATHER:
      return {1, is_root ? ranks : 0};
    case DEVRT_COLLECTIVE_SCATTER:
      return {is_root ? ranks : 0, 1};
    case DEVRT_COLLECTIVE_SEND:
      return {1, 0};
    case DEVRT_COLLECTIVE_RECV:
      return {0, 1};
    default:
      return {1, 1};
  }
}

devrt_status Invalid(const Member& member, uint32_t op,
                     absl::string_view text) {
  return Refuse(
      DEVRT_INVALID_ARGUMENT,
      absl::StrCat(kNames[op], " on ", member.Describe(), ": ", text));
}

// Refuses buffers that overlap and are not in place.
devrt_status CheckOverlap(const Member& member, const devrt_collective_v0& op,
                          const Parts& parts, uint64_t bytes) {
  const auto src = reinterpret_cast<uintptr_t>(op.src);
  const auto dst = reinterpret_cast<uintptr_t>(op.dst);
  if (src >= dst + parts.dst * bytes || dst >= src + parts.src * bytes) {
    return nullptr;
  }
  const uint64_t own = member.rank() * bytes;
  bool in_place = src == dst;
  if (parts.dst > parts.src) in_place = src == dst + own;
  if (parts.src > parts.dst) in_place = dst == src + own;
  if (op.op == DEVRT_COLLECTIVE_ALL_TO_ALL) {
    return Refuse(DEVRT_UNIMPLEMENTED,
                  absl::StrCat("all_to_all on ", member.Describe(),
                               ": src and dst overlap, and the library has no "
                               "all-to-all in place"));
  }
  if (in_place) return nullptr;
  return Invalid(member, op.op,
                 "src and dst overlap; expected disjoint or in place");
}

}  // namespace

DataType TypeOf(const Library& library, uint32_t dtype) {
  const int float8 = library.flavor->float8_version;
  switch (dtype) {
    case DEVRT_INT8:
      return kInt8;
    case DEVRT_UINT8:
      return kUint8;
    case DEVRT_BOOL:
      return kUint8;
    case DEVRT_INT32:
      return kInt32;
    case DEVRT_UINT32:
      return kUint32;
    case DEVRT_INT64:
      return kInt64;
    case DEVRT_UINT64:
      return kUint64;
    case DEVRT_FLOAT16:
      return kFloat16;
    case DEVRT_FLOAT32:
      return kFloat32;
    case DEVRT_FLOAT64:
      return kFloat64;
    case DEVRT_BFLOAT16:
      return kBfloat16;
    case DEVRT_FLOAT8_E4M3FN:
      return float8 != 0 && library.version >= float8 ? kFloat8E4m3 : -1;
    case DEVRT_FLOAT8_E5M2:
      return float8 != 0 && library.version >= float8 ? kFloat8E5m2 : -1;
    default:
      return -1;
  }
}

Reduction ReductionOf(uint32_t reduction) {
  switch (reduction) {
    case DEVRT_COLLECTIVE_SUM:
      return kSum;
    case DEVRT_COLLECTIVE_PROD:
      return kProd;
    case DEVRT_COLLECTIVE_MIN:
      return kMin;
    case DEVRT_COLLECTIVE_MAX:
      return kMax;
    case DEVRT_COLLECTIVE_AVG:
      return kAvg;
    default:
      return -1;
  }
}

bool Supports(const Library& library, uint32_t op, uint32_t dtype,
              uint32_t reduction) {
  if (op >= DEVRT_COLLECTIVE_COUNT || TypeOf(library, dtype) < 0) return false;
  if (!HasReduction(op)) return true;
  if (ReductionOf(reduction) < 0) return false;
  switch (dtype) {
    case DEVRT_BOOL:
      return reduction == DEVRT_COLLECTIVE_MIN ||
             reduction == DEVRT_COLLECTIVE_MAX;
    case DEVRT_FLOAT8_E4M3FN:
    case DEVRT_FLOAT8_E5M2:
      return false;
    default:
      return true;
  }
}

devrt_status CheckOperation(const Library& library, const Member& member,
                            const devrt_collective_v0& op) {
  if (op.struct_size < sizeof op) {
    return Refuse(DEVRT_INVALID_ARGUMENT,
                  absl::StrCat("struct_size of the operation is ",
                               op.struct_size, ", expected ", sizeof op));
  }
  if (op.op >= DEVRT_COLLECTIVE_COUNT) {
    return Refuse(DEVRT_INVALID_ARGUMENT,
                  absl::StrCat("op is ", op.op, ", expected less than ",
                               DEVRT_COLLECTIVE_COUNT));
  }
  if (!Supports(library, op.op, op.dtype, op.reduction)) {
    return Refuse(
        DEVRT_UNIMPLEMENTED,
        absl::StrCat(kNames[op.op], " on ", member.Describe(), ": ",
                     library.flavor->name, " ", library.version_text,
                     " does not have it for dtype ", op.dtype >> 8, ":",
                     op.dtype & 0xff, " (DLPack's code and bits)",
                     HasReduction(op.op)
                         ? absl::StrCat(" and reduction ", op.reduction)
                         : ""));
  }
  const bool has_root = HasRoot(op.op);
  const int64_t root = op.root_or_peer;
  if (has_root && (root < 0 || root >= int64_t{member.ranks()})) {
    return Invalid(member, op.op,
                   absl::StrCat("the root or peer is ", root,
                                ", expected 0 to ", member.ranks() - 1));
  }
  const bool is_point_to_point = op.op >= DEVRT_COLLECTIVE_SEND;
  if (is_point_to_point && root == int64_t{member.rank()}) {
    return Invalid(member, op.op, "the peer is this rank itself");
  }
  if (op.count == 0) return nullptr;
  const Parts parts =
      PartsOf(op.op, member.ranks(), root == int64_t{member.rank()});
  if (parts.src != 0 && op.src == nullptr) {
    return Invalid(member, op.op, "src is NULL");
  }
  if (parts.dst != 0 && op.dst == nullptr) {
    return Invalid(member, op.op, "dst is NULL");
  }
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(op.count, SizeOf(op.dtype) * member.ranks(),
                             &bytes)) {
    return Invalid(
        member, op.op,
        absl::StrCat("count is ", op.count, ", more than addresses can name"));
  }
  if (parts.src == 0 || parts.dst == 0) return nullptr;
  return CheckOverlap(member, op, parts, bytes / member.ranks());
}

}  // namespace devrt::collectives::nccl
