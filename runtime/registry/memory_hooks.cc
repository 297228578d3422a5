// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/memory_hooks.h"

#include <atomic>

namespace devrt::internal {
namespace {

std::atomic<const MemoryHooks*> memory_hooks{nullptr};

}  // namespace

void SetMemoryHooks(const MemoryHooks* hooks) {
  memory_hooks.store(hooks, std::memory_order_release);
}

const MemoryHooks* GetMemoryHooks() {
  return memory_hooks.load(std::memory_order_acquire);
}

}  // namespace devrt::internal
