// SPDX-License-Identifier: Apache-2.0

#include "streams/objects/use_hooks.h"

namespace devrt::internal {

std::atomic<UseHook> g_use_hook{nullptr};
std::atomic<StreamEndHook> g_stream_end_hook{nullptr};

void SetUseHook(UseHook hook) {
  g_use_hook.store(hook, std::memory_order_release);
}

void SetStreamEndHook(StreamEndHook hook) {
  g_stream_end_hook.store(hook, std::memory_order_release);
}

}  // namespace devrt::internal
