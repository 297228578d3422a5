// SPDX-License-Identifier: Apache-2.0
//
// Kernels: the elementwise and reduce extensions of a device, on one stream,
// for as long as one operation enqueues.
//
//   RunOrdered({stream, site}, touched, [&](const StreamTarget& target) {
//     return Kernels("add", target).Apply(DEVRT_OP_ADD, out, inputs, 2);
//   });
//
// RunOrdered orders the work and notes the uses of memory; Kernels does
// neither.
//
// Errors: UNIMPLEMENTED, naming the operation, the dtype, the backend and the
// remedy; those of the backend.

#ifndef DEVRT_ARRAYS_CORE_KERNELS_H_
#define DEVRT_ARRAYS_CORE_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "devrt/arrays/array.h"
#include "devrt/backends/abi/devrt_tensor.h"
#include "devrt/runtime/call_site.h"
#include "devrt/streams/stream.h"
#include "streams/objects/stream_target.h"

namespace devrt::internal {

// The struct that describes an array to a kernel.  The array must outlive it.
inline devrt_tensor_v0 TensorOf(const Array& array) {
  return {array.data(), array.shape().data(), array.strides().data(),
          static_cast<uint32_t>(array.ndim()), array.dtype().code()};
}

// Return true if the backend of `device` has the extension.
bool HasElementwise(Device device);
bool HasReduce(Device device);
// UNIMPLEMENTED if the backend lacks the extension; `operation` is NumPy's
// name.
absl::Status CheckElementwise(Device device, const char* operation);
absl::Status CheckReduce(Device device, const char* operation);

class Kernels {
 public:
  // `operation` names the kernels in errors and timelines; `target` outlives
  // this.
  Kernels(const char* operation, const StreamTarget& target)
      : operation_(operation), target_(target) {}
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  // See devrt_tensor.h.
  absl::Status Fill(const devrt_tensor_v0& out, const void* element);
  absl::Status Apply(uint32_t op, const devrt_tensor_v0& out,
                     const devrt_tensor_v0* inputs, size_t count);
  absl::Status Reduce(uint32_t op, const devrt_tensor_v0& out,
                      const devrt_tensor_v0& in, uint32_t axes);

 private:
  absl::Status Explain(absl::Status error, const devrt_tensor_v0& in,
                       uint32_t supported) const;

  const char* operation_;
  const StreamTarget& target_;
};

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_CORE_KERNELS_H_
