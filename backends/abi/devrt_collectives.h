/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.collectives/0": operations in which several devices, the
 * ranks of a communicator, take part.  A backend may offer the extension (mtia
 * does), and libdevrt_collectives makes tables of this form over NCCL, RCCL and
 * registered engines on host memory, such as MPI.  C++ programs use
 * devrt/collectives/communicator.h.
 *
 *   uint64_t size = sizeof(id);
 *   c->unique_id(self, id, &size);              // rank 0; sent to all others
 *   c->comm_begin(self, device, 8, rank, id, size, &options, &comm);
 *   do c->comm_poll(self, comm, &state); while (state == DEVRT_COMM_PENDING);
 *   c->submit(self, &submission, 1);            // on every rank
 *   ... c->comm_finish(self, comm); poll until READY; ...
 *   c->comm_destroy(self, comm);
 *
 * Rules
 *   1. A collective is an operation of the stream of its submission: it comes
 *      after the stream's earlier work and before its later work.  It ends when
 *      this rank's part is done: its input was read, its output is complete.
 *      An engine without STREAM_ORDERED returns from submit at that time.
 *   2. The n-th collective of a communicator on one rank meets the n-th of
 *      every other rank.  All must be alike: op, dtype, count, reduction, root.
 *      The groups of one rank run one after another, whatever their streams.
 *      Sends and receives meet in the order of each pair of ranks, and are not
 *      counted as collectives.
 *   3. Operations of one call of submit are one group: none of them waits for
 *      another one of the group, in whatever order they stand.
 *   4. submit checks everything that one rank can know before it enqueues
 *      anything.  A call that fails has enqueued nothing.
 *   5. No function waits for another rank but comm_revoke, comm_abort and
 *      comm_destroy, which end within a time of the engine's own, and submit of
 *      an engine without STREAM_ORDERED.  What takes longer is PENDING, and
 *      comm_poll tells its end.
 *   6. One thread at a time calls submit, comm_split, comm_shrink, comm_finish
 *      or comm_destroy for a communicator.  comm_poll, comm_revoke and
 *      comm_abort may be called beside them, from any thread.
 *   7. After an error of comm_poll the communicator has failed: later calls
 *      return ABORTED, and only comm_revoke, comm_abort, comm_shrink with
 *      abort_first, and comm_destroy work.  The output of an operation that had
 *      not ended is undefined.  Other work of the stream goes on.
 *   8. Zero elements are allowed: the operation moves nothing, and still meets
 *      the operations of the other ranks.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_COLLECTIVES_H_
#define DEVRT_BACKENDS_ABI_DEVRT_COLLECTIVES_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name for get_extension. */
#define DEVRT_COLLECTIVES_EXTENSION "devrt.collectives/0"

/* The place of one rank in a communicator; never NULL when valid. */
typedef struct devrt_comm_impl* devrt_comm;

/* devrt_collectives_v0.flags: what the engine can do. */
#define DEVRT_COLLECTIVES_STREAM_ORDERED 1u /* as said above */
#define DEVRT_COLLECTIVES_ABORT 2u          /* comm_abort ends operations */
#define DEVRT_COLLECTIVES_REVOKE 4u
#define DEVRT_COLLECTIVES_SPLIT 8u
#define DEVRT_COLLECTIVES_SHRINK 16u
#define DEVRT_COLLECTIVES_REGISTER 32u
#define DEVRT_COLLECTIVES_CAPTURE 64u        /* submit into a capture */
#define DEVRT_COLLECTIVES_SHARED_DEVICE 128u /* several ranks on one device */
/* Communicators of one device do not need a common order. */
#define DEVRT_COLLECTIVES_ORDERS_ITSELF 256u
/* timeout_ns, in the engine's own clock: the simulator. */
#define DEVRT_COLLECTIVES_OWN_DEADLINES 512u
/* Collectives that are not alike, or a send and a receive of different sizes,
 * fail the communicator on every rank, with INVALID_ARGUMENT. */
#define DEVRT_COLLECTIVES_COMPARES 1024u
/* Operations of communicators of one device follow each other as they were
 * submitted, whatever their streams: the caller need not order them.  All ranks
 * still submit in one order. */
#define DEVRT_COLLECTIVES_KEEPS_ORDER 2048u

/* devrt_collective_v0.op.  n is the number of ranks; `count` elements of: */
#define DEVRT_COLLECTIVE_ALL_REDUCE 0u     /* src and dst */
#define DEVRT_COLLECTIVE_REDUCE 1u         /* src, and dst of the root */
#define DEVRT_COLLECTIVE_BROADCAST 2u      /* src of the root, and dst */
#define DEVRT_COLLECTIVE_ALL_GATHER 3u     /* src; dst has n * count */
#define DEVRT_COLLECTIVE_REDUCE_SCATTER 4u /* dst; src has n * count */
#define DEVRT_COLLECTIVE_ALL_TO_ALL 5u /* one part; src and dst have n parts */
#define DEVRT_COLLECTIVE_GATHER 6u     /* src; the root's dst has n * count */
#define DEVRT_COLLECTIVE_SCATTER 7u    /* dst; the root's src has n * count */
#define DEVRT_COLLECTIVE_SEND 8u       /* src, to the peer, another rank */
#define DEVRT_COLLECTIVE_RECV 9u       /* dst, from the peer, another rank */
#define DEVRT_COLLECTIVE_COUNT 10u

/* devrt_collective_v0.reduction, of ALL_REDUCE, REDUCE and REDUCE_SCATTER. */
#define DEVRT_COLLECTIVE_SUM 0u
#define DEVRT_COLLECTIVE_PROD 1u
#define DEVRT_COLLECTIVE_MIN 2u
#define DEVRT_COLLECTIVE_MAX 3u
#define DEVRT_COLLECTIVE_AVG 4u /* the sum, divided by n */

/* One operation of one rank.  In place: src == dst; for ALL_GATHER and GATHER
 * src is this rank's part of dst, for REDUCE_SCATTER and SCATTER dst is this
 * rank's part of src.  Otherwise src and dst must not overlap. */
typedef struct devrt_collective_v0 {
  uint32_t struct_size;
  uint32_t op;          /* DEVRT_COLLECTIVE_* */
  uint32_t dtype;       /* DEVRT_DTYPE of devrt_tensor.h */
  uint32_t reduction;   /* DEVRT_COLLECTIVE_SUM ...; 0 where there is none */
  int32_t root_or_peer; /* rank; 0 where there is none */
  uint32_t flags;       /* 0 */
  uint64_t count;
  const void* src; /* NULL where this rank has none */
  void* dst;       /* NULL where this rank has none */
} devrt_collective_v0;

/* Operations of one communicator on one stream of its device. */
typedef struct devrt_submission_v0 {
  uint32_t struct_size;
  uint32_t op_count;
  devrt_comm comm;
  devrt_stream stream;
  const devrt_collective_v0* ops;
  /* Where the program made each operation, for reports, which tell all ranks'
   * lines; NULL: each has the place of the call of submit. */
  const devrt_call_site_v0* sites;
} devrt_submission_v0;

/* How a communicator is made. */
typedef struct devrt_comm_options_v0 {
  uint32_t struct_size;
  uint32_t shared_device; /* 1: other ranks may have this rank's device */
  /* With OWN_DEADLINES: an operation that has not met those of the other ranks
   * this long after its beginning fails its communicator on every rank, with
   * DEADLINE_EXCEEDED.  0: never. */
  uint64_t timeout_ns;
  const char* name; /* for reports; copied; or NULL */
} devrt_comm_options_v0;

/* What stands behind the table.  Strings live as long as the process. */
typedef struct devrt_collectives_info_v0 {
  uint32_t struct_size;
  uint32_t version;     /* of the engine, as its own number: NCCL's 22809 */
  const char* provider; /* "mtia", "nccl", "rccl", "mpi" */
  const char* text;     /* the version for people: "2.28.9" */
  const char* path;     /* of the engine's library; "" if there is none */
} devrt_collectives_info_v0;

/* comm_poll */
#define DEVRT_COMM_PENDING 0u /* the last call on it is not complete */
#define DEVRT_COMM_READY 1u

/* The most bytes of a unique id. */
#define DEVRT_COLLECTIVES_MAX_ID 256u

/* The functions of the extension. */
typedef struct devrt_collectives_v0 {
  uint32_t struct_size;
  uint32_t flags; /* DEVRT_COLLECTIVES_* */
  /* [any] Fills at most info->struct_size bytes. */
  devrt_status (*info)(void* self, devrt_collectives_info_v0* info);
  /* [any] 1 if the operation exists for this dtype; `reduction` is ignored
   * where the operation has none. */
  devrt_status (*supports)(void* self, uint32_t op, uint32_t dtype,
                           uint32_t reduction, uint32_t* yes);
  /* [any] The id of a new communicator.  `size` is the room at `bytes`, and
   * then the id's size; INVALID_ARGUMENT if the room is too small. */
  devrt_status (*unique_id)(void* self, void* bytes, uint64_t* size);
  /* [any] Begins to make the place of `rank` among `ranks`; returns at once,
   * and the communicator is PENDING until every rank has begun. */
  devrt_status (*comm_begin)(void* self, uint32_t device, uint32_t ranks,
                             uint32_t rank, const void* id, uint64_t size,
                             const devrt_comm_options_v0* options,
                             devrt_comm* comm);
  /* [any] The state; an error: why the communicator failed, on every call. */
  devrt_status (*comm_poll)(void* self, devrt_comm comm, uint32_t* state);
  /* [any] Submits the operations of all `count` submissions as one group.
   * FAILED_PRECONDITION while a communicator is PENDING. */
  devrt_status (*submit)(void* self, const devrt_submission_v0* submissions,
                         uint32_t count);
  /* [any, blocking] Ends what runs, and keeps the communicator as a parent for
   * comm_split and comm_shrink. */
  devrt_status (*comm_revoke)(void* self, devrt_comm comm);
  /* [any, blocking] Ends what runs, on this rank.  The communicator has failed
   * afterwards.  A second call does nothing. */
  devrt_status (*comm_abort)(void* self, devrt_comm comm);
  /* [any] Collective.  Makes a communicator of the ranks with equal `color`,
   * ordered by `key`, then by rank.  *child is NULL for color -1, and PENDING
   * until all ranks have called. */
  devrt_status (*comm_split)(void* self, devrt_comm comm, int32_t color,
                             int32_t key, const devrt_comm_options_v0* options,
                             devrt_comm* child);
  /* [any] Collective of the ranks that are not in `gone`, which rise.  Makes a
   * communicator of them, in their order.  `abort_first`: ends what still runs
   * on this communicator, which has failed afterwards. */
  devrt_status (*comm_shrink)(void* self, devrt_comm comm, const uint32_t* gone,
                              uint32_t gone_count, uint32_t abort_first,
                              devrt_comm* child);
  /* [any] Collective.  Begins the orderly end: PENDING until the operations of
   * every rank are complete.  Only comm_destroy may follow. */
  devrt_status (*comm_finish)(void* self, devrt_comm comm);
  /* [any, blocking] Frees the rank's place.  What still runs is aborted. */
  devrt_status (*comm_destroy)(void* self, devrt_comm comm);
  /* [any] Tells the engine of memory that operations will use often. */
  devrt_status (*buffer_register)(void* self, devrt_comm comm, void* ptr,
                                  uint64_t size, void** handle);
  devrt_status (*buffer_deregister)(void* self, devrt_comm comm, void* handle);
} devrt_collectives_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_COLLECTIVES_H_ */
