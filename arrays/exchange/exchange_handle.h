// SPDX-License-Identifier: Apache-2.0
//
// Conversion between Array and the handles of devrt_exchange.h.  Threads: any.

#ifndef DEVRT_ARRAYS_EXCHANGE_EXCHANGE_HANDLE_H_
#define DEVRT_ARRAYS_EXCHANGE_EXCHANGE_HANDLE_H_

#include "devrt/arrays/array.h"
#include "devrt/arrays/devrt_exchange.h"
#include "devrt/runtime/export.h"

namespace devrt {

// The caller owns the handle and ends it with devrt_array_release_v0.
DEVRT_EXPORT devrt_array* WrapArray(Array array);
// The reference is valid as long as the handle.
DEVRT_EXPORT const Array& UnwrapArray(const devrt_array* handle);

}  // namespace devrt

#endif  // DEVRT_ARRAYS_EXCHANGE_EXCHANGE_HANDLE_H_
