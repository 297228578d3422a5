// SPDX-License-Identifier: Apache-2.0
//
// devrt.virtual_memory/0: addresses that are separate from memory.
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/every_call.h"
#include "cts/objects.h"
#include "devrt/backends/abi/devrt_virtual_memory.h"

namespace devrt::cts {
namespace virtual_memory_tests {
namespace {

using Ops = devrt_ops_v0;
using Table = devrt_virtual_memory_v0;

class VirtualMemory {
 public:
  explicit VirtualMemory(Test& t) : t_(t), m_(t.machine()) {
    const Extension found =
        t.NeedExtension(DEVRT_VIRTUAL_MEMORY_EXTENSION, sizeof(Table));
    table_ = static_cast<const Table*>(found.table);
    self_ = found.self;
  }

  template <typename... Params, typename... Args>
  Result Call(devrt_status (*Table::*function)(void*, Params...),
              Args... args) const {
    return m_.CallExtension(function, table_, self_, args...);
  }

  uint64_t Granularity(uint32_t device) const {
    devrt_virtual_memory_info_v0 info{};
    info.struct_size = sizeof info;
    t_.Require(Call(&Table::info, device, &info), "info");
    t_.Require(info.granularity != 0 &&
                   (info.granularity & (info.granularity - 1)) == 0,
               "the granularity is a power of two");
    return info.granularity;
  }
  uint8_t* Reserve(uint32_t device, uint64_t size,
                   uint64_t alignment = 0) const {
    void* base = nullptr;
    t_.Require(Call(&Table::reserve, device, size, alignment, &base),
               "a reservation");
    t_.Require(base != nullptr, "a reservation is not NULL");
    return static_cast<uint8_t*>(base);
  }
  devrt_chunk Create(uint32_t device, uint64_t size) const {
    devrt_chunk chunk = nullptr;
    t_.Require(Call(&Table::create, device, size, &chunk), "a chunk");
    t_.Require(chunk != nullptr, "a chunk is not NULL");
    return chunk;
  }
  Result Map(void* address, uint64_t size, devrt_chunk chunk) const {
    return Call(&Table::map, address, size, chunk);
  }
  Result Unmap(void* address, uint64_t size) const {
    return Call(&Table::unmap, address, size);
  }
  Result Destroy(devrt_chunk chunk) const {
    return Call(&Table::destroy, chunk);
  }
  Result Release(void* base, uint64_t size) const {
    return Call(&Table::release, base, size);
  }
  uint64_t Free(uint32_t device) const {
    uint64_t free = 0, total = 0;
    t_.Require(m_.Call<&Ops::mem_info>(device, &free, &total), "mem_info");
    return free;
  }

 private:
  Test& t_;
  Machine& m_;
  const Table* table_ = nullptr;
  void* self_ = nullptr;
};

// A segment that grows: its contents stay in place, and operations may cross
// the border of two pieces.
void GrowsInPlace(Test& t) {
  const VirtualMemory vm(t);
  for (const uint32_t device : t.devices()) {
    const uint64_t g = vm.Granularity(device);
    const RawStream s(t, device);
    uint8_t* const base = vm.Reserve(device, 4 * g);
    const devrt_chunk first = vm.Create(device, g);
    t.Require(vm.Map(base, g, first), "a mapping");
    s.Fill(base, 3, g);
    const devrt_chunk second = vm.Create(device, 2 * g);
    t.Require(vm.Map(base + g, 2 * g, second), "a mapping behind it");
    constexpr uint64_t kSeam = 1000;
    s.Fill(base + g - kSeam, 7, 2 * kSeam);
    HostBlock host(t, device, 2 * kSeam);
    s.Copy(host.ptr(), base + g - kSeam, host.size(), DEVRT_COPY_D2H);
    s.Sync();
    t.Expect(host.Holds(7), "a fill and a copy go over the seam of two chunks");
    s.Copy(host.ptr(), base, host.size(), DEVRT_COPY_D2H);
    s.Sync();
    t.Expect(host.Holds(3), "what was there before the segment grew stays");
    t.Ok(vm.Unmap(base, 3 * g), "both chunks unmapped at once");
    t.Ok(vm.Destroy(second), "destruction");
    t.Ok(vm.Destroy(first), "destruction");
    t.Ok(vm.Release(base, 4 * g), "release");
  }
}

// A chunk may be mapped at several addresses in turn, and an address may have
// several chunks in turn.
void MapsAnew(Test& t) {
  const VirtualMemory vm(t);
  const uint64_t g = vm.Granularity(t.device());
  const RawStream s(t, t.device());
  uint8_t* const base = vm.Reserve(t.device(), 2 * g);
  const devrt_chunk a = vm.Create(t.device(), g), b = vm.Create(t.device(), g);
  HostBlock host(t, t.device(), 4096);
  for (uint8_t round = 1; round <= 3; ++round) {
    const bool swapped = round == 2;
    t.Require(vm.Map(base, g, swapped ? b : a), "a mapping");
    t.Require(vm.Map(base + g, g, swapped ? a : b), "another mapping");
    s.Fill(base, round, 2 * g);
    s.Copy(host.ptr(), base + g - host.size() / 2, host.size(), DEVRT_COPY_D2H);
    s.Sync();
    t.Expect(host.Holds(round), "memory that was mapped anew is usable");
    t.Ok(vm.Unmap(base, g), "unmapping");
    t.Ok(vm.Unmap(base + g, g), "unmapping");
  }
  t.Ok(vm.Destroy(a), "destruction");
  t.Ok(vm.Destroy(b), "destruction");
  t.Ok(vm.Release(base, 2 * g), "release");
}

// Except on a simulator, other processes may take memory meanwhile.
void ExpectFree(Test& t, const VirtualMemory& vm, uint64_t expected,
                const char* what) {
  const uint64_t free = vm.Free(t.device());
  if (t.machine().simulator().has_value()) t.Equal(free, expected, what);
}

void IsCounted(Test& t) {
  const VirtualMemory vm(t);
  const uint64_t g = vm.Granularity(t.device());
  const uint64_t before = vm.Free(t.device());
  uint8_t* const base = vm.Reserve(t.device(), 8 * g);
  ExpectFree(t, vm, before, "free memory after a reservation");
  const devrt_chunk chunk = vm.Create(t.device(), 2 * g);
  const uint64_t taken = before - vm.Free(t.device());
  t.Expect(
      taken >= 2 * g && taken < before,
      absl::StrCat("a chunk of ", 2 * g, " bytes takes them, not ", taken));
  t.Require(vm.Map(base, 2 * g, chunk), "a mapping");
  ExpectFree(t, vm, before - taken, "free memory beside a mapped chunk");
  t.Ok(vm.Unmap(base, 2 * g), "unmapping");
  ExpectFree(t, vm, before - taken, "free memory beside an unmapped one");
  t.Ok(vm.Destroy(chunk), "destruction");
  ExpectFree(t, vm, before, "free memory after its destruction");
  t.Ok(vm.Release(base, 8 * g), "release");
}

void OutOfMemory(Test& t) {
  const VirtualMemory vm(t);
  const uint64_t g = vm.Granularity(t.device());
  const uint64_t before = vm.Free(t.device());
  const uint64_t too_much =
      (t.machine().props(t.device()).total_memory / g + 2) * g;
  devrt_chunk none = nullptr;
  t.Code(vm.Call(&Table::create, t.device(), too_much, &none),
         DEVRT_RESOURCE_EXHAUSTED, "a chunk larger than the device's memory");
  t.Expect(none == nullptr, "a refused chunk is no handle");
  ExpectFree(t, vm, before, "free memory after it");
  const devrt_chunk chunk = vm.Create(t.device(), g);
  t.Ok(vm.Destroy(chunk), "destruction");
}

void WrongCalls(Test& t) {
  const VirtualMemory vm(t);
  const uint64_t g = vm.Granularity(t.device());
  const auto refused = [&](const Result& result, const char* call) {
    t.Code(result, DEVRT_INVALID_ARGUMENT, call);
  };
  void* none = nullptr;
  devrt_chunk no_chunk = nullptr;
  refused(vm.Call(&Table::reserve, t.device(), uint64_t{0}, uint64_t{0}, &none),
          "a reservation of 0 bytes");
  refused(vm.Call(&Table::reserve, t.device(), g + 1, uint64_t{0}, &none),
          "a reservation that is no multiple of the granularity");
  refused(vm.Call(&Table::create, t.device(), g / 2, &no_chunk),
          "a chunk of half the granularity");
  refused(vm.Call(&Table::reserve, NoSuchDevice(t), g, uint64_t{0}, &none),
          "a reservation for a device that does not exist");
  refused(vm.Call(&Table::create, NoSuchDevice(t), g, &no_chunk),
          "a chunk of a device that does not exist");
  t.Expect(none == nullptr && no_chunk == nullptr,
           "a refused call makes no handle");
  uint8_t* const base = vm.Reserve(t.device(), 2 * g);
  const devrt_chunk a = vm.Create(t.device(), g), b = vm.Create(t.device(), g);
  refused(vm.Unmap(base, g), "unmapping where nothing is mapped");
  refused(vm.Map(base, 2 * g, a), "a mapping larger than its chunk");
  refused(vm.Map(base + 2 * g, g, a), "a mapping behind the reservation");
  refused(vm.Map(base + 1, g, a), "a mapping at an odd address");
  refused(vm.Map(&none, g, a), "a mapping in no reservation");
  t.Require(vm.Map(base, g, a), "a mapping");
  t.Code(vm.Map(base, g, b), DEVRT_ALREADY_EXISTS,
         "a mapping where something is mapped");
  refused(vm.Map(base + g, g, a), "a second mapping of a chunk");
  refused(vm.Destroy(a), "destruction of a mapped chunk");
  refused(vm.Release(base, 2 * g), "release of what holds a mapping");
  refused(vm.Release(base, g), "release of a part");
  t.Ok(vm.Unmap(base, g), "unmapping");
  refused(vm.Unmap(base, g), "unmapping again");
  t.Ok(vm.Destroy(a), "destruction");
  t.Ok(vm.Destroy(b), "destruction");
  t.Ok(vm.Release(base, 2 * g), "release");
  refused(vm.Release(base, 2 * g), "release again");
}

void IsPointedAt(Test& t) {
  const VirtualMemory vm(t);
  const uint64_t g = vm.Granularity(t.device());
  constexpr uint64_t kAlignment = 16 << 20;
  uint8_t* const base = vm.Reserve(t.device(), 2 * g, kAlignment);
  t.Equal(reinterpret_cast<uintptr_t>(base) % kAlignment, uintptr_t{0},
          "the alignment of a reservation");
  const devrt_chunk a = vm.Create(t.device(), g), b = vm.Create(t.device(), g);
  t.Require(vm.Map(base, g, a), "a mapping");
  t.Require(vm.Map(base + g, g, b), "a mapping");
  devrt_pointer_info_v0 info{};
  info.struct_size = sizeof info;
  t.Require(t.machine().Call<&Ops::pointer_info>(base + g + 5, &info),
            "pointer_info");
  t.Equal(info.kind, DEVRT_POINTER_DEVICE, "the kind of mapped memory");
  t.Equal(info.device, static_cast<int32_t>(t.device()), "its device");
  t.Expect(info.base == base + g, "its base is that of its chunk");
  t.Equal(info.size, g, "its size");
  t.Ok(vm.Unmap(base, 2 * g), "unmapping");
  t.Ok(vm.Destroy(a), "destruction");
  t.Ok(vm.Destroy(b), "destruction");
  t.Ok(vm.Release(base, 2 * g), "release");
}

constexpr TestCase kTests[] = {
    {"memory.virtual_grows_in_place", "",
     "A mapped chunk is memory, also across the border of two chunks "
     "(virtual_memory 3).",
     &GrowsInPlace},
    {"memory.virtual_maps_anew", "",
     "Chunks and places serve one after another (virtual_memory 2).",
     &MapsAnew},
    {"memory.virtual_is_counted", "",
     "mem_info counts chunks, mapped or not, and no reservations "
     "(virtual_memory 4).",
     &IsCounted},
    {"memory.virtual_out_of_memory", "C62",
     "A chunk for which there is no room is RESOURCE_EXHAUSTED and changes "
     "nothing (virtual_memory 5).",
     &OutOfMemory},
    {"memory.virtual_wrong_calls", "",
     "Wrong sizes, addresses and orders of calls are refused and change "
     "nothing (virtual_memory 1, 2).",
     &WrongCalls},
    {"memory.virtual_is_pointed_at", "C71",
     "pointer_info names the device of mapped memory and its chunk's part "
     "(virtual_memory 3).",
     &IsPointedAt, DEVRT_CAP_POINTER_INFO},
};

}  // namespace
}  // namespace virtual_memory_tests

absl::Span<const TestCase> VirtualMemoryTests() {
  return virtual_memory_tests::kTests;
}

}  // namespace devrt::cts
