/* SPDX-License-Identifier: Apache-2.0
 *
 * Host extension "devrt.own_query/0", from host->get_extension: tells queries
 * that the host makes for itself from those of the program.  The host asks
 * before it uses memory again; the program does not learn the answer.  A race
 * detector must not take such an answer for a wait of the program.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_OWN_QUERY_H_
#define DEVRT_BACKENDS_ABI_DEVRT_OWN_QUERY_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name for host->get_extension. */
#define DEVRT_OWN_QUERY_EXTENSION "devrt.own_query/0"

/* The function of the extension. */
typedef struct devrt_own_query_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any] Not 0 if the present call of the calling thread is a stream_query or
   * event_query that the host makes for itself. */
  uint32_t (*is_own)(void* host);
} devrt_own_query_v0;

#ifdef __cplusplus
}
#endif

#endif /* DEVRT_BACKENDS_ABI_DEVRT_OWN_QUERY_H_ */
