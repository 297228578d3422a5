// SPDX-License-Identifier: Apache-2.0
//
// Tables of collectives (devrt_collectives.h) over NCCL for the devices of
// cuda, and over RCCL for those of hip.  The library is loaded by the first
// call (collectives/nccl/library.h).
//
//   DEVRT_ASSIGN_OR_RETURN(Provider nccl, OpenNccl(backend));
//
// Communicators do not block: a call that the library does not end at once
// leaves its communicator PENDING, submit too.  After such a submit the caller
// polls until READY before it gives the stream later work; only then the order
// of the stream is that of the calls.
//
// The library makes the child of a split or a shrink while the parent is in
// progress.  Until the child is ready or has failed, or the parent was aborted,
// the child can be neither aborted nor destroyed, and the parent outlives it.
//
// Where the engine differs from the table's rules:
//   - Operations without elements are not passed on: they do not meet those of
//     the other ranks.
//   - An all-to-all in place is UNIMPLEMENTED.
//   - A native call that fails when the group is closed fails the communicators
//     of the group, since part of it may have been enqueued.
//
// Every call that may reach the device has the device's context current, and
// restores what was current before (C103).
//
// Threads: as devrt_collectives.h says; OpenNccl and OpenRccl from any thread.

#ifndef DEVRT_COLLECTIVES_NCCL_NCCL_PROVIDER_H_
#define DEVRT_COLLECTIVES_NCCL_NCCL_PROVIDER_H_

#include "absl/status/statusor.h"
#include "collectives/provider.h"
#include "devrt/runtime/backend.h"

namespace devrt::collectives::internal {

// The provider "nccl" of the backend cuda; one for each process.
//   INVALID_ARGUMENT  another backend
//   otherwise         why the library cannot be used (OpenLibrary)
absl::StatusOr<Provider> OpenNccl(const Backend& backend);

// The provider "rccl" of the backend hip.
absl::StatusOr<Provider> OpenRccl(const Backend& backend);

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_NCCL_NCCL_PROVIDER_H_
