// SPDX-License-Identifier: Apache-2.0
//
// devrt_memory.h: the C functions, and what is between native handles and
// streams.

#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/memory/devrt_memory.h"

extern "C" {

int32_t devrt_memory_alloc_v0(const char*, uint64_t, void*, void**) {
  return DEVRT_UNIMPLEMENTED;
}
int32_t devrt_memory_free_v0(void*) { return DEVRT_UNIMPLEMENTED; }
int32_t devrt_memory_free_on_v0(void*, void*) { return DEVRT_UNIMPLEMENTED; }
int32_t devrt_memory_record_stream_v0(const void*, const char*, void*) {
  return DEVRT_UNIMPLEMENTED;
}
int32_t devrt_memory_stream_ends_v0(const char*, void*) {
  return DEVRT_UNIMPLEMENTED;
}
int32_t devrt_memory_empty_cache_v0(const char*) { return DEVRT_UNIMPLEMENTED; }
int32_t devrt_memory_stats_read_v0(const char*, devrt_memory_stats_v0*) {
  return DEVRT_UNIMPLEMENTED;
}
const char* devrt_memory_last_error_v0(void) { return ""; }
}
