// SPDX-License-Identifier: Apache-2.0
#include "devrt/runtime/turns.h"

#include "devrt/backends/abi/devrt_sim.h"

namespace devrt::internal {

std::atomic<const Turns*> g_turns{nullptr};
std::atomic<bool> g_had_turns{false};
std::atomic<AroundWait> g_around_wait{nullptr};

namespace {

uint32_t PartOf(const Turns& turns, bool waits) {
  uint32_t part = DEVRT_SIM_PART_NONE;
  const devrt_status error =
      turns.table->take_part(turns.self, waits ? 1 : 0, &part);
  return error == nullptr ? part : DEVRT_SIM_PART_NONE;
}

void Wait(void* turns) { PartOf(*static_cast<const Turns*>(turns), true); }

}  // namespace

bool TakePartIn(const Turns& turns) {
  const uint32_t part = PartOf(turns, false);
  if (part != DEVRT_SIM_PART_NOT_YET) return part == DEVRT_SIM_PART_TAKES;
  const AroundWait around = g_around_wait.load(std::memory_order_relaxed);
  auto* const arg = const_cast<Turns*>(&turns);
  around != nullptr ? around(&Wait, arg) : Wait(arg);
  return PartOf(turns, false) == DEVRT_SIM_PART_TAKES;
}

}  // namespace devrt::internal
