/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.capture/0": tells whether a stream captures, that is records
 * operations into a graph instead of running them.  Other libraries may capture
 * a stream that devrt has adopted.  An allocation from the driver, and every
 * other operation that would invalidate the capture, is then refused before the
 * driver is asked (E20).
 *
 * A graph keeps the addresses of the memory that it uses.  devrt may reuse
 * memory of a capture once every graph made from the capture is gone;
 * capture_retain reports that moment.
 *
 * Only the first function is in every version.  Another function is missing if
 * it lies beyond struct_size or is NULL; stream_capture_id and capture_retain
 * are both present or both missing.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_CAPTURE_H_
#define DEVRT_BACKENDS_ABI_DEVRT_CAPTURE_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name for get_extension. */
#define DEVRT_CAPTURE_EXTENSION "devrt.capture/0"

/* Modes of cudaStreamCaptureMode.  They say which unsafe calls (such as memory
 * from the driver) are allowed while a capture runs (C82, C85): GLOBAL: none in
 * any thread; THREAD_LOCAL: none in the thread that began the capture; RELAXED:
 * all that do not concern captured work. */
#define DEVRT_CAPTURE_GLOBAL 0u
#define DEVRT_CAPTURE_THREAD_LOCAL 1u
#define DEVRT_CAPTURE_RELAXED 2u

/* The functions of the extension. */
typedef struct devrt_capture_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any] 1 if `stream` is capturing, also if the capture became invalid, and
   * also if using `stream` would invalidate another stream's capture.  Leaves
   * every capture unchanged. */
  devrt_status (*stream_is_capturing)(void* self, devrt_stream stream,
                                      uint32_t* yes);
  /* [any] The number of the capture that `stream` is part of.  All streams of a
   * capture have one number; it is not 0 and never reused in the process.
   * FAILED_PRECONDITION if there is no capture, or an invalid one. */
  devrt_status (*stream_capture_id)(void* self, devrt_stream stream,
                                    uint64_t* id);
  /* [any] Calls release(arg) once, when nothing can run the captured work any
   * more: the capture and every graph made from it, copies and executable
   * graphs included, are gone, and their work is complete.  The call comes from
   * any thread and with locks of the driver held, so `release` must call
   * neither the driver nor devrt.  After an error `release` is not called;
   * errors of stream_capture_id. */
  devrt_status (*capture_retain)(void* self, devrt_stream stream,
                                 void (*release)(void* arg), void* arg);
  /* [any, callback] Exchanges the calling thread's mode, DEVRT_CAPTURE_*, with
   * *mode.  A caller that sets a mode must restore the former mode. */
  devrt_status (*exchange_thread_mode)(void* self, uint32_t* mode);
} devrt_capture_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_CAPTURE_H_ */
