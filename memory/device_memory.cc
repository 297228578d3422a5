// SPDX-License-Identifier: Apache-2.0

#include "devrt/memory/device_memory.h"

#include "devrt/memory/internal/device_allocator.h"
#include "devrt/memory/internal/owners.h"
#include "devrt/memory/internal/unimplemented.h"

namespace devrt {

absl::StatusOr<void*> AllocateMemory(StreamRef, uint64_t, CallSite) {
  return internal::NotBuilt("AllocateMemory");
}

absl::Status FreeMemory(void*, CallSite) {
  return internal::NotBuilt("FreeMemory");
}

absl::Status FreeMemory(void*, StreamRef, CallSite) {
  return internal::NotBuilt("FreeMemory");
}

absl::Status RecordStream(const void*, StreamRef, CallSite) {
  return internal::NotBuilt("RecordStream");
}

absl::Status EmptyCache(Device) { return internal::NotBuilt("EmptyCache"); }

absl::Status SetMemoryFraction(Device, double) {
  return internal::NotBuilt("SetMemoryFraction");
}

double GetMemoryFraction(Device) { return 1.0; }

uint64_t AddOutOfMemoryCallback(OutOfMemoryCallback) { return 0; }

void RemoveOutOfMemoryCallback(uint64_t) {}

std::string MemoryReport(Device) { return std::string(); }

}  // namespace devrt
