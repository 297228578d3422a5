// SPDX-License-Identifier: Apache-2.0
//
// The routes of CopyArray: within a device, between two devices, and between a
// device and the host.
//
//   return CopyBetweenPeers(CopyJob(dst, src, stream, non_blocking, site));
//
// Memory between two steps is an array as well, so that the uses of arrays
// order all steps.

#ifndef DEVRT_ARRAYS_COPY_COPY_ROUTES_H_
#define DEVRT_ARRAYS_COPY_COPY_ROUTES_H_

#include "absl/status/status.h"
#include "arrays/copy/copy_job.h"
#include "devrt/arrays/array.h"
#include "devrt/runtime/call_site.h"

namespace devrt::internal {

absl::Status CopyHostToHost(const Array& dst, const Array& src, CallSite site);
absl::Status CopyWithinDevice(const CopyJob& job);
absl::Status CopyBetweenPeers(const CopyJob& job);
absl::Status CopyHostToDevice(const CopyJob& job);
absl::Status CopyDeviceToHost(const CopyJob& job);
// Copies through host memory, with a wait.
absl::Status CopyThroughHost(const CopyJob& job);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_COPY_COPY_ROUTES_H_
