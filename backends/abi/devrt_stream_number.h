/* SPDX-License-Identifier: Apache-2.0
 *
 * Host extension "devrt.stream_number/0", from host->get_extension: what the
 * host knows of the streams of a call.  Their numbers are those that programs
 * see (StreamRef::id).  Use them in texts such as
 * timelines and deadlock reports.  A stream handle that the host reuses gets
 * another number; so ask in the call that submits an operation, and keep the
 * number with the operation.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_STREAM_NUMBER_H_
#define DEVRT_BACKENDS_ABI_DEVRT_STREAM_NUMBER_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name for host->get_extension. */
#define DEVRT_STREAM_NUMBER_EXTENSION "devrt.stream_number/0"

/* The functions of the extension. */
typedef struct devrt_stream_number_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any] The number of `stream` plus 1; 1 for a default stream, 0 if the
   * number is unknown.  `stream` is an argument of the calling thread's present
   * call. */
  uint64_t (*number)(void* host, devrt_stream stream);
  /* [any] 0 if no other library can capture `stream`: it has not the native
   * handle, and the stream has not waited for captured work.  Then nobody need
   * ask devrt.capture/0 in this call.  Not 0 if it can, or if that is unknown.
   * `stream` is an argument of the calling thread's present call. */
  uint32_t (*may_be_captured)(void* host, devrt_stream stream);
} devrt_stream_number_v0;

#ifdef __cplusplus
}
#endif

#endif /* DEVRT_BACKENDS_ABI_DEVRT_STREAM_NUMBER_H_ */
