// SPDX-License-Identifier: Apache-2.0
//
// The operations of devrt.elementwise/0 and devrt.reduce/0 on buffers of the
// types that elements are computed in.

#ifndef DEVRT_BACKENDS_MTIA_KERNELS_OPERATORS_H_
#define DEVRT_BACKENDS_MTIA_KERNELS_OPERATORS_H_

#include <cstddef>
#include <cstdint>

namespace devrt::mtia {

// out[i] := op(in[0][i], in[1][i], ...).
using BlockFn = void (*)(const std::byte* const* in, size_t n, std::byte* out);

// `dtype` is ComputeDtype of the inputs; for DEVRT_OP_WHERE RawDtype of the
// last two.  nullptr if the operation does not exist, and for DEVRT_OP_COPY.
BlockFn FindOperator(uint32_t op, uint32_t dtype);

struct Fold {
  // out[0] := in[0] op ... op in[n - 1], n > 0, as a tree of bounded depth.
  void (*row)(const std::byte* in, size_t n, std::byte* out) = nullptr;
  // out[i] := left[i] op right[i]; out may be left or right.
  void (*combine)(const std::byte* left, const std::byte* right, size_t n,
                  std::byte* out) = nullptr;
};

// `dtype`: bool, int64, uint64, float32, float64 or complex; `op` is a
// DEVRT_REDUCE_ operation that exists for it.
Fold FindFold(uint32_t op, uint32_t dtype);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_KERNELS_OPERATORS_H_
