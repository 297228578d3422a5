// SPDX-License-Identifier: Apache-2.0
//
// Copies by the calling thread: any strides, any two dtypes, the conversions of
// devrt_tensor.h.

#ifndef DEVRT_ARRAYS_COPY_COPY_ON_HOST_H_
#define DEVRT_ARRAYS_COPY_COPY_ON_HOST_H_

#include "devrt/arrays/array.h"

namespace devrt::internal {

// Elements of `dst` := those of `src`.  Of one shape, in memory that the host
// may touch now; they do not overlap, or are one view of one dtype.
void CopyOnHost(const Array& dst, const Array& src);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_COPY_COPY_ON_HOST_H_
