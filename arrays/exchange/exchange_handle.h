// SPDX-License-Identifier: Apache-2.0
//
// Between Array and the handles of devrt_exchange.h.

#ifndef DEVRT_ARRAYS_EXCHANGE_EXCHANGE_HANDLE_H_
#define DEVRT_ARRAYS_EXCHANGE_EXCHANGE_HANDLE_H_

#include "devrt/arrays/array.h"
#include "devrt/arrays/devrt_exchange.h"
#include "devrt/runtime/export.h"

namespace devrt {

// The caller owns the handle: devrt_array_release_v0.
DEVRT_EXPORT devrt_array* WrapArray(Array array);
// Valid as long as the handle.
DEVRT_EXPORT const Array& UnwrapArray(const devrt_array* handle);

}  // namespace devrt

#endif  // DEVRT_ARRAYS_EXCHANGE_EXCHANGE_HANDLE_H_
