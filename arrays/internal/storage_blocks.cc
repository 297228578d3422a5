// SPDX-License-Identifier: Apache-2.0

#include "devrt/arrays/internal/storage_blocks.h"

#include <cstdint>
#include <new>

#include "absl/base/attributes.h"
#include "absl/base/config.h"
#include "absl/base/optimization.h"

namespace devrt::internal {

namespace {

// A sanitizer is to see each block end.
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
constexpr uint32_t kKept = 0;
#else
constexpr uint32_t kKept = 8;
#endif

struct Blocks {
  void* kept[8];
  uint32_t count;
  uint32_t limit;  // 0: not in use yet, or no more
  bool over;
};

__thread Blocks t_blocks __attribute__((tls_model("initial-exec")));

struct AtThreadEnd {
  ~AtThreadEnd() {
    t_blocks.over = true;
    t_blocks.limit = 0;
    while (t_blocks.count > 0)
      ::operator delete(t_blocks.kept[--t_blocks.count]);
  }
  bool needed = false;
};

ABSL_ATTRIBUTE_NOINLINE void PutSlowly(void* block) {
  if (t_blocks.limit != 0 || t_blocks.over || kKept == 0) {
    ::operator delete(block);
    return;
  }
  static thread_local AtThreadEnd end;
  end.needed = true;
  t_blocks.limit = kKept;
  t_blocks.kept[t_blocks.count++] = block;
}

}  // namespace

void* TakeStorageBlock(size_t bytes) {
  if (ABSL_PREDICT_TRUE(t_blocks.count > 0)) {
    return t_blocks.kept[--t_blocks.count];
  }
  return ::operator new(bytes);
}

void PutStorageBlock(void* block) {
  if (ABSL_PREDICT_FALSE(t_blocks.count >= t_blocks.limit)) {
    PutSlowly(block);
    return;
  }
  t_blocks.kept[t_blocks.count++] = block;
}

}  // namespace devrt::internal
