/* SPDX-License-Identifier: Apache-2.0
 *
 * The library that the plugin `bundled` brings along.
 */
#include <stdio.h>
#include <stdlib.h>

extern int acme_answer(void);

/* Leaves the mark of defect.h: code of this file ran. */
__attribute__((constructor)) static void leave_mark(void) {
  const char* path = getenv("DEVRT_TEST_RAN");
  FILE* file = path != NULL ? fopen(path, "a") : NULL;
  if (file == NULL) return;
  fprintf(file, "acme\n");
  fclose(file);
}

int acme_answer(void) { return 42; }
