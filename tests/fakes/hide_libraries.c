/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded: a machine without the libraries that DEVRT_TEST_HIDDEN names,
 * whatever else it has.
 *
 *   LD_PRELOAD=libhide_libraries.so DEVRT_TEST_HIDDEN=libcuda.so.1:libx.so
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void* (*dlopen_fn)(const char* file, int mode);

static int is_hidden(const char* file) {
  const char* at = getenv("DEVRT_TEST_HIDDEN");
  const size_t size = strlen(file);
  while (at != NULL && *at != '\0') {
    const size_t length = strcspn(at, ":");
    if (length == size && memcmp(at, file, size) == 0) return 1;
    at += length + (at[length] == ':');
  }
  return 0;
}

void* dlopen(const char* file, int mode) {
  char other[256];
  dlopen_fn real = NULL;
  *(void**)&real = dlsym(RTLD_NEXT, "dlopen");
  if (file == NULL || !is_hidden(file)) return real(file, mode);
  /* The real message, about a file that there is not. */
  snprintf(other, sizeof other, "%s.hidden", file);
  return real(other, mode);
}
