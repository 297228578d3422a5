// SPDX-License-Identifier: Apache-2.0
//
// CUDA's error codes, each classified by hand.

#ifndef DEVRT_BACKENDS_CUDA_ERROR_TABLE_H_
#define DEVRT_BACKENDS_CUDA_ERROR_TABLE_H_

#include "backends/gpu/errors.h"

namespace devrt::cuda {

// Returns kUnlistedError for a code that no header of CUDA 12.0 to 13.0 has.
const gpu::ErrorMeaning& MeaningOf(int code);

}  // namespace devrt::cuda

#endif  // DEVRT_BACKENDS_CUDA_ERROR_TABLE_H_
