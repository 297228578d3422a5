/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.capture/0": whether a stream records what it is given into a
 * graph instead of running it.  Other libraries capture streams that devrt has
 * adopted; what would invalidate their capture, such as memory from the driver,
 * is then refused before the driver is asked (interop.md, rule 20).
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_CAPTURE_H_
#define DEVRT_BACKENDS_ABI_DEVRT_CAPTURE_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DEVRT_CAPTURE_EXTENSION "devrt.capture/0"

typedef struct devrt_capture_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any] 1 while `stream` is capturing, also after the capture became invalid,
   * and where using it would end in another stream's capture.  Changes nothing:
   * a capture stays as valid as it was. */
  devrt_status (*stream_is_capturing)(void* self, devrt_stream stream,
                                      uint32_t* yes);
} devrt_capture_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_CAPTURE_H_ */
