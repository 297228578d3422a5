/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the defective plugins: the functions of good.c without its
 * two symbols, and a mark that the plugin's code ran.
 *
 * Included first.  A plugin that the loader has to refuse by its file alone
 * must not leave the mark.
 */
#ifndef DEVRT_TESTS_ABI_PLUGINS_DEFECT_H_
#define DEVRT_TESTS_ABI_PLUGINS_DEFECT_H_

#define GOOD_WITHOUT_SYMBOLS
#include "good.c"

/* Adds a line to the file that DEVRT_TEST_RAN names, if it is set. */
__attribute__((constructor)) static void leave_mark(void) {
  const char* path = getenv("DEVRT_TEST_RAN");
  FILE* file = path != NULL ? fopen(path, "a") : NULL;
  (void)good_open; /* not every defect gets as far */
  if (file == NULL) return;
  fprintf(file, "%s\n", PLUGIN);
  fclose(file);
}

/* A manifest without a defect; PLUGIN is the backend's name. */
#define MANIFEST(promised)                                              \
  {                                                                     \
    DEVRT_MANIFEST_MAGIC, sizeof(devrt_manifest_v0), DEVRT_ABI_MAJOR,   \
        DEVRT_ABI_MINOR, 500, (promised), PLUGIN, "devrt tests", "1.0", \
  }

#endif /* DEVRT_TESTS_ABI_PLUGINS_DEFECT_H_ */
