// SPDX-License-Identifier: Apache-2.0
//
// The engine behind the communicators of a device: a table of
// devrt_collectives.h and its first argument.
//
//   DEVRT_ASSIGN_OR_RETURN(const Provider provider, FindProvider(device, ""));
//   provider.table->unique_id(provider.self, id, &size);
//
// Threads: any.

#ifndef DEVRT_COLLECTIVES_PROVIDER_H_
#define DEVRT_COLLECTIVES_PROVIDER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_collectives.h"
#include "devrt/runtime/device.h"

namespace devrt::collectives::internal {

// Valid until the end of the process.
struct Provider {
  void* self = nullptr;
  const devrt_collectives_v0* table = nullptr;
  // True if the table is an extension of the device's backend, so that layers
  // stand in front of it.
  bool is_of_backend = false;
  // Returns true if the communicator is PENDING since its last submission, so
  // that nobody has to poll one that is not; nullptr: only a poll tells.
  bool (*is_pending)(devrt_comm comm) = nullptr;

  // Lets submissions of a new communicator wait for other ranks until
  // comm_abort or comm_revoke ends them, because that is cheaper; before the
  // first poll, and on all ranks alike, each of which is to be polled.
  // nullptr: the engine gains nothing.
  void (*let_wait)(devrt_comm comm) = nullptr;
  // With let_wait: returns true if it may be called in this process.
  bool (*can_wait)(void* self) = nullptr;

  // Flags of the table that another rank of the communicator lacks.
  uint32_t missing = 0;

  uint32_t flags() const { return table->flags & ~missing; }
  bool Has(uint32_t flag) const { return (flags() & flag) != 0; }
};

// ProviderInfo::features of a table's flags.
std::vector<std::string> FeaturesOf(uint32_t flags);

// The provider of a device: the extension of its backend if `name` is empty or
// the backend's; else nccl for cuda and rccl for hip.
//   INVALID_ARGUMENT  the device has no provider of that name
//   UNIMPLEMENTED     the device has none at all
//   otherwise         why the engine's library was not loaded
absl::StatusOr<Provider> FindProvider(Device device, std::string_view name);

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_PROVIDER_H_
