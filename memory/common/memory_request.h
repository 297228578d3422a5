// SPDX-License-Identifier: Apache-2.0
//
// The arguments of a memory resource's functions (memory_resource.h).

#ifndef DEVRT_MEMORY_COMMON_MEMORY_REQUEST_H_
#define DEVRT_MEMORY_COMMON_MEMORY_REQUEST_H_

#include <cstdint>

#include "devrt/runtime/call_site.h"
#include "devrt/streams/stream.h"

namespace devrt {

// What DoAllocate gets: which memory, and for which stream.
struct MemoryRequest {
  StreamRef stream;    // of the resource's device
  uint64_t bytes;      // > 0, < 2^60
  uint64_t alignment;  // a power of two, or 0 for properties().alignment
  CallSite site;
};

// What DoDeallocate gets: a block, and the stream in whose order it is free.
struct MemoryReturn {
  void* pointer;     // from Allocate; never null
  uint64_t bytes;    // that the caller asked for
  StreamRef stream;  // of the resource's device
  CallSite site;
};

}  // namespace devrt

#endif  // DEVRT_MEMORY_COMMON_MEMORY_REQUEST_H_
