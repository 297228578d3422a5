// SPDX-License-Identifier: Apache-2.0
//
// HIP's error codes, each classified by hand.

#ifndef DEVRT_BACKENDS_HIP_ERROR_TABLE_H_
#define DEVRT_BACKENDS_HIP_ERROR_TABLE_H_

#include "backends/gpu/errors.h"

namespace devrt::hip {

// Returns kUnlistedError for a code that no header of HIP 5.2 to 7.0 has.
const gpu::ErrorMeaning& MeaningOf(int code);

}  // namespace devrt::hip

#endif  // DEVRT_BACKENDS_HIP_ERROR_TABLE_H_
