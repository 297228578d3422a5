/* SPDX-License-Identifier: Apache-2.0
 *
 * Host extension "devrt.stream_number/0", which host->get_extension answers:
 * the numbers that programs know streams by.  For texts, such as timelines and
 * reports of deadlocks: a host that uses a stream handle again gives it another
 * number, so ask in the call that submits, and keep the number with what is
 * submitted.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_STREAM_NUMBER_H_
#define DEVRT_BACKENDS_ABI_DEVRT_STREAM_NUMBER_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DEVRT_STREAM_NUMBER_EXTENSION "devrt.stream_number/0"

typedef struct devrt_stream_number_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any] The number of `stream`, which the calling thread's present call is
   * about, plus 1: 1 is a default stream, 0 one whose number is not known. */
  uint64_t (*number)(void* host, devrt_stream stream);
} devrt_stream_number_v0;

#ifdef __cplusplus
}
#endif

#endif /* DEVRT_BACKENDS_ABI_DEVRT_STREAM_NUMBER_H_ */
