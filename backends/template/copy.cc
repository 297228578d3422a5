// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills, which are work of a stream.

#include "backend.h"

namespace mybackend_plugin {

// `kind` tells which of the two lies on the device: DEVRT_COPY_*.
devrt_status Backend::copy_async(devrt_stream stream, void* dst,
                                 const void* src, uint64_t size,
                                 uint32_t kind) {
  static_cast<void>(stream);
  static_cast<void>(dst);
  static_cast<void>(src);
  static_cast<void>(size);
  static_cast<void>(kind);
  return NotWritten("copy_async", "copy.cc");
}

devrt_status Backend::fill_async(devrt_stream stream, void* dst, uint32_t value,
                                 uint64_t size) {
  static_cast<void>(stream);
  static_cast<void>(dst);
  static_cast<void>(value);
  static_cast<void>(size);
  return NotWritten("fill_async", "copy.cc");
}

}  // namespace mybackend_plugin
