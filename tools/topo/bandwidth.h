// SPDX-License-Identifier: Apache-2.0
//
// How fast copies between devices, and between a device and pinned memory, are.
//
//   DEVRT_ASSIGN_OR_RETURN(const PairFigures figures, MeasurePair(from, to));
//
// Bandwidths are in GB/s, 10^9 bytes of the copy in a second: the median of
// five copies of 64 MiB, or of an eighth of a smaller memory, behind one that
// is not counted.  The time is between two events on the stream of the copies,
// so that it is simulated time on a simulator.
//
// Each function allocates what it copies, and frees it; creates contexts; and
// waits for its own copies.  Errors are those of the calls: RESOURCE_EXHAUSTED,
// UNIMPLEMENTED for a backend without timing or pinned memory.

#ifndef DEVRT_TOOLS_TOPO_BANDWIDTH_H_
#define DEVRT_TOOLS_TOPO_BANDWIDTH_H_

#include "absl/status/statusor.h"
#include "devrt/runtime/device.h"

namespace devrt::tools {

// Between two devices.
struct PairFigures {
  double gigabytes = 0;      // in a second
  double small_copy_us = 0;  // the median time of a copy of 4 bytes
};

// Copies from one device to another one of its backend.  Peer access is enabled
// for that time where it is possible.
absl::StatusOr<PairFigures> MeasurePair(Device from, Device to);
// Copies from pinned memory to the device, and back:
absl::StatusOr<double> MeasureFromHost(Device device);
absl::StatusOr<double> MeasureToHost(Device device);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_TOPO_BANDWIDTH_H_
