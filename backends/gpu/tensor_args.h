// SPDX-License-Identifier: Apache-2.0
//
// The parameters of the kernels of devrt.elementwise/0 and devrt.reduce/0,
// which the host packs and passes by value.

#ifndef DEVRT_BACKENDS_GPU_TENSOR_ARGS_H_
#define DEVRT_BACKENDS_GPU_TENSOR_ARGS_H_

#include <cstddef>
#include <cstdint>

#include "backends/tensor/host_device.h"
#include "devrt/backends/abi/devrt_tensor.h"

namespace devrt::gpu {

// The number of threads in a block of every kernel here.
inline constexpr uint32_t kThreads = 256;

// The dtypes that have an apply and a reduce kernel, named devrt_apply_<dtype>
// and devrt_reduce_<dtype>: all but float8.
inline constexpr uint32_t kKernelDtypes[] = {
    DEVRT_BOOL,    DEVRT_INT8,      DEVRT_INT16,     DEVRT_INT32,
    DEVRT_INT64,   DEVRT_UINT8,     DEVRT_UINT16,    DEVRT_UINT32,
    DEVRT_UINT64,  DEVRT_FLOAT16,   DEVRT_BFLOAT16,  DEVRT_FLOAT32,
    DEVRT_FLOAT64, DEVRT_COMPLEX64, DEVRT_COMPLEX128};
inline constexpr size_t kKernelDtypeCount =
    sizeof kKernelDtypes / sizeof kKernelDtypes[0];
// The first of them have a cast kernel too: all but the complex numbers.
inline constexpr size_t kCastDtypeCount = kKernelDtypeCount - 2;
// The operations of which the kernels for adjacent elements know one each, by
// the names in the kernels' names.  Complex numbers have no least or greatest.
inline constexpr const char* kFoldNames[] = {"sum", "prod", "min", "max",
                                             "truth"};
inline constexpr size_t kFoldCount = sizeof kFoldNames / sizeof kFoldNames[0];
constexpr size_t FoldIndex(uint32_t op) {
  return op < kFoldCount ? op : kFoldCount - 1;
}
// Of an operation and a dtype, by their indices.
constexpr bool HasFold(size_t fold, size_t dtype) {
  return dtype < kCastDtypeCount ||
         (fold != DEVRT_REDUCE_MIN && fold != DEVRT_REDUCE_MAX);
}
// The number of kernels in kernel_tiles.inc.
inline constexpr size_t kTileKernelCount = 11;

// The number of elements that a thread of an apply kernel takes at once: 16
// bytes, or 4 small ones.
constexpr int PackCount(size_t item) {
  return item <= 4 ? 4 : static_cast<int>(16 / item);
}

// Where the elements of kOperands tensors of one shape lie.
template <int kOperands>
struct Walk {
  uint64_t elements;
  uint32_t axes;      // at least 1; innermost first
  uint32_t is_small;  // `elements` fits 32 bits
  int64_t extents[DEVRT_MAX_DIMS];
  int64_t strides[DEVRT_MAX_DIMS][kOperands];  // bytes

  // Returns the offset, in bytes, of the element with that number.
  DEVRT_HOST_DEVICE int64_t OffsetOf(uint64_t index, int operand) const {
    int64_t offset = 0;
    const uint32_t last = axes - 1;
    for (uint32_t k = 0; k < last; ++k) {
      const auto extent = static_cast<uint64_t>(extents[k]);
      uint64_t rest = 0;
      if (is_small != 0) {
        const auto small = static_cast<uint32_t>(index);
        rest = small / static_cast<uint32_t>(extent);
      } else {
        rest = index / extent;
      }
      offset +=
          static_cast<int64_t>(index - rest * extent) * strides[k][operand];
      index = rest;
    }
    return offset + static_cast<int64_t>(index) * strides[last][operand];
  }
};

// A tensor without its shape.
struct Operand {
  void* data;  // of the first element
  uint32_t dtype;
  uint32_t is_aligned;  // every element, to its own size
};

// The arguments of devrt_apply_<dtype> and devrt_convert.  Operand 0 is the
// output.
struct ApplyArgs {
  static constexpr int kOperands = 4;
  uint32_t op;
  // True if the elements of each operand are adjacent, or one element repeated,
  // and packs of them are aligned.
  uint32_t is_packed;
  Operand operands[kOperands];
  Walk<kOperands> walk;
};

struct FillArgs {
  uint32_t item;  // bytes of an element
  uint32_t is_contiguous;
  Operand out;
  // The repeated element: the byte for an address that is i modulo 16.
  uint8_t by_address[16];
  uint8_t value[16];
  Walk<1> walk;
};

// The number of adjacent results that a thread of a columns kernel takes: 16
// bytes of elements, or 8 small ones.
constexpr int ColumnsPack(size_t item) {
  return item == 1 ? 8 : static_cast<int>(16 / item);
}

// The kernels of devrt.reduce/0.
enum class ReduceKind : uint32_t {
  kGathered,  // devrt_reduce_<dtype>: elements anywhere
  kColumns,   // devrt_columns_<dtype>: adjacent results
  kAdjacent,  // devrt_adjacent_<operation>_<dtype>: adjacent elements
  kShort,     // devrt_short_<operation>_<dtype>: a few of them
};

// The number of results that a thread of a short kernel takes.
inline constexpr uint32_t kShortRows = 4;

// The arguments of these kernels.  `lanes` threads work on one result, and
// `parts` blocks.
struct ReduceArgs {
  ReduceKind kind;
  uint32_t op;
  uint32_t lanes;           // a power of two, at most kThreads
  uint32_t lanes_adjacent;  // neighbouring threads share a result
  uint64_t part_elements;   // of one result, for one block
  uint32_t parts;
  // If parts > 1: the number of the slot that is the stream's own, from 1 on,
  // or 0 and the ticket of the claim kernel before, which is not 0.
  uint32_t lease;
  uint32_t ticket;
  // For a columns kernel, which reduces one axis: the results of a group, and
  // the groups of results on the innermost axis and in total.
  uint32_t group_columns;
  uint64_t column_groups;
  uint64_t groups;
  Operand out;
  Operand in;
  Walk<2> kept;  // strides of the input, then the output
  Walk<1> reduced;
};

// Partial results of blocks that share the work.  Each device has kCount of
// them for each kind of kernel.
struct Slot {
  static constexpr uint32_t kCount = 32;
  static constexpr uint32_t kMost = 4096;        // of all results together
  static constexpr uint32_t kMostOfGroup = 512;  // of the results of one block
  static constexpr uint32_t kBytes = 16;
  static constexpr uint32_t kMostGroups = 512;  // results of adjacent elements
  uint32_t owner;                               // a ticket, or 0
  uint32_t done;  // blocks, or results of adjacent elements
  uint64_t unused;
  uint32_t group_done[kMostGroups];  // blocks
  uint8_t partials[kMost * kBytes];
};
inline constexpr uint32_t kSlots = Slot::kCount;
// Those of the columns kernels, whose results are many.  There are kLeased
// more, which are those of the first streams that have leases.
struct ColumnsSlot {
  static constexpr uint32_t kCount = 8;
  static constexpr uint32_t kLeased = 8;
  static constexpr uint32_t kBytes = 1 << 18;
  static constexpr uint32_t kMostGroups = 512;
  uint32_t owner;
  uint32_t done;  // blocks
  uint64_t unused;
  uint32_t group_done[kMostGroups];  // blocks
  uint8_t partials[kBytes];
};
// An adjacent kernel has these slots more, each of which is one stream's: its
// lease is their number, from 1 on.
inline constexpr uint32_t kLeasedSlots = 32;
constexpr uint32_t LeasesOf(ReduceKind kind) {
  return kind == ReduceKind::kAdjacent  ? kLeasedSlots
         : kind == ReduceKind::kColumns ? ColumnsSlot::kLeased
                                        : 0;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_TENSOR_ARGS_H_
