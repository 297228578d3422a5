// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/lazy_memory.h"

#include <memory>
#include <string>

namespace devrt::mtia {

Memory* LazyMemory::Map(devrt_status* error) {
  std::string text;
  std::unique_ptr<Memory> made = Memory::Create(*config_, &text);
  if (made == nullptr) {
    *error = MakeError(DEVRT_RESOURCE_EXHAUSTED, 2,
                       "the simulated memories cannot be mapped: " + text);
    return nullptr;
  }
  memory_.store(made.get(), std::memory_order_release);
  return made.release();
}

}  // namespace devrt::mtia
