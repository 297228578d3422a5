// SPDX-License-Identifier: Apache-2.0
//
// Pinned and registered host memory, and information about pointers.
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/core_objects.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace memory_host_tests {
namespace {

using Ops = devrt_ops_v0;

constexpr uint64_t kPage = 4096;

// Whole pages of ordinary memory.
class Pages {
 public:
  explicit Pages(uint64_t count) : memory_((count + 1) * kPage) {
    void* at = memory_.data();
    size_t space = memory_.size();
    begin_ = static_cast<uint8_t*>(std::align(kPage, count * kPage, at, space));
  }
  void* at(uint64_t offset) const { return begin_ + offset; }

 private:
  std::vector<uint8_t> memory_;
  uint8_t* begin_;
};

Result Register(Test& t, void* ptr, uint64_t size) {
  return t.machine().Call<&Ops::host_register>(t.device(), ptr, size);
}
Result Unregister(Test& t, void* ptr) {
  return t.machine().Call<&Ops::host_unregister>(ptr);
}

void PinnedIsOrdinary(Test& t) {
  for (const uint64_t alignment : {0, 1, 64, 4096}) {
    void* ptr = nullptr;
    t.Require(t.machine().Call<&Ops::host_alloc>(t.device(), uint64_t{10'001},
                                                 alignment, &ptr),
              "pinned allocation");
    t.Require(ptr != nullptr, "pinned memory is not NULL");
    t.Expect(
        alignment == 0 || reinterpret_cast<uintptr_t>(ptr) % alignment == 0,
        absl::StrCat("pinned memory is aligned to ", alignment));
    const std::vector<uint8_t> bytes = Pattern(10'001, 5);
    std::memcpy(ptr, bytes.data(), bytes.size());
    t.Expect(std::memcmp(ptr, bytes.data(), bytes.size()) == 0,
             "the host reads what it has written");
    t.Ok(t.machine().Call<&Ops::host_dealloc>(ptr, uint64_t{10'001}),
         "pinned deallocation");
  }
}

void PinnedOfEachDevice(Test& t) {
  for (const uint32_t of : t.devices()) {
    const HostBlock host(t, of, 4000);
    for (const uint32_t device : t.devices()) {
      const DeviceBlock x(t, device, 4000);
      const RawStream s(t, device);
      s.Fill(x.ptr(), static_cast<uint8_t>(device + 1), 4000);
      s.Copy(host.ptr(), x.ptr(), 4000, DEVRT_COPY_D2H);
      s.Sync();
      t.Expect(host.Holds(static_cast<uint8_t>(device + 1)),
               absl::StrCat("device ", device,
                            " copies to pinned memory that names device ", of));
    }
  }
}

void WrongPinnedFrees(Test& t) {
  const HostBlock host(t, t.device(), 10'000);
  int stack = 0;
  t.Code(t.machine().Call<&Ops::host_dealloc>(
             static_cast<void*>(host.ptr() + 64), uint64_t{10'000}),
         DEVRT_INVALID_ARGUMENT, "a pinned free of an interior pointer");
  t.Code(t.machine().Call<&Ops::host_dealloc>(static_cast<void*>(&stack),
                                              uint64_t{4}),
         DEVRT_INVALID_ARGUMENT, "a pinned free of the stack");
  std::memset(host.ptr(), 1, 10'000);
  t.Expect(host.Holds(1), "the block lives on");
}

void RegisterTwice(Test& t) {
  const Pages pages(8);
  void* const begin = pages.at(2 * kPage);
  t.Require(Register(t, begin, 2 * kPage), "registration");
  const struct {
    uint64_t offset, size;
    const char* what;
  } kOverlaps[] = {
      {2 * kPage, 2 * kPage, "the same range"},
      {2 * kPage, kPage, "its first half"},
      {3 * kPage, kPage, "its second half"},
      {kPage, kPage + 1, "a range that reaches its first byte"},
      {4 * kPage - 1, kPage, "a range that begins with its last byte"},
      {kPage, 4 * kPage, "a range around it"},
      {2 * kPage + 100, 50, "some bytes inside"},
  };
  for (const auto& overlap : kOverlaps) {
    t.Code(Register(t, pages.at(overlap.offset), overlap.size),
           DEVRT_ALREADY_EXISTS,
           absl::StrCat("a registration of ", overlap.what));
  }
  t.Ok(Register(t, pages.at(4 * kPage), kPage), "the page behind it");
  t.Ok(Register(t, pages.at(kPage), kPage), "the page before it");
  for (const uint64_t page : {1, 2, 4}) {
    t.Ok(Unregister(t, pages.at(page * kPage)), "end of a registration");
  }
  t.Ok(Register(t, begin, 4 * kPage), "all of it, afterwards");
  t.Ok(Unregister(t, begin), "end of a registration");
}

void UnregisterWhatIsNot(Test& t) {
  const Pages pages(4);
  t.Code(Unregister(t, pages.at(0)), DEVRT_NOT_FOUND,
         "the end of a registration that never was");
  t.Require(Register(t, pages.at(0), 3 * kPage), "registration");
  for (const uint64_t offset : {uint64_t{1}, kPage, 3 * kPage - 1}) {
    t.Code(Unregister(t, pages.at(offset)), DEVRT_INVALID_ARGUMENT,
           absl::StrCat("the end of a registration by a pointer ", offset,
                        " bytes inside"));
  }
  t.Ok(Unregister(t, pages.at(0)), "the end of a registration");
  t.Code(Unregister(t, pages.at(0)), DEVRT_NOT_FOUND,
         "the end of a registration, once more");
}

void RegistrationThroughCore(Test& t) {
  const Pages pages(4);
  const Device device = t.cpp_device();
  t.Code(RegisterHost(device, nullptr, 10), DEVRT_INVALID_ARGUMENT,
         "a registration of null");
  t.Code(RegisterHost(device, pages.at(0), 0), DEVRT_INVALID_ARGUMENT,
         "a registration of nothing");
  const CoreBlock block(t, device, kPage);
  t.Code(RegisterHost(device, block.ptr(), 16), DEVRT_INVALID_ARGUMENT,
         "a registration of device memory");
  if (t.machine().Has(DEVRT_CAP_PINNED_HOST)) {
    const CoreHost pinned(t, device, kPage, CoreHost::Kind::kPinned);
    t.Code(RegisterHost(device, pinned.ptr(), 16), DEVRT_INVALID_ARGUMENT,
           "a registration of pinned memory");
  }
  t.Code(UnregisterHost(device, pages.at(0)), DEVRT_NOT_FOUND,
         "the end of a registration that never was");
  t.Ok(RegisterHost(device, pages.at(0), 2 * kPage), "RegisterHost");
  t.Code(RegisterHost(device, pages.at(2 * kPage - 1), 2), DEVRT_ALREADY_EXISTS,
         "a registration of its last byte");
  t.Code(UnregisterHost(device, pages.at(1)), DEVRT_INVALID_ARGUMENT,
         "the end of a registration by an interior pointer");
  t.Ok(UnregisterHost(device, pages.at(0)), "UnregisterHost");
  t.Code(UnregisterHost(device, pages.at(0)), DEVRT_NOT_FOUND,
         "the end of a registration, once more");
}

devrt_pointer_info_v0 InfoOf(Test& t, const void* ptr) {
  devrt_pointer_info_v0 info = {};
  info.struct_size = sizeof info;
  info.kind = 99;
  info.device = 99;
  t.Require(t.machine().Call<&Ops::pointer_info>(ptr, &info), "pointer_info");
  return info;
}

void ExpectBlock(Test& t, const uint8_t* base, uint64_t size, uint32_t kind,
                 uint32_t device, const char* what) {
  const uint64_t id = InfoOf(t, base).allocation_id;
  for (const uint64_t offset : {uint64_t{0}, size / 3, size / 2, size - 1}) {
    const devrt_pointer_info_v0 info = InfoOf(t, base + offset);
    const std::string where = absl::StrCat(offset, " bytes into ", what);
    t.Equal(info.kind, kind, where + ", kind");
    t.Equal(info.device, static_cast<int32_t>(device), where + ", device");
    t.Expect(info.base == base, where + ", base is that of the block");
    t.Equal(info.size, size, where + ", size as asked for");
    t.Equal(info.allocation_id, id, where + ", allocation id");
    if (kind != DEVRT_POINTER_DEVICE) {
      t.Equal(info.host_readable, 1u, where + ", readable by the host");
    }
  }
}

void ExpectNone(Test& t, const void* ptr, const std::string& what) {
  const devrt_pointer_info_v0 info = InfoOf(t, ptr);
  t.Equal(info.kind, DEVRT_POINTER_UNREGISTERED, what + ", kind");
  t.Equal(info.device, -1, what + ", device");
  t.Expect(info.base == nullptr, what + ", base is NULL");
}

void PointersOfBlocks(Test& t) {
  for (const uint32_t device : t.devices()) {
    const DeviceBlock a(t, device, 5001), b(t, device, 1);
    ExpectBlock(t, a.ptr(), 5001, DEVRT_POINTER_DEVICE, device, "a block");
    ExpectBlock(t, b.ptr(), 1, DEVRT_POINTER_DEVICE, device, "one byte");
    if (!t.machine().Has(DEVRT_CAP_PINNED_HOST)) continue;
    const HostBlock pinned(t, device, 5001);
    ExpectBlock(t, pinned.ptr(), 5001, DEVRT_POINTER_PINNED, device,
                "pinned memory");
  }
}

void PointersOfOthers(Test& t) {
  int stack = 0;
  const std::vector<uint8_t> heap(10'000);
  static const int global = 0;
  ExpectNone(t, nullptr, "null");
  ExpectNone(t, &stack, "the stack");
  ExpectNone(t, heap.data() + 5000, "the heap");
  ExpectNone(t, &global, "a constant");
  ExpectNone(t, reinterpret_cast<const void*>(uintptr_t{8}), "address 8");
  uint8_t* freed = nullptr;
  { freed = DeviceBlock(t, t.device(), 5000).ptr(); }
  ExpectNone(t, freed, "a freed block");
  ExpectNone(t, freed + 100, "the inside of a freed block");
  if (!t.machine().Has(DEVRT_CAP_PINNED_HOST)) return;
  { freed = HostBlock(t, t.device(), 5000).ptr(); }
  ExpectNone(t, freed, "freed pinned memory");
}

void PointersOfRegistered(Test& t) {
  const Pages pages(4);
  ExpectNone(t, pages.at(kPage), "memory that is not registered yet");
  t.Require(Register(t, pages.at(kPage), 2 * kPage), "registration");
  for (const uint64_t offset : {kPage, kPage + 1, 3 * kPage - 1}) {
    t.Equal(InfoOf(t, pages.at(offset)).kind, DEVRT_POINTER_PINNED,
            "registered memory, kind");
  }
  ExpectNone(t, pages.at(kPage - 1), "the byte before registered memory");
  ExpectNone(t, pages.at(3 * kPage), "the byte behind registered memory");
  t.Ok(Unregister(t, pages.at(kPage)), "end of the registration");
  ExpectNone(t, pages.at(kPage), "memory that is registered no more");
}

void IdsAreFresh(Test& t) {
  std::set<uint64_t> ids;
  for (int i = 0; i < 50; ++i) {
    const DeviceBlock block(t, t.device(), 3000);
    const uint64_t id = InfoOf(t, block.ptr()).allocation_id;
    if (id == 0) t.Skip("the backend gives no allocation ids");
    t.Expect(ids.insert(id).second, "an allocation id is never reused");
  }
}

// With any current device.
void PinnedNamesItsDevice(Test& t) {
  Machine& m = t.machine();
  const uint32_t current = t.device(0), other = t.device(1);
  devrt_context before = {};
  t.Require(m.Call<&Ops::context_enter>(current, &before), "context_enter");
  {
    const HostBlock host(t, other, 3000);
    const devrt_pointer_info_v0 info = InfoOf(t, host.ptr());
    t.Equal(info.kind, DEVRT_POINTER_PINNED, "pinned memory, kind");
    t.Equal(info.device, static_cast<int32_t>(other),
            "pinned memory, the device that it was asked of");
  }
  t.Require(
      m.Call<&Ops::context_exit>(static_cast<const devrt_context*>(&before)),
      "context_exit");
}

void ThroughCore(Test& t) {
  const Device device = t.cpp_device();
  uint8_t* freed = nullptr;
  {
    const CoreBlock block(t, device, 1000);
    freed = block.ptr();
    for (const uint64_t offset : {0, 1, 999}) {
      const PointerInfo info =
          t.Require(GetPointerInfo(block.ptr() + offset), "GetPointerInfo");
      t.Expect(info.kind == PointerKind::kDevice, "device memory, kind");
      t.Expect(info.device == device, "device memory, device");
      t.Expect(info.base == block.ptr(), "device memory, base");
      t.Equal(info.size, uint64_t{1000}, "device memory, size as asked for");
    }
  }
  for (const CoreHost::Kind kind : CoreHost::Kinds(t)) {
    const CoreHost host(t, device, 1000, kind);
    const PointerInfo info =
        t.Require(GetPointerInfo(host.ptr() + 7), "GetPointerInfo");
    const bool plain = kind == CoreHost::Kind::kPageable;
    t.Expect(info.kind ==
                 (plain ? PointerKind::kUnregistered : PointerKind::kPinned),
             absl::StrCat(CoreHost::Name(kind), " memory, kind"));
    t.Expect(plain || info.base == host.ptr(), "host memory, base");
  }
  int stack = 0;
  for (const void* const ptr :
       {static_cast<const void*>(nullptr), static_cast<const void*>(&stack),
        static_cast<const void*>(freed)}) {
    const PointerInfo info = t.Require(GetPointerInfo(ptr), "GetPointerInfo");
    t.Expect(info.kind == PointerKind::kUnregistered && !info.device,
             "null, the stack and freed memory are unregistered");
  }
}

constexpr TestCase kTests[] = {
    {"memory.pinned_is_host_memory", "C54",
     "Pinned memory is memory of the host, aligned as asked for.",
     &PinnedIsOrdinary, DEVRT_CAP_PINNED_HOST},
    {"memory.pinned_serves_all_devices", "C54",
     "Pinned memory serves every device.", &PinnedOfEachDevice,
     DEVRT_CAP_PINNED_HOST},
    {"memory.wrong_pinned_frees_are_refused", "C63",
     "A simulator itself refuses wrong pinned frees.", &WrongPinnedFrees,
     DEVRT_CAP_PINNED_HOST, kNeedsSim},
    {"memory.overlapping_registration", "C70",
     "A registration that overlaps another, to the byte, is ALREADY_EXISTS.",
     &RegisterTwice, DEVRT_CAP_HOST_REGISTER},
    {"memory.unknown_registration", "C70",
     "The end of an unknown registration is NOT_FOUND, by an interior pointer "
     "INVALID_ARGUMENT.",
     &UnregisterWhatIsNot, DEVRT_CAP_HOST_REGISTER},
    {"memory.registration_through_the_core", "C70",
     "Null, empty, device and pinned ranges are INVALID_ARGUMENT.",
     &RegistrationThroughCore, DEVRT_CAP_HOST_REGISTER},
    {"memory.pointers_into_blocks", "C71",
     "Pointers into a block tell its kind, device, base and size as asked for.",
     &PointersOfBlocks, DEVRT_CAP_POINTER_INFO},
    {"memory.pointers_elsewhere", "C71",
     "Plain host, null and freed pointers are unregistered, and no error.",
     &PointersOfOthers, DEVRT_CAP_POINTER_INFO},
    {"memory.pointers_into_registered", "C71 C70",
     "Registered memory is pinned while it is registered, and no byte more.",
     &PointersOfRegistered, DEVRT_CAP_POINTER_INFO | DEVRT_CAP_HOST_REGISTER},
    {"memory.pinned_names_its_device", "C71",
     "Pinned memory is attributed to the device of the call, and not to the "
     "current device.",
     &PinnedNamesItsDevice, DEVRT_CAP_POINTER_INFO | DEVRT_CAP_PINNED_HOST,
     kTwoDevices},
    {"memory.allocation_ids_are_fresh", "C71",
     "An allocation id is never used again.", &IdsAreFresh,
     DEVRT_CAP_POINTER_INFO},
    {"memory.pointers_through_the_core", "C71",
     "The core gives information about its own blocks without the backend.",
     &ThroughCore},
};

}  // namespace
}  // namespace memory_host_tests

absl::Span<const TestCase> HostMemoryTests() {
  return memory_host_tests::kTests;
}

}  // namespace devrt::cts
