// SPDX-License-Identifier: Apache-2.0
//
// Completes the function table that a plugin returned.

#ifndef DEVRT_RUNTIME_PLUGINS_TABLE_H_
#define DEVRT_RUNTIME_PLUGINS_TABLE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::internal {

// Copies the slots that both `given` and this devrt have; the other slots of
// `*ops` become NULL.
//   INVALID_ARGUMENT  the table is missing, or shorter than the first version's
absl::Status CopyTable(const devrt_ops_v0* given, devrt_ops_v0* ops);

// Copies the slots that both `given.ops` and this devrt have into `*ops`.  A
// slot that is missing, or whose capability the plugin does not claim, gets a
// stub that returns UNIMPLEMENTED; so callers test neither for NULL nor for
// capability bits.  Sets `*capabilities` to the bits of `given` that this devrt
// knows.
//   INVALID_ARGUMENT  the table is missing, or shorter than the first
//                     version's; a required slot is empty; or a capability is
//                     claimed that the table or the manifest does not have
absl::Status CompleteTable(const devrt_backend_v0& given,
                           const devrt_manifest_v0& manifest, devrt_ops_v0* ops,
                           uint64_t* capabilities);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_PLUGINS_TABLE_H_
