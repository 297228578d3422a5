// SPDX-License-Identifier: Apache-2.0
//
// The functions behind a DLPackExchangeAPI, for arrays.  The table itself
// belongs to the language whose objects it takes; devrt_exchange.h has the
// table for C.
//
//   int FromPyObjectNoSync(void* py, DLManagedTensorVersioned** out) {
//     auto tensor = devrt::ExportNoSync(ArrayOf(py));
//     if (!tensor.ok()) return SetPythonError(tensor.status());
//     *out = *tensor;
//     return 0;
//   }
//
// "No sync" means that the consumer works on CurrentWorkStream of the tensor's
// device, or makes its own stream wait for that stream.  Both exports make that
// stream wait, by events, for the pending uses of other streams; if there are
// none they call no backend.  DLPack calls managed memory of every device (13,
// 0), so a stream of device 0 waits for it.
//
// Errors: exchange.h.  Threads: any.

#ifndef DEVRT_ARRAYS_EXCHANGE_DLPACK_EXCHANGE_H_
#define DEVRT_ARRAYS_EXCHANGE_DLPACK_EXCHANGE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/arrays/array.h"
#include "devrt/arrays/dlpack_abi.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"

namespace devrt {

// Returns a tensor that the caller owns.  The stream counts as a user of the
// memory until the deleter is called.
DEVRT_EXPORT absl::StatusOr<DLManagedTensorVersioned*> ExportNoSync(
    const Array& array, CallSite site = CallSite::Here());

// Fills `*out`, which is valid as long as the object `array` and `strides`, an
// array of array.ndim() numbers.  The stream counts as a user of the memory to
// the end of the memory; Array::NoteUse tells devrt of writes.  Allocates
// nothing.  kBuffer for read-only arrays, because a DLTensor cannot be marked
// read-only.
DEVRT_EXPORT absl::Status BorrowNoSync(const Array& array, int64_t* strides,
                                       DLTensor* out,
                                       CallSite site = CallSite::Here());

// Returns C-contiguous memory with the prototype's dtype, shape and device.
// Reads no other field of the prototype.
DEVRT_EXPORT absl::StatusOr<DLManagedTensorVersioned*> AllocateLike(
    const DLTensor& prototype, CallSite site = CallSite::Here());

// The native handle of the calling thread's current stream on that device, also
// for managed memory.  nullptr for the default stream, and for host and pinned
// memory.  INVALID_ARGUMENT: no such device.
DEVRT_EXPORT absl::StatusOr<void*> CurrentWorkStream(DLDeviceType device_type,
                                                     int32_t device_id);

}  // namespace devrt

#endif  // DEVRT_ARRAYS_EXCHANGE_DLPACK_EXCHANGE_H_
