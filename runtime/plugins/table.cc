// SPDX-License-Identifier: Apache-2.0
#include "runtime/plugins/table.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "devrt/runtime/inspect.h"
#include "devrt/runtime/status.h"
#include "runtime/plugins/host_table.h"

namespace devrt::internal {
namespace {

struct SlotInfo {
  const char* name;
  bool required;
  uint64_t capability;
};

constexpr SlotInfo kSlots[] = {
#define DEVRT_SLOT(name, required, capability) {#name, required, capability},
#include "devrt/backends/abi/devrt_slots.inc"
};

enum SlotNumber {
#define DEVRT_SLOT(name, required, capability) k_##name,
#include "devrt/backends/abi/devrt_slots.inc"
};

constexpr uint64_t kKnownBits =
#define DEVRT_CAPABILITY(name) DEVRT_CAP_##name |
#include "devrt/backends/abi/devrt_capabilities.inc"
    0;

constexpr uint32_t kHeader = DEVRT_SIZE_THROUGH(devrt_ops_v0, abi_minor);
constexpr uint32_t kSlotSize = sizeof(void (*)());

// The stub of an empty slot.
template <SlotNumber kSlot, typename... Args>
devrt_status Missing(void*, Args...) {
  return MakeMissingSlotError(kSlots[kSlot].name);
}

template <SlotNumber kSlot, typename... Args>
void FillSlot(devrt_status (**slot)(void*, Args...)) {
  if (*slot == nullptr) *slot = &Missing<kSlot, Args...>;
}

const void* NoExtension(void*, const char*) { return nullptr; }

// Clears slots whose capability bit is absent: devrt must not call them.
void DropUnpromised(devrt_ops_v0* ops, uint64_t capabilities) {
#define DEVRT_SLOT(name, required, capability)                 \
  if ((capability) != 0 && ((capability)&capabilities) == 0) { \
    ops->name = nullptr;                                       \
  }
#include "devrt/backends/abi/devrt_slots.inc"
}

void FillWithStubs(devrt_ops_v0* ops) {
#define DEVRT_SLOT(name, required, capability) FillSlot<k_##name>(&ops->name);
#include "devrt/backends/abi/devrt_slots.inc"
  if (ops->get_extension == nullptr) ops->get_extension = &NoExtension;
}

absl::Status CheckRequired(const devrt_ops_v0& ops) {
  std::vector<const char*> missing;
  if (ops.shutdown == nullptr) missing.push_back("shutdown");
#define DEVRT_SLOT(name, required, capability) \
  if (required && ops.name == nullptr) missing.push_back(#name);
#include "devrt/backends/abi/devrt_slots.inc"
  if (missing.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("its table lacks what every backend must have: ",
                   absl::StrJoin(missing, ", ")));
}

absl::Status CheckPromises(const devrt_ops_v0& ops, uint64_t capabilities) {
  std::vector<std::string> broken;
#define DEVRT_SLOT(name, required, capability)                        \
  if ((capabilities & (capability)) != 0 && ops.name == nullptr) {    \
    broken.push_back(                                                 \
        absl::StrCat(#name, " (", CapabilityNames(capability), ")")); \
  }
#include "devrt/backends/abi/devrt_slots.inc"
  if (broken.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("it sets capability bits whose slots are empty: ",
                   absl::StrJoin(broken, ", ")));
}

}  // namespace

absl::Status CopyTable(const devrt_ops_v0* given, devrt_ops_v0* ops) {
  if (given == nullptr) {
    return absl::InvalidArgumentError("its open gave no table");
  }
  const uint32_t size = given->struct_size;
  if (size < kHeader || (size - kHeader) % kSlotSize != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("its table claims ", size, " bytes; expected ", kHeader,
                     " and a multiple of ", kSlotSize));
  }
  *ops = devrt_ops_v0{};
  std::memcpy(ops, given, std::min<size_t>(size, sizeof *ops));
  ops->struct_size = sizeof *ops;
  return absl::OkStatus();
}

absl::Status CompleteTable(const devrt_backend_v0& given,
                           const devrt_manifest_v0& manifest, devrt_ops_v0* ops,
                           uint64_t* capabilities) {
  DEVRT_RETURN_IF_ERROR(CopyTable(given.ops, ops));
  DEVRT_RETURN_IF_ERROR(CheckRequired(*ops));
  const uint64_t hidden = given.capabilities & ~manifest.capabilities;
  if (hidden != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("it claims capabilities that its manifest does not "
                     "announce: ",
                     CapabilityNames(hidden)));
  }
  // Drops bits of newer minor versions: devrt has no slots for them.
  *capabilities = given.capabilities & kKnownBits;
  DEVRT_RETURN_IF_ERROR(CheckPromises(*ops, *capabilities));
  DropUnpromised(ops, *capabilities);
  FillWithStubs(ops);
  return absl::OkStatus();
}

}  // namespace devrt::internal
