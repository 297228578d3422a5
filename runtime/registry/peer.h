// SPDX-License-Identifier: Apache-2.0
//
// Peer access: kernels of one device use the memory of another.
//
//   DEVRT_ASSIGN_OR_RETURN(bool can, devrt::CanAccessPeer(gpu0, gpu1));
//   if (can) DEVRT_RETURN_IF_ERROR(devrt::EnablePeerAccess(gpu0, gpu1));
//   ... kernels of gpu0 read memory of gpu1 ...
//   DEVRT_RETURN_IF_ERROR(devrt::DisablePeerAccess(gpu0, gpu1));
//
// Access has one direction: enabling gpu0 to use gpu1 does not enable gpu1 to
// use gpu0 (C75).  Access covers all memory of the peer, also later allocations
// (C77).  It holds for the process, not for one thread.
//
// What it is not: a condition for copies.  Copies between devices work without
// peer access (C58).
//
// Threads: any.  Errors of all functions, besides those named below:
// FAILED_PRECONDITION after Shutdown() and in a forked child, and for Enable
// and Disable inside host functions; the sticky error of a device that is lost.

#ifndef DEVRT_RUNTIME_REGISTRY_PEER_H_
#define DEVRT_RUNTIME_REGISTRY_PEER_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"

namespace devrt {

// True if access from `device` to `peer` can be enabled.  False if both are one
// device (C74), if they belong to two backends, and if the backend lacks
// PEER_ACCESS.  Creates no context.
DEVRT_EXPORT absl::StatusOr<bool> CanAccessPeer(Device device, Device peer);

// Allows kernels of `device` to use memory of `peer`.
//   ALREADY_EXISTS       devrt enabled it before (C76).  If another library
//                        enabled it, the call succeeds
//   FAILED_PRECONDITION  impossible for this pair, see CanAccessPeer
DEVRT_EXPORT absl::Status EnablePeerAccess(Device device, Device peer);

// Ends the access that EnablePeerAccess allowed.  Access that another library
// had enabled before devrt stays enabled (C76).
//   FAILED_PRECONDITION  devrt has not enabled access for this pair
DEVRT_EXPORT absl::Status DisablePeerAccess(Device device, Device peer);

}  // namespace devrt

#endif  // DEVRT_RUNTIME_REGISTRY_PEER_H_
