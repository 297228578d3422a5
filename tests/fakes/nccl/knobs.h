/* SPDX-License-Identifier: Apache-2.0
 *
 * A libnccl.so.2 without NCCL, for the provider's tests: communicators of the
 * devices of one process, over CUDA's driver, which is tests/fakes/cuda there.
 * Its collectives copy to host memory, meet in host functions of the streams,
 * and copy back; so they follow and precede the work of their streams.  A rank
 * that does not come holds the streams of the others, as in NCCL, until the
 * communicator is aborted.  The driver's machine must be threaded
 * (DEVRT_MTIA="mode=threaded"), as a host function waits for another one.
 *
 * An abort and a destruction return at once, but for those of the last rank:
 * they free the memory of all ranks, which waits for all work of the devices.
 *
 * A child has the abort flag of its parent, where the parent's configuration
 * has splitShare.
 *
 * It checks what NCCL requires of its caller: a context is current, that of the
 * communicator outside of groups, for one that has a rank alone and for a
 * default stream, only a child that shares blocks, the place of a child lives
 * until the child is made, a finished or aborted communicator is not used, and
 * none is freed that another thread is in.
 *
 * DEVRT_FAKE_NCCL_VERSION is the version that it tells, 23203 otherwise.  With
 * DEVRT_FAKE_NCCL_MAY_BLOCK it takes a configuration that blocks, as a program
 * that measures NCCL alone gives one.
 */
#ifndef DEVRT_TESTS_FAKES_NCCL_KNOBS_H_
#define DEVRT_TESTS_FAKES_NCCL_KNOBS_H_

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fake_nccl_knobs {
  /* The fail_at-th call from now on returns fail_code and does nothing else; an
   * abort or a destruction still frees the communicator.  0: none. */
  unsigned long fail_at;
  int fail_code;
  /* After so many groups, the communicators of the next one have this
   * asynchronous error.  async_code 0: none. */
  unsigned long async_after;
  int async_code;
  int init_never;    /* communicators are never complete */
  int abort_hangs;   /* aborts do not return until fake_nccl_let_go */
  int slow;          /* calls are in progress until the second poll */
  int drops_context; /* calls leave no context current */
  int does_nothing;  /* operations return at once: to measure the caller */
  int calls_wait;    /* submissions that block wait until all ranks submit */
} fake_nccl_knobs;

/* Sets all knobs, and counts calls from 0. */
void fake_nccl_set(const fake_nccl_knobs* knobs);
/* Lets the aborts return that hang. */
void fake_nccl_let_go(void);
/* Calls since fake_nccl_set, without those that tell a text or a version. */
unsigned long fake_nccl_calls(void);
/* The name of the last of them. */
const char* fake_nccl_last_call(void);
/* Groups with operations, and operations outside of one, that were submitted
   since fake_nccl_set; they may be waiting. */
unsigned long fake_nccl_groups(void);
/* Communicators that are not freed; groups that are open on this thread. */
int fake_nccl_live(void);
int fake_nccl_open_groups(void);
/* Collectives in which all ranks have met, and differed. */
int fake_nccl_differing(void);

#ifdef __cplusplus
}
#endif
#endif /* DEVRT_TESTS_FAKES_NCCL_KNOBS_H_ */
