// SPDX-License-Identifier: Apache-2.0
//
// devrt_slots.inc against devrt_ops_v0: complete, in table order, and with the
// right capability. Layers and the plugin helper are generated from it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "devrt/backends/abi/devrt_plugin.h"

namespace {

struct Slot {
  std::string name;
  size_t offset;
  bool required;
  uint64_t capability;
};

std::vector<Slot> Slots() {
  return {
#define DEVRT_SLOT(slot, required, capability) \
  {#slot, offsetof(devrt_ops_v0, slot), (required) != 0, (capability)},
#include "devrt/backends/abi/devrt_slots.inc"
  };
}

// Each slot returns a status and takes self first.
template <class Fn>
struct IsSlot : std::false_type {};
template <class... A>
struct IsSlot<devrt_status (*)(void*, A...)> : std::true_type {};
#define DEVRT_SLOT(slot, required, capability)               \
  static_assert(IsSlot<decltype(devrt_ops_v0::slot)>::value, \
                #slot " is no slot");
#include "devrt/backends/abi/devrt_slots.inc"

TEST(Slots, AreInTableOrder) {
  const std::vector<Slot> slots = Slots();
  for (size_t i = 1; i < slots.size(); ++i) {
    EXPECT_LT(slots[i - 1].offset, slots[i].offset)
        << slots[i - 1].name << " before " << slots[i].name;
  }
}

TEST(Slots, CoverTheTableWithShutdownAndGetExtension) {
  std::set<size_t> offsets = {offsetof(devrt_ops_v0, shutdown),
                              offsetof(devrt_ops_v0, get_extension)};
  for (const Slot& slot : Slots()) {
    EXPECT_TRUE(offsets.insert(slot.offset).second) << slot.name << " is twice";
  }
  std::set<size_t> all;
  for (size_t offset = offsetof(devrt_ops_v0, shutdown);
       offset < sizeof(devrt_ops_v0); offset += sizeof(void*)) {
    all.insert(offset);
  }
  EXPECT_EQ(offsets, all) << "a slot of devrt_ops_v0 is not in devrt_slots.inc";
}

TEST(Slots, RequiredSlotsComeFirstAndNeedNoCapability) {
  const std::vector<Slot> slots = Slots();
  EXPECT_TRUE(std::is_partitioned(slots.begin(), slots.end(),
                                  [](const Slot& s) { return s.required; }));
  for (const Slot& slot : slots) {
    EXPECT_TRUE(!slot.required || slot.capability == 0) << slot.name;
  }
}

TEST(Slots, CapabilitiesAreSingleKnownBits) {
  constexpr uint64_t kLast = DEVRT_CAP_ASYNC_ALLOC;
  for (const Slot& slot : Slots()) {
    EXPECT_EQ(slot.capability & (slot.capability - 1), 0u) << slot.name;
    EXPECT_LE(slot.capability, kLast) << slot.name;
  }
}

// Bits without a slot promise a behaviour of another call.
TEST(Slots, EveryCapabilityButThreeHasSlots) {
  uint64_t with_slots = 0;
  for (const Slot& slot : Slots()) with_slots |= slot.capability;
  const uint64_t all = 2 * DEVRT_CAP_ASYNC_ALLOC - 1;
  EXPECT_EQ(all & ~with_slots, DEVRT_CAP_EVENT_IPC | DEVRT_CAP_STREAM_PRIORITY |
                                   DEVRT_CAP_STREAM_EXTERNAL);
}

}  // namespace
