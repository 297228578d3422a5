/* SPDX-License-Identifier: Apache-2.0
 *
 * Breaks the contract in open, as its name says, and works otherwise.
 */
#define _POSIX_C_SOURCE 200809L /* setenv, as defect.h has it */
#include <unistd.h>

#include "defect.h"

const devrt_manifest_v0 devrt_plugin_manifest_v0 = MANIFEST(0);

static int is(const char* name) { return strcmp(PLUGIN, name) == 0; }

static void* wait_for_ever(void* nothing) {
  for (;;) pause();
  return nothing;
}

static void at_exit(void) {}

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  pthread_t thread;
  if (is("opens_abort")) abort();
  if (is("opens_exit")) exit(3);
  if (is("opens_atexit")) atexit(at_exit);
  if (is("opens_setenv")) setenv("DEVRT_TEST_OPENS_SETENV", "1", 1);
  if (is("opens_stdout")) puts("hello from the plugin");
  if (is("opens_thread")) {
    pthread_create(&thread, NULL, wait_for_ever, NULL);
    pthread_detach(thread);
  }
  return good_open(host, backend);
}
