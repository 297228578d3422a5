// SPDX-License-Identifier: Apache-2.0
//
// A complete table from what a plugin gave.

#ifndef DEVRT_RUNTIME_INTERNAL_TABLE_H_
#define DEVRT_RUNTIME_INTERNAL_TABLE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::internal {

// Copies as much of `given` as both sides know; the rest of `*ops` is NULL.
//   INVALID_ARGUMENT  the table is missing or shorter than any version's
absl::Status CopyTable(const devrt_ops_v0* given, devrt_ops_v0* ops);

// Copies as much of `given.ops` as both sides know into `*ops`, and puts stubs
// that answer UNIMPLEMENTED where it has nothing or has not promised it, so
// that no caller tests for NULL or for bits.  Sets `*capabilities` to the known
// ones of `given`.
//   INVALID_ARGUMENT  the table is missing or shorter than any version's, a
//                     required slot is empty, or a capability is promised
//                     that the table or the manifest does not keep
absl::Status CompleteTable(const devrt_backend_v0& given,
                           const devrt_manifest_v0& manifest, devrt_ops_v0* ops,
                           uint64_t* capabilities);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_TABLE_H_
