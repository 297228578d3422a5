// SPDX-License-Identifier: Apache-2.0
//
// One device's share of a plate in which heat spreads, for halo_exchange.cc and
// mpi_halo.cc.
//
// The plate is hot above; below and at its sides the temperature is 0.  A step
// sets each element to the mean of its four neighbours.

#ifndef DEVRT_EXAMPLES_SUPPORT_STENCIL_H_
#define DEVRT_EXAMPLES_SUPPORT_STENCIL_H_

#include <cstdint>

#include "devrt/devrt.h"

namespace example {

// Rows of the plate.  A step is ComputeEdges, whose rows the neighbours need,
// then ComputeInner.  Every array knows which streams still use it, and makes
// the next user wait, so the example needs no events.  A use covers the memory
// of the whole array.  Therefore work that has to overlap needs arrays of its
// own, as the outer rows and the halos are.
struct Part {
  // `top` is true for the first rows of the plate.
  static absl::StatusOr<Part> Make(devrt::Device device, int64_t rows,
                                   int64_t columns, bool top);

  // Computes the outer rows of the next step into first and last, on `edges`.
  absl::Status ComputeEdges();
  // Computes all rows of the next step into now, on `inner`.
  absl::Status ComputeInner();
  // Waits for the work on all arrays.
  absl::Status Ready() const;

  devrt::Stream inner, edges, exchange;
  devrt::Array now, next;     // the rows before and after a step
  devrt::Array first, last;   // the outer rows after the step
  devrt::Array above, below;  // the neighbours' rows before the step (halos)
  devrt::Array quarter;       // 0.25
};

// Compares rows of a plate of `all_rows` rows, from row `first` on, with those
// that one thread computes in `steps` steps.
absl::Status Verify(const devrt::Array& rows, int64_t first, int64_t all_rows,
                    int64_t steps);

}  // namespace example

#endif  // DEVRT_EXAMPLES_SUPPORT_STENCIL_H_
