// SPDX-License-Identifier: Apache-2.0
//
// What a DLPackExchangeAPI is made of, for arrays: the table itself belongs to
// the language whose objects it takes.  For C there is devrt_exchange.h.
//
//   int FromPyObjectNoSync(void* py, DLManagedTensorVersioned** out) {
//     auto tensor = devrt::ExportNoSync(ArrayOf(py));
//     if (!tensor.ok()) return SetPythonError(tensor.status());
//     *out = *tensor;
//     return 0;
//   }
//
// "No sync": the consumer works on CurrentWorkStream of the tensor's device, or
// orders its own stream behind that.  Managed memory of every device is (13, 0)
// and so ordered on a stream of device 0.  Both exports join pending uses of
// other streams into it, by events, and issue nothing where there are none.
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

// Owning; the stream is a user of the memory until the deleter is called.
DEVRT_EXPORT absl::StatusOr<DLManagedTensorVersioned*> ExportNoSync(
    const Array& array, CallSite site = CallSite::Here());

// Borrowed: valid as long as `array`, the object, and `strides` are, which has
// room for array.ndim() numbers.  The stream is a user of the memory to its
// end; what is written there is told by Array::NoteUse.  Allocates nothing.
// kBuffer for read-only arrays, which a DLTensor cannot mark.
DEVRT_EXPORT absl::Status BorrowNoSync(const Array& array, int64_t* strides,
                                       DLTensor* out,
                                       CallSite site = CallSite::Here());

// C-contiguous memory of the prototype's dtype, shape and device, of which
// nothing else is looked at.
DEVRT_EXPORT absl::StatusOr<DLManagedTensorVersioned*> AllocateLike(
    const DLTensor& prototype, CallSite site = CallSite::Here());

// The native handle of the calling thread's current stream there, managed
// memory's too; nullptr for the default stream, and for host and pinned memory.
// INVALID_ARGUMENT for a
// device that is not there.
DEVRT_EXPORT absl::StatusOr<void*> CurrentWorkStream(DLDeviceType device_type,
                                                     int32_t device_id);

}  // namespace devrt

#endif  // DEVRT_ARRAYS_EXCHANGE_DLPACK_EXCHANGE_H_
