// SPDX-License-Identifier: Apache-2.0

#include "arrays/storage/object_cache.h"

#include <cstdint>
#include <new>

#include "absl/base/attributes.h"
#include "absl/base/config.h"
#include "absl/base/optimization.h"

namespace devrt::internal {

namespace {

// A sanitizer has to see the end of each block.
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
constexpr uint32_t kKept = 0;
#else
constexpr uint32_t kKept = 8;
#endif

struct Blocks {
  void* kept[8];
  uint32_t count;
  uint32_t limit;  // 0: not in use yet, or no longer
};

__thread Blocks t_blocks[kBlockKinds]
    __attribute__((tls_model("initial-exec")));
__thread bool t_over __attribute__((tls_model("initial-exec")));

struct AtThreadEnd {
  ~AtThreadEnd() {
    t_over = true;
    for (Blocks& blocks : t_blocks) {
      blocks.limit = 0;
      while (blocks.count > 0) ::operator delete(blocks.kept[--blocks.count]);
    }
  }
  bool needed = false;
};

ABSL_ATTRIBUTE_NOINLINE void PutSlowly(Blocks* blocks, void* block) {
  if (blocks->limit != 0 || t_over || kKept == 0) {
    ::operator delete(block);
    return;
  }
  static thread_local AtThreadEnd end;
  end.needed = true;
  blocks->limit = kKept;
  blocks->kept[blocks->count++] = block;
}

}  // namespace

void* TakeObjectBlock(int kind, size_t bytes) {
  Blocks& blocks = t_blocks[kind];
  if (ABSL_PREDICT_TRUE(blocks.count > 0)) {
    return blocks.kept[--blocks.count];
  }
  return ::operator new(bytes);
}

void PutObjectBlock(int kind, void* block) {
  Blocks& blocks = t_blocks[kind];
  if (ABSL_PREDICT_FALSE(blocks.count >= blocks.limit)) {
    PutSlowly(&blocks, block);
    return;
  }
  blocks.kept[blocks.count++] = block;
}

}  // namespace devrt::internal
