/* SPDX-License-Identifier: Apache-2.0
 *
 * Every offset, size and constant of the C ABI as numbers, for a C compiler:
 * compiled as C99 and as C11.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "devrt/backends/abi/devrt_capture.h"
#include "devrt/backends/abi/devrt_dlpack.h"
#include "devrt/backends/abi/devrt_event_ipc.h"
#include "devrt/backends/abi/devrt_faults.h"
#include "devrt/backends/abi/devrt_launch.h"
#include "devrt/backends/abi/devrt_own_query.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_probe.h"
#include "devrt/backends/abi/devrt_program_stack.h"
#include "devrt/backends/abi/devrt_race.h"
#include "devrt/backends/abi/devrt_sim.h"
#include "devrt/backends/abi/devrt_stream_number.h"
#include "devrt/backends/abi/devrt_suballocation.h"
#include "devrt/backends/abi/devrt_tensor.h"
#include "devrt/backends/abi/devrt_virtual_memory.h"

/* C99 has no static assertion: an array of negative size instead. */
#if __STDC_VERSION__ >= 201112L
#define CHECK(condition) _Static_assert(condition, #condition)
#else
#define CHECK(condition) extern char check_[(condition) ? 1 : -1]
#endif

#define STRUCT(type, size) CHECK(sizeof(type) == (size));
#define FIELD(type, field, offset, size)    \
  CHECK(offsetof(type, field) == (offset)); \
  CHECK(sizeof(((type*)0)->field) == (size));
#include "layout.inc"
#undef FIELD
#undef STRUCT

#define VALUE(macro, number) CHECK((macro) == (number));
#define TEXT(macro, string) CHECK(sizeof(macro) == sizeof(string));
#include "constants.inc"
#undef TEXT
#undef VALUE

/* Fields without a hole between them, so that no byte is undefined. */
static int holes(void) {
  int count = 0;
  size_t end = 0;
  size_t struct_size = 0;
#define STRUCT(type, size)     \
  count += end != struct_size; \
  struct_size = (size);        \
  end = 0;
#define FIELD(type, field, offset, size) \
  count += end != (offset);              \
  end = (offset) + (size);
#include "layout.inc"
#undef FIELD
#undef STRUCT
  return count + (end != struct_size);
}

static int wrong_texts(void) {
  int count = 0;
#define VALUE(macro, number)
#define TEXT(macro, string) count += strcmp(macro, string) != 0;
#include "constants.inc"
#undef TEXT
#undef VALUE
  return count;
}

int main(void) {
  const int bad_texts = wrong_texts();
  const int bad_holes = holes();
  if (bad_texts != 0) printf("%d texts differ\n", bad_texts);
  if (bad_holes != 0) printf("%d holes between fields\n", bad_holes);
  return bad_texts != 0 || bad_holes != 0;
}
