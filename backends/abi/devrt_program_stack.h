/* SPDX-License-Identifier: Apache-2.0
 *
 * Host extension "devrt.program_stack/0", from host->get_extension: the calls
 * that led to the present call, where no native stack shows them because an
 * interpreter runs the program.  A layer that reports call stacks puts them
 * after the native frames in front of the interpreter:
 *
 *   static uint32_t depth(const devrt_host_v0* host) {
 *     const devrt_program_stack_v0* const stack =
 *         (const devrt_program_stack_v0*)host->get_extension(
 *             host->host, DEVRT_PROGRAM_STACK_EXTENSION);
 *     const devrt_program_frames_v0* const frames =
 *         stack == NULL ? NULL : stack->frames(host->host);
 *     return frames == NULL ? 0 : frames->count + frames->left_out;
 *   }
 *
 * A layer gets the frames from the host, and asks no interpreter: it would need
 * the interpreter's lock, which another thread may hold while that thread waits
 * for the layer.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_PROGRAM_STACK_H_
#define DEVRT_BACKENDS_ABI_DEVRT_PROGRAM_STACK_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name for host->get_extension. */
#define DEVRT_PROGRAM_STACK_EXTENSION "devrt.program_stack/0"

/* The most frames that the host notes of a call. */
#define DEVRT_PROGRAM_FRAMES 32u

/* One function of the program.  The texts live until the process ends, and one
 * text has one address. */
typedef struct devrt_program_frame_v0 {
  const char* file;
  const char* function; /* "Trainer.epoch" */
  int32_t line;
  uint32_t reserved0;
} devrt_program_frame_v0;

/* The frames of a call.  Frames of the host's own package are left out. */
typedef struct devrt_program_frames_v0 {
  uint32_t struct_size;
  uint32_t count;                       /* DEVRT_PROGRAM_FRAMES at most */
  const devrt_program_frame_v0* frames; /* the innermost first */
  uint32_t left_out;                    /* frames outside of them */
  uint32_t reserved0;
} devrt_program_frames_v0;

/* The functions of the extension. */
typedef struct devrt_program_stack_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any] wanted 1: from now on the host notes the frames of each call, which
   * costs microseconds.  wanted 0 takes one such call back. */
  void (*want)(void* host, uint32_t wanted);
  /* [any] The frames of the calling thread's present call, valid until that
   * call returns; NULL if the host has noted none.  Native code that the
   * interpreter runs has frames as long as its thread has the interpreter's
   * lock. */
  const devrt_program_frames_v0* (*frames)(void* host);
  /* [any] An address in the module number `index` of those that run the
   * program's language; NULL after the last one.  In a native stack, frames
   * from the first such module on are the interpreter's own. */
  const void* (*interpreter)(void* host, uint32_t index);
} devrt_program_stack_v0;

#ifdef __cplusplus
}
#endif

#endif /* DEVRT_BACKENDS_ABI_DEVRT_PROGRAM_STACK_H_ */
