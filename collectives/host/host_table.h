// SPDX-License-Identifier: Apache-2.0
//
// The table of devrt_collectives.h over a HostEngine.
//
// Threads: any.

#ifndef DEVRT_COLLECTIVES_HOST_HOST_TABLE_H_
#define DEVRT_COLLECTIVES_HOST_HOST_TABLE_H_

#include <optional>
#include <string_view>

#include "collectives/provider.h"
#include "devrt/runtime/backend.h"

namespace devrt::collectives::internal {

// The provider of that name for the devices of the backend; nullopt if no
// engine of that name is registered.
std::optional<Provider> FindHostProvider(const Backend& backend,
                                         std::string_view name);

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_HOST_HOST_TABLE_H_
