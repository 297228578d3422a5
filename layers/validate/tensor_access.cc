// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/tensor_access.h"

#include <algorithm>
#include <vector>

namespace devrt::race {
namespace {

constexpr uint64_t kBitsPerByte = 8;

struct Dimension {
  uint64_t extent = 0;
  uint64_t stride = 0;  // bytes between neighbours
};

uint64_t ElementSize(const devrt_tensor_v0& tensor) {
  return ((tensor.dtype & 0xff) + kBitsPerByte - 1) / kBitsPerByte;
}

// The dimensions that have several places, the innermost first.  Moves `begin`
// to the lowest address.
std::vector<Dimension> Dimensions(const devrt_tensor_v0& tensor,
                                  uint64_t* begin) {
  std::vector<Dimension> dimensions;
  auto contiguous = static_cast<int64_t>(ElementSize(tensor));
  for (uint32_t i = tensor.ndim; i-- > 0;) {
    const int64_t extent = tensor.shape[i];
    const int64_t stride =
        tensor.strides == nullptr ? contiguous : tensor.strides[i];
    contiguous *= extent;
    if (extent <= 1 || stride == 0) continue;
    if (stride < 0) {
      *begin -=
          static_cast<uint64_t>(-stride) * static_cast<uint64_t>(extent - 1);
    }
    dimensions.push_back({static_cast<uint64_t>(extent),
                          static_cast<uint64_t>(std::abs(stride))});
  }
  std::sort(dimensions.begin(), dimensions.end(),
            [](const Dimension& a, const Dimension& b) {
              return a.stride < b.stride;
            });
  return dimensions;
}

}  // namespace

MemoryAccess AccessOf(const devrt_tensor_v0& tensor, Mode mode) {
  MemoryAccess access;
  access.mode = mode;
  access.by_kernel = true;
  for (uint32_t i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] == 0) return access;
  }
  access.address = reinterpret_cast<uint64_t>(tensor.data);
  access.size = ElementSize(tensor);
  for (const Dimension& dimension : Dimensions(tensor, &access.address)) {
    if (access.rows == 1 && dimension.stride <= access.size) {
      // The elements touch: one range goes on.
      access.size += dimension.stride * (dimension.extent - 1);
    } else if (access.rows == 1) {
      access.rows = dimension.extent;
      access.pitch = dimension.stride;
    } else if (dimension.stride == access.pitch * access.rows) {
      access.rows *= dimension.extent;
    } else {
      access.size += access.pitch * (access.rows - 1) +
                     dimension.stride * (dimension.extent - 1);
      access.rows = 1;
      access.pitch = 0;
      access.approximate = true;
    }
  }
  return access;
}

const char* OperationName(uint32_t op) {
  switch (op) {
    case DEVRT_OP_COPY:
      return "copy";
    case DEVRT_OP_NEG:
      return "neg";
    case DEVRT_OP_ABS:
      return "abs";
    case DEVRT_OP_LOGICAL_NOT:
      return "logical_not";
    case DEVRT_OP_ADD:
      return "add";
    case DEVRT_OP_SUB:
      return "sub";
    case DEVRT_OP_MUL:
      return "mul";
    case DEVRT_OP_DIV:
      return "div";
    case DEVRT_OP_MAXIMUM:
      return "maximum";
    case DEVRT_OP_MINIMUM:
      return "minimum";
    case DEVRT_OP_WHERE:
      return "where";
    default:
      return op >= DEVRT_OP_EQ && op <= DEVRT_OP_GE ? "comparison"
                                                    : "elementwise operation";
  }
}

}  // namespace devrt::race
