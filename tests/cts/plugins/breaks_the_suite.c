/* SPDX-License-Identifier: Apache-2.0
 *
 * Does to the process that runs it what its name says, and works otherwise.
 *
 * Where DEVRT_TEST_ONCE names a file, it is done by the process only that makes
 * that file: the first to come there.
 */
#define _POSIX_C_SOURCE 200809L /* as defect.h has it */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "devrt/backends/abi/devrt_probe.h"
#include "tests/abi/plugins/defect.h"

const devrt_manifest_v0 devrt_plugin_manifest_v0 = MANIFEST(0);

static int is(const char* name) { return strcmp(PLUGIN, name) == 0; }

static int is_due(void) {
  const char* path = getenv("DEVRT_TEST_ONCE");
  int fd;
  if (path == NULL) return 1;
  fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return 0;
  close(fd);
  return 1;
}

/* Into the file that the test looks at: who has to end. */
static void tell_process(pid_t process) {
  const char* path = getenv("DEVRT_TEST_PID");
  FILE* file = path != NULL ? fopen(path, "a") : NULL;
  if (file == NULL) return;
  fprintf(file, "%ld\n", (long)process);
  fclose(file);
}

static void hang(void) {
  tell_process(getpid());
  for (;;) pause();
}

static void crash(void) {
  struct rlimit core;
  getrlimit(RLIMIT_CORE, &core);
  /* Without a newline at its end: it has to be seen all the same. */
  fprintf(is("crashes_in_open") ? stderr : stdout,
          "about to crash, core limit %lld", (long long)core.rlim_cur);
  signal(SIGSEGV, SIG_DFL); /* a sanitizer would make it an exit */
  raise(SIGSEGV);
}

/* A child that has what the process had, and would stay. */
static void fork_and_crash(void) {
  const pid_t child = fork();
  while (child == 0) pause();
  tell_process(child);
  crash();
}

static void at_exit(void) {
  if (!is_due()) return;
  if (is("hangs_at_exit")) hang();
  crash();
}

static devrt_status event_create(void* self, uint32_t device, uint32_t flags,
                                 devrt_event* event) {
  if (!is_due()) return good_event_create(self, device, flags, event);
  if (is("hangs_in_call")) hang();
  if (is("crashes_in_call")) crash();
  if (is("forks_in_call")) fork_and_crash();
  if (is("exits_in_call")) exit(0);
  if (is("closes_files")) {
    for (int fd = 3; fd < 256; ++fd) close(fd);
    hang();
  }
  if (is("writes_much")) {
    for (int i = 0; i < 100000; ++i) printf("line %d \x1b[31m\xff\n", i);
    return fail(self, DEVRT_INTERNAL, "bytes \xff\xfe & <b> ]]>");
  }
  if (is("fails_with_handle")) {
    *event = (devrt_event)(void*)1;
    return fail(self, DEVRT_INTERNAL, "no, but there you are");
  }
  if (is("null_handles")) {
    *event = NULL;
    return NULL;
  }
  return good_event_create(self, device, flags, event);
}

static devrt_status wild_count(void* self, uint32_t* count) {
  (void)self;
  *count = UINT32_MAX;
  return NULL;
}

static devrt_status no_devices(void* self, uint32_t* count) {
  (void)self;
  *count = 0;
  return NULL;
}

static devrt_status wild_props(void* self, uint32_t device,
                               devrt_device_props_v0* props) {
  uint32_t size = props->struct_size;
  (void)self;
  (void)device;
  memset(props, 0xff, size);
  props->struct_size = UINT32_MAX;
  return NULL;
}

/* Neither "complete" nor "not yet". */
static devrt_status answers_seven(void* self, devrt_event event,
                                  uint32_t* done) {
  (void)self;
  (void)event;
  *done = 7;
  return NULL;
}

static devrt_status never_idle(void* self, devrt_stream stream,
                               uint32_t* done) {
  (void)self;
  (void)stream;
  *done = 0;
  return NULL;
}

static devrt_status lacks_mem_info(void* self, uint32_t device,
                                   uint64_t* free_bytes, uint64_t* total) {
  (void)device;
  (void)free_bytes;
  (void)total;
  return fail(self, DEVRT_UNIMPLEMENTED, "not yet, see memory.c");
}

/* Each kernel of the probe is complete at once. */
static devrt_status spin(void* self, devrt_stream stream, uint64_t time) {
  (void)self;
  (void)stream;
  (void)time;
  return NULL;
}

static devrt_status flag_create(void* self, uint32_t device, devrt_flag* flag) {
  (void)device;
  *flag = self;
  return NULL;
}

static devrt_status flag_destroy(void* self, devrt_flag flag) {
  (void)self;
  (void)flag;
  return NULL;
}

static devrt_status flag_wait(void* self, devrt_stream stream, devrt_flag flag,
                              uint64_t timeout) {
  (void)flag;
  return spin(self, stream, timeout);
}

static devrt_status flag_set(void* self, devrt_flag flag, uint32_t value) {
  (void)value;
  return flag_destroy(self, flag);
}

static devrt_status flag_set_async(void* self, devrt_stream stream,
                                   devrt_flag flag, uint32_t value) {
  (void)stream;
  return flag_set(self, flag, value);
}

static const void* get_probe(void* self, const char* name) {
  static devrt_probe_v0 probe = {.struct_size = sizeof probe,
                                 .spin = spin,
                                 .flag_create = flag_create,
                                 .flag_destroy = flag_destroy,
                                 .flag_wait = flag_wait,
                                 .flag_set = flag_set,
                                 .flag_set_async = flag_set_async};
  (void)self;
  if (is("probe_lacks_flag_wait")) probe.flag_wait = NULL;
  return strcmp(name, DEVRT_PROBE_EXTENSION) == 0 ? &probe : NULL;
}

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  static devrt_ops_v0 ops;
  devrt_status status;
  if (is("hangs_in_open")) hang();
  if (is("crashes_in_open") && is_due()) crash();
  status = good_open(host, backend);
  if (status != NULL) return status;
  ops = good_ops;
  ops.event_create = event_create;
  if (is("wild_count")) ops.device_count = wild_count;
  if (is("no_devices")) ops.device_count = no_devices;
  if (is("wild_props")) ops.device_props = wild_props;
  if (is("answers_seven")) ops.event_query = answers_seven;
  if (is("never_idle")) ops.stream_query = never_idle;
  if (is("lacks_mem_info")) ops.mem_info = lacks_mem_info;
  if (strncmp(PLUGIN, "probe_lacks_", 12) == 0) ops.get_extension = get_probe;
  if (is("crashes_at_exit") || is("hangs_at_exit")) atexit(at_exit);
  backend->ops = &ops;
  return NULL;
}
