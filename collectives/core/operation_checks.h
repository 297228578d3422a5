// SPDX-License-Identifier: Apache-2.0
//
// What one rank can know of an operation before its submission.

#ifndef DEVRT_COLLECTIVES_CORE_OPERATION_CHECKS_H_
#define DEVRT_COLLECTIVES_CORE_OPERATION_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/core/comm.h"
#include "devrt/collectives/operation.h"

namespace devrt::collectives::internal {

// The operation as the engine takes it, and the memory that it touches.
struct CheckedOperation {
  devrt_collective_v0 op = {};
  uint64_t src_bytes = 0;  // 0: nothing is read
  uint64_t dst_bytes = 0;
};

// INVALID_ARGUMENT with the argument and its value; UNIMPLEMENTED if the engine
// lacks the operation for the dtype.
absl::Status CheckOperation(Comm* comm, const Operation& operation,
                            CheckedOperation* checked);

// INVALID_ARGUMENT for an array that is not C-contiguous on the device: the
// engine would be told of other memory than that of its elements.
absl::Status CheckRegistered(const Comm& comm, const Array& array);

// Returns true if the engine has the operation.
absl::StatusOr<bool> Supports(Comm* comm, OpKind kind, DType dtype,
                              Reduction reduction);

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_CORE_OPERATION_CHECKS_H_
