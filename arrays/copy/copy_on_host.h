// SPDX-License-Identifier: Apache-2.0
//
// Copies by the calling thread, with any strides, between any two dtypes, with
// the conversions of devrt_tensor.h.

#ifndef DEVRT_ARRAYS_COPY_COPY_ON_HOST_H_
#define DEVRT_ARRAYS_COPY_COPY_ON_HOST_H_

#include "devrt/arrays/array.h"

namespace devrt::internal {

// Copies the elements of `src` to `dst`.  Both have one shape, the host may
// touch their memory now, and they do not overlap or are one view of one dtype.
void CopyOnHost(const Array& dst, const Array& src);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_COPY_COPY_ON_HOST_H_
