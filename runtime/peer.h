// SPDX-License-Identifier: Apache-2.0
//
// Peer access: whether kernels of one device may use memory of another.
//
//   DEVRT_ASSIGN_OR_RETURN(bool can, devrt::CanAccessPeer(gpu0, gpu1));
//   if (can) DEVRT_RETURN_IF_ERROR(devrt::EnablePeerAccess(gpu0, gpu1));
//   ... kernels of gpu0 read memory of gpu1 ...
//   DEVRT_RETURN_IF_ERROR(devrt::DisablePeerAccess(gpu0, gpu1));
//
// Access has one direction: enabling gpu0 to gpu1 allows nothing to gpu1
// (C75).  It covers memory that exists and memory yet to come (C77).  It is
// state of the process, not of the thread.
//
// What it is not: needed for copies.  Copies between devices work without it
// (C58).
//
// Threads: any.  Errors, besides the ones below: FAILED_PRECONDITION after
// Shutdown(), in a forked child and (enable, disable) inside host functions;
// the device's fault when one of the two is lost.

#ifndef DEVRT_RUNTIME_PEER_H_
#define DEVRT_RUNTIME_PEER_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"

namespace devrt {

// Whether access of `device` to `peer` can be enabled.  False for a device and
// itself (C74), for devices of two backends, and where the backend lacks
// PEER_ACCESS.  Creates no context.
DEVRT_EXPORT absl::StatusOr<bool> CanAccessPeer(Device device, Device peer);

// Allows kernels of `device` to use memory of `peer`.
//   ALREADY_EXISTS       devrt enabled it before (C76); if another library
//                        did, it is a success
//   FAILED_PRECONDITION  impossible for this pair, see CanAccessPeer
DEVRT_EXPORT absl::Status EnablePeerAccess(Device device, Device peer);

// The opposite.  Access that another library had enabled before devrt stays
// (C76).
//   FAILED_PRECONDITION  devrt has not enabled it
DEVRT_EXPORT absl::Status DisablePeerAccess(Device device, Device peer);

}  // namespace devrt

#endif  // DEVRT_RUNTIME_PEER_H_
