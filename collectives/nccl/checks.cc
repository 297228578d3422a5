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
  constexpr uint32_t kWithRoot =
      1u << DEVRT_COLLECTIVE_REDUCE | 1u << DEVRT_COLLECTIVE_BROADCAST |
      1u << DEVRT_COLLECTIVE_GATHER | 1u << DEVRT_COLLECTIVE_SCATTER |
      1u << DEVRT_COLLECTIVE_SEND | 1u << DEVRT_COLLECTIVE_RECV;
  return (kWithRoot >> op & 1) != 0;
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

[[gnu::cold]] devrt_status Invalid(const Member& member, uint32_t op,
                                   absl::string_view text) {
  return Refuse(
      DEVRT_INVALID_ARGUMENT,
      absl::StrCat(kNames[op], " on ", member.Describe(), ": ", text));
}

// Refuses buffers that are not in place, for those that overlap.
[[gnu::cold]] devrt_status CheckOverlap(const Member& member,
                                        const devrt_collective_v0& op,
                                        const Parts& parts, uint64_t bytes) {
  const auto src = reinterpret_cast<uintptr_t>(op.src);
  const auto dst = reinterpret_cast<uintptr_t>(op.dst);
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

namespace {

[[gnu::cold]] devrt_status CountError(const Member& member,
                                      const devrt_collective_v0& op) {
  return Invalid(
      member, op.op,
      absl::StrCat("count is ", op.count, ", more than addresses can name"));
}

// Checks what the operation shares with others, and makes it known.
[[gnu::cold]] devrt_status CheckKind(const Library& library, Member* member,
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
        absl::StrCat(kNames[op.op], " on ", member->Describe(), ": ",
                     library.flavor->name, " ", library.version_text,
                     " does not have it for dtype ", op.dtype >> 8, ":",
                     op.dtype & 0xff, " (DLPack's code and bits)",
                     HasReduction(op.op)
                         ? absl::StrCat(" and reduction ", op.reduction)
                         : ""));
  }
  const int64_t root = op.root_or_peer;
  const uint32_t ranks = member->ranks();
  if (HasRoot(op.op) && (root < 0 || root >= int64_t{ranks})) {
    return Invalid(*member, op.op,
                   absl::StrCat("the root or peer is ", root,
                                ", expected 0 to ", ranks - 1));
  }
  const bool is_root = root == int64_t{member->rank()};
  const bool is_point_to_point = op.op >= DEVRT_COLLECTIVE_SEND;
  if (is_point_to_point && is_root) {
    return Invalid(*member, op.op, "the peer is this rank itself");
  }
  const Parts parts = PartsOf(op.op, ranks, is_root);
  member->known() = {op.op,
                     op.dtype,
                     op.reduction,
                     op.root_or_peer,
                     TypeOf(library, op.dtype),
                     parts.src,
                     parts.dst,
                     SizeOf(op.dtype) * ranks};
  return nullptr;
}

}  // namespace

devrt_status CheckOperation(const Library& library, Member* member,
                            const devrt_collective_v0& op) {
  const Member::Known& known = member->known();
  if (__builtin_expect(op.struct_size < sizeof op || !known.IsOf(op), 0)) {
    if (devrt_status error = CheckKind(library, member, op)) return error;
  }
  if (op.count == 0) return nullptr;
  if (known.src_parts != 0 && op.src == nullptr) {
    return Invalid(*member, op.op, "src is NULL");
  }
  if (known.dst_parts != 0 && op.dst == nullptr) {
    return Invalid(*member, op.op, "dst is NULL");
  }
  uint64_t bytes_of_all = 0;
  if (__builtin_mul_overflow(op.count, known.bytes_of_all, &bytes_of_all)) {
    return CountError(*member, op);
  }
  const Parts parts = {known.src_parts, known.dst_parts};
  if (parts.src == 0 || parts.dst == 0) return nullptr;
  const uint64_t bytes = op.count * SizeOf(op.dtype);
  const auto src = reinterpret_cast<uintptr_t>(op.src);
  const auto dst = reinterpret_cast<uintptr_t>(op.dst);
  return src >= dst + parts.dst * bytes || dst >= src + parts.src * bytes
             ? nullptr
             : CheckOverlap(*member, op, parts, bytes);
}

}  // namespace devrt::collectives::nccl
