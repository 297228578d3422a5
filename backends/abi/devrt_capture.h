/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.capture/0": whether a stream records what it is given into a
 * graph instead of running it.  Other libraries capture streams that devrt has
 * adopted; what would invalidate their capture, such as memory from the driver,
 * is then refused before the driver is asked (E20).
 *
 * Graphs keep addresses: memory that a capture has used may be given to others
 * when every graph that came of it is gone, and capture_retain tells when.
 *
 * The functions behind the first came later: NULL, or beyond struct_size, where
 * they are missing.  stream_capture_id and capture_retain come together.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_CAPTURE_H_
#define DEVRT_BACKENDS_ABI_DEVRT_CAPTURE_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DEVRT_CAPTURE_EXTENSION "devrt.capture/0"

/* What a capture, of any stream of the process, bears of a thread (C82, C85):
 * nothing unsafe; nothing unsafe of the thread that began it; everything that
 * is not about what it has captured. */
#define DEVRT_CAPTURE_GLOBAL 0u
#define DEVRT_CAPTURE_THREAD_LOCAL 1u
#define DEVRT_CAPTURE_RELAXED 2u

typedef struct devrt_capture_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any] 1 while `stream` is capturing, also after the capture became invalid,
   * and where using it would end in another stream's capture.  Changes nothing:
   * a capture stays as valid as it was. */
  devrt_status (*stream_is_capturing)(void* self, devrt_stream stream,
                                      uint32_t* yes);
  /* [any] The number of the capture that `stream` is part of: not 0, the same
   * for all its streams, and no other capture of the process has or had it.
   * FAILED_PRECONDITION where there is none, or one that became invalid. */
  devrt_status (*stream_capture_id)(void* self, devrt_stream stream,
                                    uint64_t* id);
  /* [any] Calls release(arg) once, when nothing can run any more what that
   * capture records: neither it nor a graph that came of it, a copy or an
   * executable one, is left, and what they ran is complete.  From any thread
   * and with locks of the driver's held: `release` calls neither the driver nor
   * devrt.  Not called after an error; errors as above. */
  devrt_status (*capture_retain)(void* self, devrt_stream stream,
                                 void (*release)(void* arg), void* arg);
  /* [any, callback] Swaps the calling thread's mode, DEVRT_CAPTURE_*, with
   * *mode.  Whoever sets one sets the former again. */
  devrt_status (*exchange_thread_mode)(void* self, uint32_t* mode);
} devrt_capture_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_CAPTURE_H_ */
