// SPDX-License-Identifier: Apache-2.0
//
// Bridges: streams that DLPack producers are given instead of a per-thread
// default stream, because producers do not accept its number (E57).
//
//   producer's work  ->  bridge  ->  the per-thread default stream
//
// Each device has one bridge, made when it is first needed.  The program does
// not know it, so shutdown and a device reset must not wait for it: EndBridges
// comes before them, and the next import makes a new bridge.
//
// Threads: any, without the GIL, because the functions call drivers.

#ifndef DEVRT_PYTHON_SRC_BRIDGE_H_
#define DEVRT_PYTHON_SRC_BRIDGE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "devrt/runtime/device.h"
#include "devrt/streams/stream.h"

namespace devrt::python {

// Returns the bridge of a device.  The first call makes it.  The stream lives
// as long as a caller holds the pointer, even after EndBridges.
absl::StatusOr<std::shared_ptr<Stream>> BridgeStream(Device device);
// Forgets all bridges.  Each ends with its last user.
void EndBridges();

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_BRIDGE_H_
