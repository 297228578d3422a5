// SPDX-License-Identifier: Apache-2.0
//
// ExtensionOf: an extension's table of functions, and what they take as `self`.

#ifndef DEVRT_STREAMS_COMMON_EXTENSION_H_
#define DEVRT_STREAMS_COMMON_EXTENSION_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "devrt/runtime/backend.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

template <typename Table>
struct ExtensionOf {
  const Table* table = nullptr;  // nullptr: the backend lacks the extension
  void* self = nullptr;
};

// An extension whose table is known to be a Table, or that was not found.
template <typename Table>
ExtensionOf<Table> ToExtensionOf(const absl::StatusOr<Extension>& found) {
  if (!found.ok()) return {};
  return {static_cast<const Table*>(found->table), found->self};
}

// The extension `name` of the device's backend, if its table has at least
// `minimum_size` bytes.
template <typename Table>
ExtensionOf<Table> FindExtension(DeviceRecord* device, const char* name,
                                 uint32_t minimum_size = sizeof(Table)) {
  return ToExtensionOf<Table>(
      BackendRecord::Wrap(device->backend).GetExtension(name, minimum_size));
}

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_COMMON_EXTENSION_H_
