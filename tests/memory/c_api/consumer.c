/* SPDX-License-Identifier: Apache-2.0
 *
 * A library in C99 that takes its memory from devrt: every function of
 * devrt_memory.h, with good arguments and bad ones.  Ends with 0, or with the
 * line of the first check that failed.
 */
#include <stdio.h>
#include <string.h>

#include "devrt/memory/devrt_memory.h"

#define CHECK(condition)                                               \
  do {                                                                 \
    if (!(condition)) {                                                \
      fprintf(stderr, "consumer.c:%d: %s; last error: %s\n", __LINE__, \
              #condition, devrt_memory_last_error_v0());               \
      return 1;                                                        \
    }                                                                  \
  } while (0)

enum { INVALID = 3, EXHAUSTED = 8 };
static const char kDevice[] = "mtia:0";

static int64_t active(void) {
  devrt_memory_stats_v0 s;
  memset(&s, 0xff, sizeof s);
  s.struct_size = (uint32_t)sizeof s;
  if (devrt_memory_stats_read_v0(kDevice, &s) != 0) return -1;
  return s.allocations;
}

static int good(void) {
  void* a = NULL;
  void* b = NULL;
  void* zero = &a;
  void* base = NULL;
  uint64_t size = 0;
  CHECK(devrt_memory_alloc_v0(kDevice, 4096, NULL, &a) == 0);
  CHECK(devrt_memory_alloc_v0(kDevice, 4096, NULL, &b) == 0);
  CHECK(a != NULL && b != NULL && a != b);
  CHECK(devrt_memory_alloc_v0(kDevice, 0, NULL, &zero) == 0);
  CHECK(zero == NULL);
  CHECK(devrt_memory_record_stream_v0((char*)a + 4096, kDevice, NULL) == 0);
  CHECK(devrt_memory_record_stream_v0(a, NULL, NULL) == 0);
  CHECK(devrt_memory_base_v0((char*)a + 4096, &base, &size) == 0);
  CHECK(base != NULL && (char*)base <= (char*)a && size >= 8192);
  CHECK(devrt_memory_free_v0(a) == 0);
  CHECK(devrt_memory_free_on_v0(b, NULL) == 0);
  CHECK(devrt_memory_free_v0(NULL) == 0);
  CHECK(devrt_memory_free_on_v0(NULL, NULL) == 0);
  CHECK(devrt_memory_stream_ends_v0(kDevice, NULL) == 0);
  CHECK(devrt_memory_empty_cache_v0(kDevice) == 0);
  CHECK(devrt_memory_set_fraction_v0(kDevice, 1.0) == 0);
  CHECK(active() == 0);
  return 0;
}

static int pools(void) {
  devrt_memory_pool_v0* pool = NULL;
  void* a = NULL;
  void* b = NULL;
  CHECK(devrt_memory_pool_create_v0(kDevice, &pool) == 0);
  CHECK(devrt_memory_pool_alloc_v0(pool, 0, NULL, &a) == 0);
  CHECK(a == NULL);
  CHECK(devrt_memory_pool_alloc_v0(pool, 4096, NULL, &a) == 0);
  CHECK(devrt_memory_record_stream_v0(a, kDevice, NULL) == 0);
  CHECK(devrt_memory_free_v0(a) == 0);
  CHECK(devrt_memory_alloc_v0(kDevice, 4096, NULL, &b) == 0);
  CHECK(b != a);
  CHECK(devrt_memory_free_v0(b) == 0);
  CHECK(devrt_memory_pool_alloc_v0(pool, 4096, NULL, &b) == 0);
  CHECK(b == a);
  CHECK(devrt_memory_pool_alloc_v0(pool, UINT64_MAX, NULL, &a) == EXHAUSTED);
  CHECK(devrt_memory_pool_release_v0(pool) == 0);
  CHECK(devrt_memory_free_v0(b) == 0);
  CHECK(devrt_memory_pool_create_v0("mtia:99", &pool) == INVALID);
  CHECK(pool == NULL);
  return 0;
}

static int bad(void) {
  void* a = NULL;
  int local = 0;
  uint64_t s64 = 0;
  devrt_memory_stats_v0 s;
  CHECK(strcmp(devrt_memory_last_error_v0(), "") == 0);
  CHECK(devrt_memory_alloc_v0(NULL, 1, NULL, &a) == INVALID);
  CHECK(strstr(devrt_memory_last_error_v0(), "cuda:0") != NULL);
  CHECK(devrt_memory_alloc_v0("mtia", 1, NULL, NULL) == INVALID);
  CHECK(devrt_memory_alloc_v0("mtia:99", 1, NULL, &a) == INVALID);
  CHECK(devrt_memory_alloc_v0(kDevice, UINT64_MAX, NULL, &a) == EXHAUSTED);
  CHECK(strstr(devrt_memory_last_error_v0(), "out of memory") != NULL);
  CHECK(a == NULL);
  CHECK(devrt_memory_free_v0(&local) == INVALID);
  CHECK(devrt_memory_free_on_v0(&local, NULL) == INVALID);
  CHECK(devrt_memory_record_stream_v0(&local, kDevice, NULL) == INVALID);
  CHECK(devrt_memory_record_stream_v0(&local, NULL, NULL) == INVALID);
  CHECK(devrt_memory_base_v0(&local, &a, &s64) == INVALID);
  CHECK(devrt_memory_base_v0(NULL, &a, &s64) == INVALID);
  CHECK(devrt_memory_base_v0(&local, NULL, &s64) == INVALID);
  CHECK(devrt_memory_set_fraction_v0(kDevice, 2.0) == INVALID);
  CHECK(devrt_memory_stats_read_v0(kDevice, NULL) == INVALID);
  s.struct_size = 4;
  CHECK(devrt_memory_stats_read_v0(kDevice, &s) == INVALID);
  CHECK(devrt_memory_alloc_v0(kDevice, 64, NULL, &a) == 0);
  CHECK(devrt_memory_free_v0((char*)a + 1) == INVALID);
  CHECK(devrt_memory_free_v0(a) == 0);
  CHECK(devrt_memory_free_v0(a) == INVALID);
  return 0;
}

/* An older caller's struct is filled as far as it goes. */
static int shorter(void) {
  devrt_memory_stats_v0 s;
  memset(&s, 0x55, sizeof s);
  s.struct_size = 16;
  CHECK(devrt_memory_stats_read_v0(kDevice, &s) == 0);
  CHECK(s.allocated_bytes >= 0);
  CHECK(s.allocated_bytes_peak == INT64_C(0x5555555555555555));
  return 0;
}

int main(void) {
  return bad() != 0 || good() != 0 || pools() != 0 || shorter() != 0;
}
