// SPDX-License-Identifier: Apache-2.0
//
// The parameters of the kernels of devrt.elementwise/0 and devrt.reduce/0: what
// the host packs and the kernels read.  All of it travels by value.

#ifndef DEVRT_BACKENDS_GPU_TENSOR_ARGS_H_
#define DEVRT_BACKENDS_GPU_TENSOR_ARGS_H_

#include <cstddef>
#include <cstdint>

#include "backends/tensor/host_device.h"
#include "devrt/backends/abi/devrt_tensor.h"

namespace devrt::gpu {

// Every kernel here runs in blocks of so many threads.
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
// The first of them have a cast kernel, too: all but the complex numbers.
inline constexpr size_t kCastDtypeCount = kKernelDtypeCount - 2;
// How many kernels kernel_tiles.inc lists.
inline constexpr size_t kTileKernelCount = 7;

// So many elements does a thread of an apply kernel take at once: 16 bytes, or
// 4 small ones.
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

  // Of the element with that number, from the first one.
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

// devrt_apply_<dtype> and devrt_convert: operand 0 is the output.
struct ApplyArgs {
  static constexpr int kOperands = 4;
  uint32_t op;
  // The elements of each operand are adjacent, or one and the same, and packs
  // of them are aligned.
  uint32_t is_packed;
  Operand operands[kOperands];
  Walk<kOperands> walk;
};

struct FillArgs {
  uint32_t item;  // bytes of an element
  uint32_t is_contiguous;
  Operand out;
  // The element over and over: the byte for an address that is i modulo 16.
  uint8_t by_address[16];
  uint8_t value[16];
  Walk<1> walk;
};

// So many adjacent results does a thread of a columns kernel take.
constexpr int ColumnsPack(size_t item) {
  return item <= 4 ? 4 : static_cast<int>(16 / item);
}
// And so many bytes have the parts of a group of results.
inline constexpr uint32_t kColumnsPartBytes = 1 << 15;

// devrt_reduce_<dtype> and devrt_columns_<dtype>.  `lanes` threads work on one
// result, and where `parts` is more than one, that many blocks.
struct ReduceArgs {
  uint32_t op;
  uint32_t lanes;           // a power of two, at most kThreads
  uint32_t lanes_adjacent;  // threads beside each other share a result
  uint32_t is_packed;       // as above, of the elements of one result
  uint64_t part_elements;   // of one result, for one block
  uint32_t parts;
  uint32_t ticket;  // not 0; of the claim that came before, if parts > 1
  // Of a columns kernel, which reduces one axis: adjacent results of a thread,
  // 1 or ColumnsPack, or 0 for a reduce kernel; groups of results, of the
  // innermost axis and of all.
  uint32_t columns_pack;
  uint64_t column_groups;
  uint64_t groups;
  Operand out;
  Operand in;
  Walk<2> kept;  // strides of in, then out
  Walk<1> reduced;
};

// Partial results of blocks that share the work, per device.
struct Slot {
  static constexpr uint32_t kMost = 4096;        // of all results together
  static constexpr uint32_t kMostOfGroup = 512;  // of those of one block
  static constexpr uint32_t kBytes = 16;
  static constexpr uint32_t kMostGroups = 512;  // in parts, of columns
  uint32_t owner;                               // a ticket, or 0
  uint32_t done;                                // blocks
  uint64_t unused;
  uint32_t group_done[kMostGroups];  // blocks, of columns
  uint8_t partials[kMost * kBytes];
};
inline constexpr uint32_t kSlots = 32;

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_TENSOR_ARGS_H_
