// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_LAZY_MEMORY_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_LAZY_MEMORY_H_

#include <atomic>

#include "backends/mtia/common/error.h"
#include "backends/mtia/config/config.h"
#include "backends/mtia/memory/memory.h"

namespace devrt::mtia {

// Owns the simulated memories, which are mapped at their first use: a program
// that only lists devices maps nothing.  They are never unmapped.
//
// Threads: IfMade may be called from any thread, Make inside the machine.
class LazyMemory {
 public:
  // `config` outlives this object.
  explicit LazyMemory(const Config* config) : config_(config) {}

  // The memories, or nullptr if nothing has used them yet.
  Memory* IfMade() const { return memory_.load(std::memory_order_acquire); }

  // The memories; nullptr with `*error` set if the system cannot map them.
  Memory* Make(devrt_status* error) {
    Memory* const made = IfMade();
    return made != nullptr ? made : Map(error);
  }

 private:
  Memory* Map(devrt_status* error);

  const Config* const config_;
  std::atomic<Memory*> memory_{nullptr};
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_LAZY_MEMORY_H_
