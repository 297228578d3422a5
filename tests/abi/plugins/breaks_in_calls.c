/* SPDX-License-Identifier: Apache-2.0
 *
 * Breaks the contract in one of its calls, as its name says.
 */
#include "defect.h"

const devrt_manifest_v0 devrt_plugin_manifest_v0 =
    MANIFEST(DEVRT_CAP_HOST_FUNC);

static pthread_t opener;

/* P7: the out-parameter of a call that fails. */
static devrt_status touches_out(void* self, uint32_t device, uint64_t size,
                                uint64_t alignment, void** ptr) {
  *ptr = NULL;
  return good_alloc(self, device, size, alignment, ptr);
}

/* P8: "not yet" as an error. */
static devrt_status not_ready(void* self, devrt_stream stream, uint32_t* done) {
  (void)stream;
  *done = 0;
  return fail(self, DEVRT_UNAVAILABLE, "not ready");
}

/* P10: blocks that begin where a header ends. */
static devrt_status unaligned_alloc(void* self, uint32_t device, uint64_t size,
                                    uint64_t alignment, void** ptr) {
  char* block;
  devrt_status status =
      good_alloc(self, device, size + 8, alignment, (void**)&block);
  if (status == NULL) *ptr = block + 8;
  return status;
}
static devrt_status unaligned_dealloc(void* self, uint32_t device, void* ptr,
                                      uint64_t size) {
  return good_dealloc(self, device, (char*)ptr - 8, size + 8);
}

/* P12: only the thread that opened it may call. */
static devrt_status one_thread(void* self, uint32_t device,
                               const devrt_stream_desc_v0* desc,
                               devrt_stream* stream) {
  if (!pthread_equal(pthread_self(), opener)) {
    return fail(self, DEVRT_FAILED_PRECONDITION, "called by another thread");
  }
  return good_stream_create(self, device, desc, stream);
}

/* P15: on the caller's thread, or twice. */
static devrt_status call_here(void* self, devrt_stream stream,
                              void (*fn)(void* arg, devrt_status error),
                              void* arg) {
  (void)self;
  (void)stream;
  fn(arg, NULL);
  return NULL;
}
struct call {
  void (*fn)(void* arg, devrt_status error);
  void* arg;
};
static void* call_twice(void* made) {
  struct call call = *(struct call*)made;
  call.fn(call.arg, NULL);
  call.fn(call.arg, NULL);
  return NULL;
}
static devrt_status call_twice_elsewhere(void* self, devrt_stream stream,
                                         void (*fn)(void* arg,
                                                    devrt_status error),
                                         void* arg) {
  struct call call;
  pthread_t thread;
  (void)stream;
  call.fn = fn;
  call.arg = arg;
  if (pthread_create(&thread, NULL, call_twice, &call) != 0) {
    return fail(self, DEVRT_RESOURCE_EXHAUSTED, "no thread");
  }
  pthread_join(thread, NULL);
  return NULL;
}

/* P17: whatever was current is forgotten. */
static devrt_status forgets(void* self, const devrt_context* previous) {
  (void)self;
  (void)previous;
  current = 0;
  return NULL;
}

/* P18: one handle for all streams. */
static devrt_status same_handle(void* self, uint32_t device,
                                const devrt_stream_desc_v0* desc,
                                devrt_stream* stream) {
  devrt_stream_desc_v0 legacy = *desc;
  legacy.kind = DEVRT_STREAM_LEGACY;
  return good_stream_create(self, device, &legacy, stream);
}

/* As an exception of a thread of the plugin: std::terminate calls abort. */
static void* ends_the_process(void* none) {
  (void)none;
  abort();
}
static devrt_status thread_aborts(void* self, uint32_t device, uint32_t flags,
                                  devrt_event* event) {
  pthread_t thread;
  (void)self;
  (void)device;
  (void)flags;
  (void)event;
  pthread_create(&thread, NULL, &ends_the_process, NULL);
  pthread_join(thread, NULL);
  return NULL;
}

static int is(const char* name) { return strcmp(PLUGIN, name) == 0; }

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  static devrt_ops_v0 ops;
  devrt_status status = good_open(host, backend);
  if (status != NULL) return status;
  opener = pthread_self();
  ops = good_ops;
  if (is("forgets_context")) ops.context_exit = forgets;
  if (is("host_func_here")) ops.host_func = call_here;
  if (is("host_func_twice")) ops.host_func = call_twice_elsewhere;
  if (is("not_ready_is_error")) ops.stream_query = not_ready;
  if (is("one_thread")) ops.stream_create = one_thread;
  if (is("same_handle")) ops.stream_create = same_handle;
  if (is("thread_aborts")) ops.event_create = thread_aborts;
  if (is("touches_out")) ops.alloc = touches_out;
  if (is("unaligned")) {
    ops.alloc = unaligned_alloc;
    ops.dealloc = unaligned_dealloc;
  }
  backend->ops = &ops;
  if (ops.host_func != NULL) backend->capabilities = DEVRT_CAP_HOST_FUNC;
  return NULL;
}
