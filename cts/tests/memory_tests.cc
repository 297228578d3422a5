// SPDX-License-Identifier: Apache-2.0
//
// Blocks of memory: addresses, contents, and frees.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/core_objects.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace memory_tests {
namespace {

using Ops = devrt_ops_v0;

uintptr_t Address(const void* ptr) { return reinterpret_cast<uintptr_t>(ptr); }

// A block of the table, which Free frees.
struct Raw {
  uint32_t device;
  uint64_t size;
  void* ptr = nullptr;
};

Raw Alloc(Test& t, uint32_t device, uint64_t size, uint64_t alignment = 0) {
  Raw raw = {device, size};
  t.Require(t.machine().Call<&Ops::alloc>(device, size, alignment, &raw.ptr),
            absl::StrCat("allocation of ", size, " bytes"));
  t.Require(raw.ptr != nullptr, "allocated memory is not NULL");
  return raw;
}

void Free(Test& t, const Raw& raw) {
  t.Ok(t.machine().Call<&Ops::dealloc>(raw.device, raw.ptr, raw.size),
       "deallocation");
}

void OwnAlignment(Test& t) {
  for (const uint32_t device : t.devices()) {
    const uint64_t own = t.machine().props(device).alloc_alignment;
    t.Expect(own > 0 && (own & (own - 1)) == 0,
             "alloc_alignment is a power of two");
    std::vector<Raw> all;
    for (const uint64_t size : {1, 3, 511, 513, 4097, 70'001, 1, 200'003}) {
      all.push_back(Alloc(t, device, size));
      t.Expect(own == 0 || Address(all.back().ptr) % own == 0,
               absl::StrCat("a block of ", size, " bytes is aligned to ", own,
                            ", the device's alloc_alignment"));
    }
    for (const Raw& raw : all) Free(t, raw);
  }
}

// Blocks of odd sizes lie between the tested ones, so that the tested ones are
// not aligned by accident.
void ExpectAligned(Test& t, uint64_t alignment) {
  std::vector<Raw> all;
  for (int i = 0; i < 4; ++i) {
    Raw raw = {t.device(), 100};
    const Result result = t.machine().Call<&Ops::alloc>(
        t.device(), uint64_t{100}, alignment, &raw.ptr);
    if (result.code == DEVRT_UNIMPLEMENTED) break;
    if (!t.Ok(result, absl::StrCat("a block aligned to ", alignment))) break;
    all.push_back(raw);
    t.Expect(Address(raw.ptr) % alignment == 0,
             absl::StrCat("a block is aligned to the ", alignment,
                          " bytes that were asked for"));
    all.push_back(Alloc(t, t.device(), 700));
  }
  for (const Raw& raw : all) Free(t, raw);
}

void AlignmentAsked(Test& t) {
  for (uint64_t alignment = 1; alignment <= 1 << 20; alignment *= 2) {
    ExpectAligned(t, alignment);
  }
}

void AlignmentThroughCore(Test& t) {
  const Device device = t.cpp_device();
  for (const uint64_t alignment : {3, 24, 1000}) {
    t.Code(Allocate(device, 16, alignment).status(), DEVRT_INVALID_ARGUMENT,
           "an alignment that is no power of two");
  }
  void* const block = t.Require(Allocate(device, 16, 4096), "Allocate");
  t.Expect(Address(block) % 4096 == 0, "a block is aligned as asked for");
  t.Ok(devrt::Free(device, block), "Free");
}

// Fills each block with its own number, then checks all blocks.
void Disjoint(Test& t) {
  std::uniform_int_distribution<uint64_t> sizes(1, 20'000);
  std::vector<DeviceBlock> blocks;
  for (int i = 0; i < 120; ++i) {
    const size_t at = static_cast<size_t>(i) % t.devices().size();
    blocks.emplace_back(t, t.device(at), sizes(t.random()));
  }
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return blocks[a].ptr() < blocks[b].ptr();
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const DeviceBlock& before = blocks[order[i - 1]];
    t.Expect(before.ptr() + before.size() <= blocks[order[i]].ptr(),
             "two live blocks do not overlap");
  }
  for (const uint32_t device : t.devices()) {
    const RawStream s(t, device);
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].device() != device) continue;
      s.Fill(blocks[i].ptr(), static_cast<uint8_t>(i + 1), blocks[i].size());
    }
    s.Sync();
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].Holds(static_cast<uint8_t>(i + 1))) continue;
    t.Fail(absl::StrCat("block ", i, " has lost what was written to it"));
    break;
  }
}

void FreshIsPoisoned(Test& t) {
  t.Require(t.machine().Reset("poison=full"), "reset of the simulator");
  for (int round = 0; round < 3; ++round) {
    const Raw raw = Alloc(t, t.device(), 30'000);
    std::vector<uint8_t> bytes(raw.size);
    t.Ok(t.machine().simulator()->Peek(raw.ptr, bytes.data(), raw.size),
         "peek");
    t.Expect(bytes == std::vector<uint8_t>(raw.size, 0xff),
             "a simulator fills fresh memory with 0xFF");
    const RawStream s(t, t.device());
    s.Fill(raw.ptr, 0, raw.size);
    s.Sync();
    Free(t, raw);
  }
  t.Require(t.machine().Reset(""), "reset of the simulator");
}

void NullIsFree(Test& t) {
  t.Ok(devrt::Free(t.cpp_device(), nullptr), "Free(nullptr)");
  t.Ok(FreeHost(nullptr), "FreeHost(nullptr)");
}

void WrongFreesThroughCore(Test& t) {
  const Device device = t.cpp_device();
  void* const block = t.Require(Allocate(device, 1000), "Allocate");
  auto* const bytes = static_cast<uint8_t*>(block);
  std::vector<uint8_t> host(64);
  int stack = 0;
  t.Code(devrt::Free(device, bytes + 1), DEVRT_INVALID_ARGUMENT,
         "a free of an interior pointer");
  t.Code(devrt::Free(device, bytes + 512), DEVRT_INVALID_ARGUMENT,
         "a free of an aligned interior pointer");
  t.Code(devrt::Free(device, host.data()), DEVRT_INVALID_ARGUMENT,
         "a free of host memory");
  t.Code(devrt::Free(device, &stack), DEVRT_INVALID_ARGUMENT,
         "a free of the stack");
  t.Code(FreeHost(block), DEVRT_INVALID_ARGUMENT,
         "a pinned free of device memory");
  t.Code(FreeHost(host.data()), DEVRT_INVALID_ARGUMENT,
         "a pinned free of pageable memory");
  if (t.devices().size() > 1) {
    t.Code(devrt::Free(t.cpp_device(1), block), DEVRT_INVALID_ARGUMENT,
           "a free by another device");
  }
  const Stream s = t.Require(Stream::Create(device), "Stream::Create");
  t.Ok(FillAsync(s, block, 1, 1000), "the block lives on");
  t.Ok(s.Synchronize(), "Synchronize");
  t.Ok(devrt::Free(device, block), "Free");
  t.Code(devrt::Free(device, block), DEVRT_INVALID_ARGUMENT,
         "a second free of a block");
  void* const again = t.Require(Allocate(device, 1000), "Allocate again");
  t.Ok(devrt::Free(device, again), "Free");
}

// The core checks first, so the ABI does not require it of a backend.  The
// simulator refuses, too.
void WrongFrees(Test& t) {
  Machine& m = t.machine();
  const Raw raw = Alloc(t, t.device(), 10'000);
  const Raw neighbour = Alloc(t, t.device(), 10'000);
  auto* const bytes = static_cast<uint8_t*>(raw.ptr);
  int stack = 0;
  uint64_t before = 0, after = 0, total = 0;
  t.Require(m.Call<&Ops::mem_info>(t.device(), &before, &total), "mem_info");
  for (const uint64_t offset : {1, 512, 4096, 9999}) {
    t.Code(m.Call<&Ops::dealloc>(t.device(), static_cast<void*>(bytes + offset),
                                 raw.size),
           DEVRT_INVALID_ARGUMENT,
           absl::StrCat("a free of the pointer ", offset, " bytes inside"));
  }
  t.Code(m.Call<&Ops::dealloc>(t.device(), static_cast<void*>(&stack),
                               uint64_t{4}),
         DEVRT_INVALID_ARGUMENT, "a free of the stack");
  t.Require(m.Call<&Ops::mem_info>(t.device(), &after, &total), "mem_info");
  t.Equal(after, before, "free memory after frees that were refused");
  Free(t, raw);
  t.Code(m.Call<&Ops::dealloc>(t.device(), raw.ptr, raw.size),
         DEVRT_INVALID_ARGUMENT, "a second free of a block");
  Free(t, neighbour);
  Free(t, Alloc(t, t.device(), 10'000));
}

void WrongDevice(Test& t) {
  const Raw raw = Alloc(t, t.device(0), 1000);
  t.Code(t.machine().Call<&Ops::dealloc>(t.device(1), raw.ptr, raw.size),
         DEVRT_INVALID_ARGUMENT, "a free by another device");
  Free(t, raw);
}

void ZeroBytes(Test& t) {
  const Device device = t.cpp_device();
  const auto before = t.Require(device.GetMemoryInfo(), "GetMemoryInfo");
  for (const uint64_t alignment : {0, 1, 4096}) {
    void* const block =
        t.Require(Allocate(device, 0, alignment), "Allocate of zero bytes");
    t.Expect(block == nullptr, "zero bytes are a null pointer");
    t.Ok(devrt::Free(device, block), "its free");
  }
  if (t.machine().Has(DEVRT_CAP_PINNED_HOST)) {
    void* const block =
        t.Require(AllocateHost(device, 0), "AllocateHost of zero bytes");
    t.Expect(block == nullptr, "zero pinned bytes are a null pointer");
    t.Ok(FreeHost(block), "its free");
  }
  const auto after = t.Require(device.GetMemoryInfo(), "GetMemoryInfo");
  t.Equal(after.total_bytes, before.total_bytes, "total memory");
  if (t.machine().simulator().has_value()) {
    t.Equal(after.free_bytes, before.free_bytes, "free memory");
  }
}

// Traffic on one stream while another is held.  Allocations may wait (C73).
void FreesDoNotWait(Test& t) {
  if (t.machine().props(t.device()).raw_free_syncs != 0) {
    t.Skip("raw_free_syncs=yes: a free may wait for the device");
  }
  const RawStream held(t, t.device()), s(t, t.device());
  const bool pinned = t.machine().Has(DEVRT_CAP_PINNED_HOST);
  constexpr size_t kBlocks = 20;
  std::vector<Raw> blocks;
  std::vector<void*> hosts;
  for (size_t i = 0; i < kBlocks; ++i) {
    blocks.push_back(Alloc(t, t.device(), 5000));
    if (!pinned) continue;
    hosts.push_back(nullptr);
    t.Require(t.machine().Call<&Ops::host_alloc>(t.device(), uint64_t{5000},
                                                 uint64_t{0}, &hosts.back()),
              "pinned allocation");
  }
  Gate gate(t);
  gate.Hold(held);
  for (const Raw& raw : blocks) {
    s.Fill(raw.ptr, 1, raw.size);
    s.Sync();
    Free(t, raw);
  }
  for (void* const host : hosts) {
    t.Ok(t.machine().Call<&Ops::host_dealloc>(host, uint64_t{5000}),
         "pinned deallocation");
  }
  t.Expect(!held.Query(),
           "with raw_free_syncs=no, frees do not wait for other streams");
}

// Results stay right whether or not a free waits.
void HiddenSyncsChangeNothing(Test& t) {
  const bool simulated = t.machine().simulator().has_value();
  for (const char* const config : {"raw_free_syncs=no", "raw_free_syncs=yes"}) {
    if (simulated) t.Require(t.machine().Reset(config), "reset");
    {
      const DeviceBlock x(t, t.device(), 2000), y(t, t.device(), 2000);
      const RawStream s(t, t.device());
      for (int i = 1; i <= 10; ++i) {
        s.Delay(20'000);
        s.Fill(x.ptr(), static_cast<uint8_t>(i), 2000);
        const Raw other = Alloc(t, t.device(), 3000);
        s.Copy(y.ptr(), x.ptr(), 2000, DEVRT_COPY_D2D);
        Free(t, other);
      }
      s.Sync();
      t.Expect(y.Holds(10), "allocations and frees between change no result");
    }
    if (!simulated) return;
  }
  t.Require(t.machine().Reset(""), "reset");
}

void ResetIsForSimulators(Test& t) {
  const std::optional<Simulator>& sim = t.machine().simulator();
  for (const uint32_t device : t.devices()) {
    const bool can = t.machine().props(device).device_reset != 0;
    t.Expect(can == sim.has_value(),
             "device_reset is yes on simulators and nowhere else");
  }
  if (!sim.has_value()) {
    t.Code(Simulator::Get(t.machine().backend()).status(), DEVRT_UNIMPLEMENTED,
           "what could reset a device that is not simulated");
    return;
  }
  uint64_t before = 0, after = 0, total = 0;
  t.Require(t.machine().Reset(""), "reset");
  t.Require(t.machine().Call<&Ops::mem_info>(t.device(), &before, &total),
            "mem_info");
  const Raw lost = Alloc(t, t.device(), 1 << 20);
  t.Require(t.machine().Reset(""), "reset");
  t.Require(t.machine().Call<&Ops::mem_info>(t.device(), &after, &total),
            "mem_info");
  t.Equal(after, before, "free memory after a reset");
  t.Code(t.machine().Call<&Ops::dealloc>(t.device(), lost.ptr, lost.size),
         DEVRT_INVALID_ARGUMENT, "a free of a block of before the reset");
}

constexpr TestCase kTests[] = {
    {"memory.blocks_are_aligned", "",
     "Every pointer from alloc is aligned to alloc_alignment.", &OwnAlignment},
    {"memory.alignment_is_kept", "", "Blocks have the requested alignment.",
     &AlignmentAsked},
    {"memory.alignment_through_the_core", "",
     "An alignment that is no power of two is INVALID_ARGUMENT.",
     &AlignmentThroughCore},
    {"memory.blocks_do_not_overlap", "",
     "Live blocks do not overlap, and keep their contents.", &Disjoint},
    {"memory.fresh_memory_is_poisoned", "C61",
     "Fresh memory is undefined; the simulator fills it with 0xFF.",
     &FreshIsPoisoned, 0, kNeedsSim},
    {"memory.null_may_be_freed", "C63", "A free of null is a no-op.",
     &NullIsFree},
    {"memory.wrong_frees_are_refused_by_the_core", "C63",
     "Double, interior and foreign pointers are INVALID_ARGUMENT, detected by "
     "the core.",
     &WrongFreesThroughCore},
    {"memory.wrong_frees_are_refused", "C63",
     "A simulator itself refuses second and interior frees.", &WrongFrees, 0,
     kNeedsSim},
    {"memory.free_names_the_device", "C63",
     "A simulator itself frees blocks for their device only.", &WrongDevice, 0,
     kNeedsSim | kTwoDevices},
    {"memory.zero_bytes", "C102",
     "An allocation of zero bytes is a null pointer and changes no statistic.",
     &ZeroBytes},
    {"memory.frees_wait_for_nothing", "C64",
     "With raw_free_syncs=no, raw frees do not wait for work.", &FreesDoNotWait,
     0, kNeedsGate},
    {"memory.hidden_synchronisation_changes_nothing", "C73 C64",
     "Hidden synchronisation may cost concurrency, and never changes results.",
     &HiddenSyncsChangeNothing},
    {"memory.reset_is_for_simulators", "C72",
     "Device reset is a matter of simulators; there it ends all memory.",
     &ResetIsForSimulators},
};

}  // namespace
}  // namespace memory_tests

absl::Span<const TestCase> MemoryTests() { return memory_tests::kTests; }

}  // namespace devrt::cts
