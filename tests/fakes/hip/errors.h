// SPDX-License-Identifier: Apache-2.0
//
// HIP's names of error codes, and the thread's last error: for every library
// that pretends to be one of HIP's.

#ifndef DEVRT_TESTS_FAKES_HIP_ERRORS_H_
#define DEVRT_TESTS_FAKES_HIP_ERRORS_H_

// Overloads would hide the functions' own types.
#define __HIP_DISABLE_CPP_FUNCTIONS__
#include <hip/hip_runtime_api.h>

namespace devrt::fake {

// The thread's last error, if it is one, or if that `takes_all`: hipSuccess and
// hipErrorNotReady too.  Gives `error` back.
hipError_t RememberLast(hipError_t error, bool takes_all);

}  // namespace devrt::fake

#endif  // DEVRT_TESTS_FAKES_HIP_ERRORS_H_
