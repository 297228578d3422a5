// SPDX-License-Identifier: Apache-2.0
//
// One device's share of a plate in which heat spreads: what halo_exchange.cc
// and mpi_halo.cc do alike.
//
// Above the plate it is hot, below it and at its sides it is 0.  A step gives
// each element the mean of its four neighbours.

#ifndef DEVRT_EXAMPLES_SUPPORT_STENCIL_H_
#define DEVRT_EXAMPLES_SUPPORT_STENCIL_H_

#include <cstdint>

#include "devrt/devrt.h"

namespace example {

// Rows of the plate.  A step is ComputeEdges, whose rows the neighbours need,
// then ComputeInner.  Every array knows which stream still uses it, and whoever
// touches it next is ordered behind that: no event is to be seen.  What is to
// overlap must therefore be in arrays of its own, as the outer rows and the
// halos are: a use is one of the whole array's memory.
struct Part {
  // `top`: these are the first rows of the plate.
  static absl::StatusOr<Part> Make(devrt::Device device, int64_t rows,
                                   int64_t columns, bool top);

  // first and last := the outer rows of the next step, on `edges`.
  absl::Status ComputeEdges();
  // now := all rows of the next step, on `inner`.
  absl::Status ComputeInner();
  // Waits for all of it.
  absl::Status Ready() const;

  devrt::Stream inner, edges, exchange;
  devrt::Array now, next;     // the rows before and after a step
  devrt::Array first, last;   // the outer ones after the step
  devrt::Array above, below;  // the halos: the neighbours', before the step
  devrt::Array quarter;       // 0.25
};

// Compares rows of a plate of `all_rows`, from the `first`-th on, with what one
// thread computes in `steps` steps.
absl::Status Verify(const devrt::Array& rows, int64_t first, int64_t all_rows,
                    int64_t steps);

}  // namespace example

#endif  // DEVRT_EXAMPLES_SUPPORT_STENCIL_H_
