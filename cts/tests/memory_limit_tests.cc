// SPDX-License-Identifier: Apache-2.0
//
// Out of memory, and figures of memory.
#include <algorithm>
#include <cctype>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/core_objects.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace memory_limit_tests {
namespace {

using Ops = devrt_ops_v0;

struct Figures {
  uint64_t free = 0, total = 0;
};

Figures InfoOf(Test& t, uint32_t device) {
  Figures figures;
  t.Require(
      t.machine().Call<&Ops::mem_info>(device, &figures.free, &figures.total),
      "mem_info");
  return figures;
}

void FiguresAreSane(Test& t) {
  for (const uint32_t device : t.devices()) {
    const Figures figures = InfoOf(t, device);
    t.Equal(figures.total, t.machine().props(device).total_memory,
            "the total of mem_info, and total_memory");
    t.Expect(figures.free <= figures.total, "free is at most total");
    t.Expect(figures.free > 0, "some memory is free");
  }
}

void FiguresMove(Test& t) {
  for (const uint32_t device : t.devices()) {
    const Figures before = InfoOf(t, device);
    const uint64_t size = before.free / 8;
    void* block = nullptr;
    t.Require(t.machine().Call<&Ops::alloc>(device, size, uint64_t{0}, &block),
              "allocation");
    const Figures with = InfoOf(t, device);
    t.Expect(with.free + size <= before.free,
             "an allocation takes at least its size from the free memory");
    t.Equal(with.total, before.total, "total memory with a block");
    t.Ok(t.machine().Call<&Ops::dealloc>(device, block, size), "deallocation");
    const Figures after = InfoOf(t, device);
    t.Expect(after.free + size / 2 > before.free,
             "a deallocation gives it back");
    t.Equal(after.total, before.total, "total memory afterwards");
  }
}

// Twenty times the memory of the device, one block after the other.
void FreedMemoryComesBack(Test& t) {
  const uint64_t size = InfoOf(t, t.device()).free / 4;
  for (int i = 0; i < 80; ++i) {
    void* block = nullptr;
    t.Require(
        t.machine().Call<&Ops::alloc>(t.device(), size, uint64_t{0}, &block),
        absl::StrCat("allocation ", i, " of a quarter of the free memory"));
    t.Require(t.machine().Call<&Ops::dealloc>(t.device(), block, size),
              "deallocation");
  }
  const bool pinned = t.machine().Has(DEVRT_CAP_PINNED_HOST);
  for (int i = 0; pinned && i < 80; ++i) {
    void* block = nullptr;
    const uint64_t bytes = 16u << 20;
    t.Require(t.machine().Call<&Ops::host_alloc>(t.device(), bytes, uint64_t{0},
                                                 &block),
              absl::StrCat("pinned allocation ", i));
    t.Require(t.machine().Call<&Ops::host_dealloc>(block, bytes),
              "pinned deallocation");
  }
}

void RefusedAsTooLarge(Test& t, uint32_t device, uint64_t size) {
  int mark = 0;
  void* block = &mark;
  t.Code(t.machine().Call<&Ops::alloc>(device, size, uint64_t{0}, &block),
         DEVRT_RESOURCE_EXHAUSTED,
         absl::StrCat("an allocation of ", size, " bytes"));
  t.Expect(block == &mark, "a failed call leaves its out-parameter alone");
}

void OutOfMemoryIsLocal(Test& t) {
  for (const uint32_t device : t.devices()) {
    const DeviceBlock old(t, device, 5000);
    const RawStream s(t, device);
    s.Fill(old.ptr(), 1, 5000);
    s.Sync();
    const Figures before = InfoOf(t, device);
    for (const uint64_t size : {before.total + 1, before.total * 2,
                                uint64_t{1} << 50, (uint64_t{1} << 60) - 1}) {
      RefusedAsTooLarge(t, device, size);
    }
    const Figures after = InfoOf(t, device);
    t.Equal(after.total, before.total, "total memory after a refusal");
    if (t.machine().simulator().has_value()) {
      t.Equal(after.free, before.free, "free memory after a refusal");
    }
    t.Expect(s.Query(), "nothing is under way after a refusal");
    t.Expect(old.Holds(1), "what was there is untouched");
    const DeviceBlock smaller(t, device, 1 << 20);
    s.Fill(smaller.ptr(), 2, smaller.size());
    s.Sync();
    t.Expect(smaller.Holds(2), "a smaller request succeeds next, and works");
  }
}

// Fills the device with equal blocks, up to the size of its memory.
std::vector<void*> AllocateAll(Test& t, uint32_t device, uint64_t size) {
  std::vector<void*> blocks;
  const uint64_t most = InfoOf(t, device).total / size + 1;
  while (blocks.size() <= most) {
    void* block = nullptr;
    const Result result =
        t.machine().Call<&Ops::alloc>(device, size, uint64_t{0}, &block);
    if (!result.ok()) {
      t.Code(result, DEVRT_RESOURCE_EXHAUSTED,
             "an allocation on a device that is full");
      break;
    }
    blocks.push_back(block);
  }
  t.Expect(blocks.size() < most, "no device gives out more memory than it has");
  return blocks;
}

void FullDevice(Test& t) {
  const uint32_t device = t.device();
  const uint64_t size = InfoOf(t, device).free / 7;
  const std::vector<void*> blocks = AllocateAll(t, device, size);
  t.Expect(blocks.size() >= 4, "most of the free memory can be allocated");
  const Figures full = InfoOf(t, device);
  for (int i = 0; i < 3; ++i) RefusedAsTooLarge(t, device, size);
  if (t.machine().simulator().has_value()) {
    t.Equal(InfoOf(t, device).free, full.free,
            "free memory after refusals on a full device");
  }
  if (!blocks.empty()) {
    t.Ok(t.machine().Call<&Ops::dealloc>(device, blocks.back(), size),
         "deallocation");
    void* again = nullptr;
    t.Ok(t.machine().Call<&Ops::alloc>(device, size, uint64_t{0}, &again),
         "a block that was given back can be had again");
    if (again != nullptr) {
      t.Ok(t.machine().Call<&Ops::dealloc>(device, again, size),
           "deallocation");
    }
  }
  for (size_t i = 0; i + 1 < blocks.size(); ++i) {
    t.Ok(t.machine().Call<&Ops::dealloc>(device, blocks[i], size),
         "deallocation");
  }
}

void FullOfPinned(Test& t) {
  int mark = 0;
  void* block = &mark;
  t.Code(t.machine().Call<&Ops::host_alloc>(t.device(), (uint64_t{1} << 60) - 1,
                                            uint64_t{0}, &block),
         DEVRT_RESOURCE_EXHAUSTED, "a pinned allocation of 2^60 - 1 bytes");
  t.Expect(block == &mark, "a failed call leaves its out-parameter alone");
  const HostBlock smaller(t, t.device(), 1 << 20);
  t.Expect(smaller.Holds(0), "a smaller pinned request succeeds next");
}

std::string InCapitals(std::string text) {
  for (char& c : text) {
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return text;
}

void ThroughCore(Test& t) {
  const Device device = t.cpp_device();
  const std::string word = InCapitals(t.machine().backend().name());
  const uint64_t total = InfoOf(t, t.device()).total;
  const auto before = t.Require(device.GetMemoryInfo(), "GetMemoryInfo");
  const absl::Status full = Allocate(device, total + 4096).status();
  t.Code(full, DEVRT_RESOURCE_EXHAUSTED, "an allocation beyond the total",
         word + " out of memory. Tried to allocate ");
  t.Code(full, DEVRT_RESOURCE_EXHAUSTED, "an allocation beyond the total",
         absl::StrCat("GPU ", device.index(), " has a total capacity of "));
  const auto info = GetOutOfMemoryInfo(full);
  if (t.Expect(info.has_value(), "the status has an OutOfMemoryInfo")) {
    t.Equal(info->requested, total + 4096, "the bytes asked for");
    t.Equal(info->total, total, "the total");
    t.Expect(info->free <= total, "the free bytes are at most the total");
  }
  const auto origin = GetErrorInfo(full);
  if (t.Expect(origin.has_value(), "the status has an ErrorInfo")) {
    t.Expect(origin->backend == t.machine().backend().name(), "its backend");
    t.Equal(origin->device, device.index(), "its device");
  }
  for (const uint64_t size :
       {uint64_t{1} << 60, uint64_t{1} << 63, UINT64_MAX}) {
    t.Code(Allocate(device, size).status(), DEVRT_RESOURCE_EXHAUSTED,
           absl::StrCat("an allocation of ", size, " bytes"),
           word + " out of memory. Tried to allocate more than 1EB memory.");
  }
  if (t.machine().Has(DEVRT_CAP_PINNED_HOST)) {
    t.Code(AllocateHost(device, uint64_t{1} << 60).status(),
           DEVRT_RESOURCE_EXHAUSTED, "a pinned allocation of 2^60 bytes",
           "more than 1EB");
  }
  const auto after = t.Require(device.GetMemoryInfo(), "GetMemoryInfo");
  if (t.machine().simulator().has_value()) {
    t.Equal(after.free_bytes, before.free_bytes, "free memory after refusals");
  }
  t.Ok(device.Health(), "the device is healthy");
  const CoreBlock smaller(t, device, 1 << 20);
  t.Expect(smaller.Holds(0), "a smaller request succeeds next");
}

constexpr TestCase kTests[] = {
    {"memory.figures_are_sane", "",
     "mem_info tells total_memory, and free memory that is not more.",
     &FiguresAreSane},
    {"memory.figures_move", "",
     "An allocation takes its size from the free memory, a free gives it back.",
     &FiguresMove},
    {"memory.freed_memory_comes_back", "C63",
     "Freed memory can be allocated again.", &FreedMemoryComesBack},
    {"memory.out_of_memory_is_local", "C62",
     "Out of memory is RESOURCE_EXHAUSTED and changes nothing; a smaller "
     "request may succeed next.",
     &OutOfMemoryIsLocal},
    {"memory.full_device", "C62",
     "A device that is full refuses, keeps its state, and has room again after "
     "a free.",
     &FullDevice},
    {"memory.pinned_out_of_memory_is_local", "C62",
     "Pinned memory that is not to be had is RESOURCE_EXHAUSTED.",
     &FullOfPinned, DEVRT_CAP_PINNED_HOST},
    {"memory.out_of_memory_says_so", "C62",
     "The error of a failed allocation has the requested, the total and the "
     "free bytes; 2^60 bytes are refused as more than 1EB.",
     &ThroughCore},
};

}  // namespace
}  // namespace memory_limit_tests

absl::Span<const TestCase> MemoryLimitTests() {
  return memory_limit_tests::kTests;
}

}  // namespace devrt::cts
