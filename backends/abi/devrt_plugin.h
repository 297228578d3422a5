/* SPDX-License-Identifier: Apache-2.0
 *
 * devrt plugin ABI, major version 0: the C interface between the devrt runtime
 * (the host) and a backend, a shared library for one kind of accelerator.
 *
 * A backend exports exactly these two symbols:
 *
 *   const devrt_manifest_v0 devrt_plugin_manifest_v0;      // in .rodata
 *   devrt_status devrt_plugin_open_v0(const devrt_host_v0*, devrt_backend_v0*);
 *
 * A plugin in C, whose table also needs every required slot (devrt_slots.inc):
 *
 *   static const devrt_ops_v0 ops = {
 *       .struct_size = sizeof ops, .abi_minor = DEVRT_ABI_MINOR,
 *       .shutdown = my_shutdown, .device_count = my_device_count};
 *
 *   const devrt_manifest_v0 devrt_plugin_manifest_v0 = {
 *       DEVRT_MANIFEST_MAGIC, sizeof(devrt_manifest_v0), DEVRT_ABI_MAJOR,
 *       DEVRT_ABI_MINOR, 100, 0, "acme", "Acme Inc.", "1.0"};
 *
 *   devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
 *                                     devrt_backend_v0* backend) {
 *     backend->self = &my_state;
 *     backend->ops = &ops;
 *     backend->capabilities = 0;
 *     return NULL;
 *   }
 *
 * C++ authors use devrt_plugin_helper.h, which builds the table from a class.
 *
 * Conventions
 *   1. C99, C11, C++17, C++20; LP64.  No enum, bool, long, size_t or bit-field
 *      in a struct or a signature.
 *   2. A struct that may grow begins with `uint32_t struct_size`.  The owner of
 *      the memory sets it to the size that the owner was compiled with.  New
 *      versions only append fields and slots.  A reader takes
 *      min(struct_size, its own size) bytes and treats the rest as zero; it
 *      never compares sizes for equality.
 *   3. Every table function takes `void* self` first, so that a layer is just
 *      another {self, table} pair.
 *   4. A function returns devrt_status: NULL is success; any other value is an
 *      error that was made by host->error_create and belongs to the receiver.
 *   5. Arguments are checked before anything changes: an error leaves all
 *      state and all out-parameters unchanged.
 *   6. "Not complete yet" is an out-parameter, never an error.
 *   7. No exception leaves a plugin; a plugin never aborts, exits, writes to
 *      stdout or changes the environment.
 *   8. Thread tags:
 *        [any]       from any thread, also concurrently on one handle
 *        [load]      the host serialises these calls with each other
 *        [blocking]  may wait for the device; other functions never do, except
 *                    that an enqueue may wait if queue_depth is not 0
 *        [callback]  may be called from a host function (see host_func); other
 *                    functions must not be
 *   9. A NULL slot is unimplemented: the host puts a stub there that returns
 *      UNIMPLEMENTED.  The host refuses a plugin whose required slot is NULL
 *      (devrt_slots.inc), or the slot of a capability bit that it sets.
 *
 * docs/reference/plugin-contract.md and docs/reference/semantics.md define the
 * calls; numbers in brackets (C27) are items of docs/reference/semantics.md.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_PLUGIN_H_
#define DEVRT_BACKENDS_ABI_DEVRT_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this ABI: the host refuses another major version. */
#define DEVRT_ABI_MAJOR 0u
#define DEVRT_ABI_MINOR 0u

/* Bytes of TYPE up to and including FIELD. */
#define DEVRT_SIZE_THROUGH(type, field) \
  ((uint32_t)(offsetof(type, field) + sizeof(((type*)0)->field)))
/* True if the struct that PTR points to is long enough to hold FIELD. */
#define DEVRT_HAS_FIELD(ptr, type, field) \
  ((ptr)->struct_size >= DEVRT_SIZE_THROUGH(type, field))

/* Marks the symbols that a plugin or a layer exports. */
#define DEVRT_PLUGIN_EXPORT __attribute__((visibility("default")))

/* ---- Errors -------------------------------------------------------------- */

/* NULL: success.  Otherwise an error of the host that the receiver owns. */
typedef struct devrt_error* devrt_status;

/* Equal to absl::StatusCode; never renumbered. */
typedef int32_t devrt_code;
/* The codes; docs/reference/semantics.md 2.1 says what each one means. */
#define DEVRT_OK ((devrt_code)0)
#define DEVRT_CANCELLED ((devrt_code)1)
#define DEVRT_UNKNOWN ((devrt_code)2)
#define DEVRT_INVALID_ARGUMENT ((devrt_code)3)
#define DEVRT_DEADLINE_EXCEEDED ((devrt_code)4)
#define DEVRT_NOT_FOUND ((devrt_code)5)
#define DEVRT_ALREADY_EXISTS ((devrt_code)6)
#define DEVRT_PERMISSION_DENIED ((devrt_code)7)
#define DEVRT_RESOURCE_EXHAUSTED ((devrt_code)8)
#define DEVRT_FAILED_PRECONDITION ((devrt_code)9)
#define DEVRT_ABORTED ((devrt_code)10)
#define DEVRT_OUT_OF_RANGE ((devrt_code)11)
#define DEVRT_UNIMPLEMENTED ((devrt_code)12)
#define DEVRT_INTERNAL ((devrt_code)13)
#define DEVRT_UNAVAILABLE ((devrt_code)14)
#define DEVRT_DATA_LOSS ((devrt_code)15)

/* The device is unusable for the rest of the process:
 * docs/reference/semantics.md 2.3. */
#define DEVRT_ERROR_STICKY 1u
/* Earlier work caused the error, not the call that returned it. */
#define DEVRT_ERROR_ASYNC 2u
/* With STICKY: every device of the backend is lost (fault_scope=process). */
#define DEVRT_ERROR_PROCESS 4u

/* The origin of an error; host->error_set_origin attaches it. */
typedef struct devrt_error_origin_v0 {
  uint32_t struct_size;
  uint32_t flags;          /* DEVRT_ERROR_* */
  int64_t native_code;     /* the vendor's number, 0 if there is none */
  uint64_t native_stream;  /* native handle, 0 if unknown */
  int32_t device;          /* ordinal of the device at fault, -1: none */
  uint32_t reserved0;      /* zero */
  const char* native_name; /* "cudaErrorLaunchFailure", or NULL; copied */
  const char* entry_point; /* "cuStreamSynchronize", or NULL; copied */
} devrt_error_origin_v0;

/* The place in the application that called devrt; see host->call_site. */
typedef struct devrt_call_site_v0 {
  const char* file; /* static storage, or NULL when unknown */
  int32_t line;
  uint32_t reserved0;
  const char* label; /* the user's name for the operation, or NULL */
} devrt_call_site_v0;

/* ---- Functions of the host ----------------------------------------------- */

/* Levels of host->log, in ascending order. */
#define DEVRT_LOG_DEBUG 0
#define DEVRT_LOG_INFO 1
#define DEVRT_LOG_WARNING 2
#define DEVRT_LOG_ERROR 3

/* The host's functions.  Valid from devrt_plugin_open_v0 until the process
 * ends. */
typedef struct devrt_host_v0 {
  uint32_t struct_size;
  uint32_t abi_minor; /* the highest minor version that the host knows */
  void* host;         /* first argument of every function below */
  /* [any, callback] Makes an error.  `text` has `size` bytes, UTF-8, and is
   * copied.  Never fails: without memory it returns a static error. */
  devrt_status (*error_create)(void* host, devrt_code code, int64_t native_code,
                               const char* text, uint64_t size);
  /* [any, callback] Attaches the origin of `error`; strings are copied. */
  void (*error_set_origin)(void* host, devrt_status error,
                           const devrt_error_origin_v0* origin);
  /* [any, callback] The code of `error`, DEVRT_OK for NULL. */
  devrt_code (*error_code)(void* host, devrt_status error);
  /* [any, callback] The text of `error`; valid as long as `error`. */
  const char* (*error_text)(void* host, devrt_status error, uint64_t* size);
  /* [any, callback] Releases an error; NULL is allowed. */
  void (*error_destroy)(void* host, devrt_status error);
  /* [any, callback] The lowest level that is written. */
  int32_t (*log_min_level)(void* host);
  /* [any, callback] Writes one line; `text` has no newline at the end. */
  void (*log)(void* host, int32_t level, const char* file, int32_t line,
              const char* text, uint64_t size);
  /* [any, callback] The place where the calling thread entered devrt for its
   * present call.  Never NULL; valid until the plugin's function returns. */
  const devrt_call_site_v0* (*call_site)(void* host);
  /* [any] A host extension by name, or NULL. */
  const void* (*get_extension)(void* host, const char* name);
} devrt_host_v0;

/* ---- Handles ------------------------------------------------------------- */

typedef struct devrt_stream_impl* devrt_stream; /* never NULL when valid */
typedef struct devrt_event_impl* devrt_event;   /* never NULL when valid */

/* What context_enter saved: opaque to the host; its size never changes. */
typedef struct devrt_context {
  uint64_t state[2];
} devrt_context;

/* ---- Capabilities: promises, tested by the conformance suite ------------- */

#define DEVRT_CAP_EVENT_TIMING (UINT64_C(1) << 0)    /* event_elapsed_ns */
#define DEVRT_CAP_EVENT_IPC (UINT64_C(1) << 1)       /* DEVRT_EVENT_IPC flag */
#define DEVRT_CAP_HOST_FUNC (UINT64_C(1) << 2)       /* host_func */
#define DEVRT_CAP_STREAM_PRIORITY (UINT64_C(1) << 3) /* range is not [0, 0] */
#define DEVRT_CAP_STREAM_EXTERNAL (UINT64_C(1) << 4) /* DEVRT_STREAM_ADOPT */
#define DEVRT_CAP_PINNED_HOST (UINT64_C(1) << 5)     /* host_(de)alloc */
#define DEVRT_CAP_HOST_REGISTER (UINT64_C(1) << 6)   /* host_(un)register */
#define DEVRT_CAP_POINTER_INFO (UINT64_C(1) << 7)    /* pointer_info */
#define DEVRT_CAP_PEER_COPY (UINT64_C(1) << 8)       /* copy_peer_async */
#define DEVRT_CAP_PEER_ACCESS (UINT64_C(1) << 9)     /* peer_* */
#define DEVRT_CAP_ASYNC_ALLOC (UINT64_C(1) << 10)    /* (de)alloc_async */

/* ---- Plain data ---------------------------------------------------------- */

/* How asynchronous copies treat pageable host memory (C53). */
#define DEVRT_PAGEABLE_SYNC 1u   /* the call waits until the copy is complete */
#define DEVRT_PAGEABLE_STAGED 2u /* the source is read before the return */
#define DEVRT_PAGEABLE_LATE 3u   /* the source is read by the stream, later */

#define DEVRT_FAULT_DELIVERY_STATUS 0u /* a fault is reported as an error */
#define DEVRT_FAULT_DELIVERY_ABORT 1u  /* a fault may end the process */
#define DEVRT_FAULT_SCOPE_DEVICE 0u    /* other devices keep working */
#define DEVRT_FAULT_SCOPE_PROCESS 1u   /* all devices of the backend are lost */

/* The properties of a device; device_props fills the struct. */
typedef struct devrt_device_props_v0 {
  uint32_t struct_size;
  uint32_t ordinal;
  char name[128];      /* "NVIDIA H200"; NUL-terminated */
  char arch[32];       /* "sm_90", "gfx942", "mtia-sim" */
  uint8_t uuid[16];    /* stable for one device; never all zero */
  uint32_t pci_domain; /* with bus and device: the place in the machine */
  uint32_t pci_bus;
  uint32_t pci_device;
  uint32_t compute_major; /* 0.0 if there is no such version */
  uint32_t compute_minor;
  uint32_t multiprocessors;
  uint64_t total_memory;    /* bytes; equals total_bytes of mem_info */
  uint64_t overhead_bytes;  /* bytes of total_memory that are reserved */
  uint32_t alloc_alignment; /* of all pointers from alloc; a power of two */
  uint32_t copy_engines;    /* >= 1 (C60) */
  int32_t priority_least;   /* numerically greatest */
  int32_t priority_greatest;
  uint32_t queue_depth; /* operations a stream holds; 0: no limit (C6) */
  uint32_t elapsed_resolution_ns; /* of event_elapsed_ns */
  uint32_t pageable_async;        /* DEVRT_PAGEABLE_* */
  uint32_t raw_free_syncs;        /* 1: dealloc may wait for the device (C64) */
  uint32_t fault_delivery;        /* DEVRT_FAULT_DELIVERY_* */
  uint32_t fault_scope;           /* DEVRT_FAULT_SCOPE_* */
  uint32_t device_reset;          /* 1: simulator only (C72) */
  uint32_t reserved0;             /* zero */
} devrt_device_props_v0;

/* devrt_stream_desc_v0.kind */
#define DEVRT_STREAM_CREATE 0u     /* a new stream */
#define DEVRT_STREAM_LEGACY 1u     /* the device's implicit default stream */
#define DEVRT_STREAM_PER_THREAD 2u /* the calling thread's default stream */
#define DEVRT_STREAM_ADOPT 3u      /* an existing native stream, not owned */
/* devrt_stream_desc_v0.flags */
#define DEVRT_STREAM_BLOCKING 1u /* takes part in the legacy rule (C8) */

/* What stream_create makes. */
typedef struct devrt_stream_desc_v0 {
  uint32_t struct_size;
  uint32_t kind;    /* DEVRT_STREAM_CREATE and so on */
  uint32_t flags;   /* DEVRT_STREAM_BLOCKING or 0 */
  int32_t priority; /* lower is more urgent; clamped to the range (C22) */
  void* native;     /* the handle to adopt; NULL for the other kinds */
} devrt_stream_desc_v0;

/* event_create flags */
#define DEVRT_EVENT_TIMING 1u
#define DEVRT_EVENT_BLOCKING_SYNC 2u /* the host sleeps instead of spinning */
#define DEVRT_EVENT_IPC 4u           /* excludes DEVRT_EVENT_TIMING (C38) */

/* copy_async kinds; "host" includes pinned and registered memory */
#define DEVRT_COPY_INFER 0u
#define DEVRT_COPY_H2D 1u
#define DEVRT_COPY_D2H 2u
#define DEVRT_COPY_D2D 3u /* within one device */
#define DEVRT_COPY_H2H 4u

/* devrt_pointer_info_v0.kind */
#define DEVRT_POINTER_UNREGISTERED 0u /* plain host memory, NULL or freed */
#define DEVRT_POINTER_DEVICE 1u
#define DEVRT_POINTER_PINNED 2u
#define DEVRT_POINTER_MANAGED 3u

/* What pointer_info knows of a pointer. */
typedef struct devrt_pointer_info_v0 {
  uint32_t struct_size;
  uint32_t kind;          /* DEVRT_POINTER_* */
  int32_t device;         /* -1 for UNREGISTERED */
  uint32_t host_readable; /* 1: the host may dereference the pointer */
  void* base;             /* of the allocation; NULL for UNREGISTERED */
  uint64_t size;          /* as requested */
  uint64_t allocation_id; /* never reused in the process; 0: unknown */
} devrt_pointer_info_v0;

/* ---- Functions of the plugin --------------------------------------------- */

/* The table of a backend.  Pointers in signatures are non-NULL unless the text
 * says otherwise.  A size of 0 never reaches a plugin: the host handles it
 * (C59, C102). */
typedef struct devrt_ops_v0 {
  uint32_t struct_size;
  uint32_t abi_minor;

  /* -- required ----------------------------------------------------------- */

  /* [load, blocking] The last call.  No handle exists any more. */
  void (*shutdown)(void* self);

  /* [any, callback] Counts the devices; creates no context, and the count never
   * changes.  UNAVAILABLE, with the reason, on a machine without the
   * accelerator. */
  devrt_status (*device_count)(void* self, uint32_t* count);
  /* [any, callback] Fills at most props->struct_size bytes and keeps
   * struct_size; creates no context. */
  devrt_status (*device_props)(void* self, uint32_t device,
                               devrt_device_props_v0* props);
  /* [any] Free and total memory in bytes. */
  devrt_status (*mem_info)(void* self, uint32_t device, uint64_t* free_bytes,
                           uint64_t* total_bytes);

  /* [any] Allocates `size` bytes.  `alignment` is a power of two; 0 is the
   * device's own alignment.  RESOURCE_EXHAUSTED, without a change, if there is
   * not enough memory. */
  devrt_status (*alloc)(void* self, uint32_t device, uint64_t size,
                        uint64_t alignment, void** ptr);
  /* [any, blocking if raw_free_syncs] Frees a block; `size` is that of alloc.
   * All uses of the block are complete. */
  devrt_status (*dealloc)(void* self, uint32_t device, void* ptr,
                          uint64_t size);

  /* [any] LEGACY returns one handle for each device, PER_THREAD one for each
   * device and thread; stream_destroy on these is INVALID_ARGUMENT.  ADOPT
   * makes a handle that borrows `desc->native` and checks its device;
   * stream_destroy releases that handle and leaves the native stream alive. */
  devrt_status (*stream_create)(void* self, uint32_t device,
                                const devrt_stream_desc_v0* desc,
                                devrt_stream* stream);
  /* [any] Returns at once; work that was submitted still completes (C17). */
  devrt_status (*stream_destroy)(void* self, devrt_stream stream);
  /* [any, callback] 1 if all submitted operations are complete, including the
   * running one. */
  devrt_status (*stream_query)(void* self, devrt_stream stream, uint32_t* done);
  /* [any, blocking] Waits for all submitted operations of the stream. */
  devrt_status (*stream_sync)(void* self, devrt_stream stream);
  /* [any, callback] The vendor's handle.  One value stands for the PER_THREAD
   * streams of all threads. */
  devrt_status (*stream_native)(void* self, devrt_stream stream, void** native);
  /* [any] Later operations of `stream` wait for the event's present capture; no
   * wait if the event was never recorded (C24, C28).  Stream and event may
   * belong to different devices (C32). */
  devrt_status (*stream_wait_event)(void* self, devrt_stream stream,
                                    devrt_event event);

  /* [any] Makes an event; `flags` is a set of DEVRT_EVENT_*. */
  devrt_status (*event_create)(void* self, uint32_t device, uint32_t flags,
                               devrt_event* event);
  /* [any] Returns at once; waits that were issued still hold (C34). */
  devrt_status (*event_destroy)(void* self, devrt_event event);
  /* [any] Replaces the event's capture (C27).  INVALID_ARGUMENT, with the
   * capture unchanged, for a stream of another device (C31). */
  devrt_status (*event_record)(void* self, devrt_event event,
                               devrt_stream stream);
  /* [any, callback] 1 if the newest capture is complete or there is none. */
  devrt_status (*event_query)(void* self, devrt_event event, uint32_t* done);
  /* [any, blocking] Waits for the newest capture. */
  devrt_status (*event_sync)(void* self, devrt_event event);

  /* [any] The host has checked that `kind` is right or INFER, and that the
   * ranges lie inside allocations and do not overlap.  H2H waits for the
   * stream's work and is complete on return (C52). */
  devrt_status (*copy_async)(void* self, devrt_stream stream, void* dst,
                             const void* src, uint64_t size, uint32_t kind);
  /* [any] Sets every byte of [dst, dst + size) to value & 0xff.  `dst` is
   * memory of the stream's device, or of a peer that it may access (C47). */
  devrt_status (*fill_async)(void* self, devrt_stream stream, void* dst,
                             uint32_t value, uint64_t size);

  /* [any, blocking] Waits for all streams of `device`, of all threads (C5). */
  devrt_status (*device_sync)(void* self, uint32_t device);

  /* [any] Makes `device` the calling thread's current device.  Saves in
   * `previous` (may be NULL) exactly what was current, which may be another
   * library's context or none.  Never waits (C2). */
  devrt_status (*context_enter)(void* self, uint32_t device,
                                devrt_context* previous);
  /* [any] Restores what context_enter saved; creates no context (C103). */
  devrt_status (*context_exit)(void* self, const devrt_context* previous);
  /* [any, callback] The device of the thread's current context; 0 if there is
   * no current context. */
  devrt_status (*context_current)(void* self, uint32_t* device);

  /* -- optional, by capability bit ---------------------------------------- */

  /* [any] Stream-ordered allocation (ASYNC_ALLOC).  The address is returned at
   * once; the memory is usable after the stream's earlier work (C65).
   * RESOURCE_EXHAUSTED, without a change, if free memory and the memory that
   * this stream has freed do not suffice; never waits for another stream.
   * peer_enable covers this memory, and dealloc may free it. */
  devrt_status (*alloc_async)(void* self, devrt_stream stream, uint64_t size,
                              uint64_t alignment, void** ptr);
  /* [any] Frees a block after the stream's earlier work.  `stream` is any
   * stream of the memory's device that comes after all uses (C66). */
  devrt_status (*dealloc_async)(void* self, devrt_stream stream, void* ptr,
                                uint64_t size);

  /* [any, callback] Nanoseconds from `begin` to `end`; negative if `end` came
   * first.  Errors are checked in the order of C35. */
  devrt_status (*event_elapsed_ns)(void* self, devrt_event begin,
                                   devrt_event end, int64_t* nanoseconds);

  /* [any] Calls fn(arg, error) exactly once after all earlier work of the
   * stream.  `error` is NULL, or the error of that work (C45); `fn` owns it.
   * `fn` must not call functions without the tag [callback]. */
  devrt_status (*host_func)(void* self, devrt_stream stream,
                            void (*fn)(void* arg, devrt_status error),
                            void* arg);

  /* [any] Page-locked host memory; pointer_info reports `device` for it. */
  devrt_status (*host_alloc)(void* self, uint32_t device, uint64_t size,
                             uint64_t alignment, void** ptr);
  /* [any, blocking if raw_free_syncs] Frees memory of host_alloc. */
  devrt_status (*host_dealloc)(void* self, void* ptr, uint64_t size);
  /* [any] ALREADY_EXISTS if the range overlaps a registered one (C70). */
  devrt_status (*host_register)(void* self, uint32_t device, void* ptr,
                                uint64_t size);
  /* [any, blocking if raw_free_syncs] NOT_FOUND if no range is registered
   * there; INVALID_ARGUMENT for a pointer into a range. */
  devrt_status (*host_unregister)(void* self, void* ptr);

  /* [any, callback] Finds the memory around `ptr`.  A host pointer is never an
   * error (C71). */
  devrt_status (*pointer_info)(void* self, const void* ptr,
                               devrt_pointer_info_v0* info);

  /* [any] Copies between two devices, stream-ordered; works without peer access
   * (C57, C58).  `stream` belongs to either device. */
  devrt_status (*copy_peer_async)(void* self, devrt_stream stream, void* dst,
                                  uint32_t dst_device, const void* src,
                                  uint32_t src_device, uint64_t size);
  /* [any, callback] 1 if kernels of `device` can be allowed to access memory of
   * `peer`. */
  devrt_status (*peer_can_access)(void* self, uint32_t device, uint32_t peer,
                                  uint32_t* can);
  /* [any] Lets kernels of `device` use memory of `peer`: one direction, present
   * and later allocations (C75-C77). */
  devrt_status (*peer_enable)(void* self, uint32_t device, uint32_t peer);
  /* [any] Ends the access of peer_enable. */
  devrt_status (*peer_disable)(void* self, uint32_t device, uint32_t peer);

  /* [any] An extension table by name ("acme.collectives/1"), or NULL.  The
   * table begins with struct_size, and its functions take this `self`.  Every
   * call returns one table, which is valid as long as this table. */
  const void* (*get_extension)(void* self, const char* name);

  /* [any, callback] The vendor's handle of an event; NULL before the first
   * record (C99).  Optional, without a capability bit. */
  devrt_status (*event_native)(void* self, devrt_event event, void** native);
} devrt_ops_v0;

/* The host sets `struct_size`.  devrt_plugin_open_v0 fills the struct if it
 * succeeds, and leaves it unchanged if it fails. */
typedef struct devrt_backend_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  void* self;              /* first argument of the functions in `ops` */
  const devrt_ops_v0* ops; /* valid until shutdown has returned */
  /* DEVRT_CAP_*, a subset of the manifest's bits.  The host ignores unknown
   * bits, which a newer plugin may set. */
  uint64_t capabilities;
} devrt_backend_v0;

/* The first bytes of a manifest, which is read from the file without running
 * code: in .rodata, exported, and without relocations. */
#define DEVRT_MANIFEST_MAGIC "DEVRTPL"
/* What a plugin says of itself; texts end with NUL. */
typedef struct devrt_manifest_v0 {
  char magic[8]; /* DEVRT_MANIFEST_MAGIC */
  uint32_t struct_size;
  uint32_t abi_major;    /* DEVRT_ABI_MAJOR */
  uint32_t abi_minor;    /* DEVRT_ABI_MINOR */
  uint32_t priority;     /* lower comes first and is the default; 0: 100 */
  uint64_t capabilities; /* DEVRT_CAP_* that open may claim */
  char backend[32];      /* "mtia": [a-z][a-z0-9_]*, NUL-terminated */
  char vendor[64];
  char version[32];
} devrt_manifest_v0;

/* The names of the two symbols. */
#define DEVRT_PLUGIN_MANIFEST_SYMBOL "devrt_plugin_manifest_v0"
#define DEVRT_PLUGIN_OPEN_SYMBOL "devrt_plugin_open_v0"

/* The type of devrt_plugin_open_v0. */
typedef devrt_status (*devrt_plugin_open_fn_v0)(const devrt_host_v0* host,
                                                devrt_backend_v0* backend);

/* The two symbols.  open is [load]: it touches no device and starts no thread.
 * Without the accelerator it returns an error and never crashes. */
extern DEVRT_PLUGIN_EXPORT const devrt_manifest_v0 devrt_plugin_manifest_v0;
/* Opens the backend: fills `backend`; an error leaves it unchanged. */
DEVRT_PLUGIN_EXPORT devrt_status
devrt_plugin_open_v0(const devrt_host_v0* host, devrt_backend_v0* backend);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_PLUGIN_H_ */
