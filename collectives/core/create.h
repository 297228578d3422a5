// SPDX-License-Identifier: Apache-2.0
//
// How communicators begin, and waits for the engine to make or end them.

#ifndef DEVRT_COLLECTIVES_CORE_CREATE_H_
#define DEVRT_COLLECTIVES_CORE_CREATE_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "collectives/core/comm.h"
#include "devrt/collectives/bootstrap.h"
#include "devrt/runtime/call_site.h"

namespace devrt::collectives::internal {

absl::StatusOr<std::shared_ptr<Comm>> CreateOne(Device device,
                                                Bootstrap* bootstrap,
                                                const Options& options,
                                                CallSite site);
absl::StatusOr<std::vector<std::shared_ptr<Comm>>> CreateAll(
    absl::Span<const Device> devices, const Options& options, CallSite site);

// The options as the engine takes them.  Refers to `options` and `label`.
devrt_comm_options_v0 EngineOptions(const Options& options, const char* label);

// Makes the recorder of a place that has its rank, key and label.  Before the
// engine begins the place, because this rank alone may fail here.
absl::Status MakeRecorder(Comm* comm);

// Gives a communicator that the engine has made to the process and the watch.
absl::Status Complete(const std::shared_ptr<Comm>& comm, CallSite site);

// Waits until the engine has done what was asked last of each.
// DEADLINE_EXCEEDED, or the error of the engine for one of them.
absl::Status AwaitReady(absl::Span<const std::shared_ptr<Comm>> comms,
                        absl::Time deadline);

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_CORE_CREATE_H_
