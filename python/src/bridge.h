// SPDX-License-Identifier: Apache-2.0
//
// Bridges: streams that producers are told in the place of a per-thread default
// stream, whose number they do not take (E57).
//
//   producer's work  ->  bridge  ->  the per-thread default stream
//
// A device has one, made when it is first needed.  It is devrt's own, and no
// stream of the program's that shutdown or a reset could wait for: EndBridges
// comes before them, and the next import makes another.
//
// Threads: any; none may hold the GIL, as drivers are called.

#ifndef DEVRT_PYTHON_SRC_BRIDGE_H_
#define DEVRT_PYTHON_SRC_BRIDGE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "devrt/runtime/device.h"
#include "devrt/streams/stream.h"

namespace devrt::python {

// Is kept by who uses it.
absl::StatusOr<std::shared_ptr<Stream>> BridgeStream(Device device);
// Lets them all go; those in use end with that.
void EndBridges();

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_BRIDGE_H_
