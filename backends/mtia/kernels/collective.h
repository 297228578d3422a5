// SPDX-License-Identifier: Apache-2.0
//
// The reductions of devrt.collectives/0.

#ifndef DEVRT_BACKENDS_MTIA_KERNELS_COLLECTIVE_H_
#define DEVRT_BACKENDS_MTIA_KERNELS_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>

namespace devrt::mtia {

// out[i] := in[0][i] op in[1][i] op ... op in[n - 1][i], in this order.
//
// Narrow floats are added up as float32 and rounded once, at the end.  Integers
// wrap.  AVG is the sum, divided by n; of integers the sum wraps first, and the
// quotient is truncated toward zero.
using RankFold = void (*)(const std::byte* const* in, uint32_t n,
                          uint64_t count, std::byte* out);

// `reduction` is DEVRT_COLLECTIVE_SUM ...  nullptr if the reduction does not
// exist for `dtype`: bool has MIN and MAX only, complex numbers have neither,
// and 8-bit floats have none.
RankFold FindRankFold(uint32_t reduction, uint32_t dtype);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_KERNELS_COLLECTIVE_H_
