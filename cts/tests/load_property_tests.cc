// SPDX-License-Identifier: Apache-2.0
//
// The results of device_props and mem_info.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <list>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/every_call.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace load_property_tests {
namespace {

using Ops = devrt_ops_v0;
using Props = devrt_device_props_v0;

Props GetProps(Test& t, uint32_t device) {
  Props props = {};
  props.struct_size = sizeof props;
  t.Require(t.machine().Call<&Ops::device_props>(device, &props),
            "device_props");
  return props;
}

bool Terminated(const char* text, size_t size) {
  return std::memchr(text, 0, size) != nullptr;
}

void TextsAreTerminated(Test& t) {
  for (const uint32_t device : t.devices()) {
    // The plugin must write every byte.
    Props props;
    std::memset(&props, 0xa5, sizeof props);
    props.struct_size = sizeof props;
    t.Require(t.machine().Call<&Ops::device_props>(device, &props),
              "device_props");
    if (t.Expect(Terminated(props.name, sizeof props.name),
                 "the name ends with NUL")) {
      t.Expect(props.name[0] != 0, "the name is not empty");
    }
    t.Expect(Terminated(props.arch, sizeof props.arch),
             "the architecture ends with NUL");
    t.Equal(props.reserved0, 0u, "reserved0");
  }
}

void ValuesArePossible(Test& t) {
  const auto is_bool = [&](uint32_t value, const char* what) {
    t.Expect(value <= 1, absl::StrCat(what, " is 0 or 1, not ", value));
  };
  for (const uint32_t device : t.devices()) {
    const Props p = GetProps(t, device);
    t.Equal(p.ordinal, device, "ordinal");
    t.Expect(p.overhead_bytes <= p.total_memory,
             "overhead_bytes is part of total_memory");
    t.Expect(p.alloc_alignment != 0 &&
                 (p.alloc_alignment & (p.alloc_alignment - 1)) == 0,
             absl::StrCat("alloc_alignment is a power of two, not ",
                          p.alloc_alignment));
    t.Expect(p.copy_engines >= 1, "there is at least one copy engine");
    t.Expect(p.queue_depth == 0 || p.queue_depth >= 1000,
             absl::StrCat("queue_depth is 0 or at least 1,000, not ",
                          p.queue_depth));
    t.Expect(p.pageable_async >= DEVRT_PAGEABLE_SYNC &&
                 p.pageable_async <= DEVRT_PAGEABLE_LATE,
             absl::StrCat("pageable_async is one of DEVRT_PAGEABLE_, not ",
                          p.pageable_async));
    is_bool(p.raw_free_syncs, "raw_free_syncs");
    is_bool(p.fault_delivery, "fault_delivery");
    is_bool(p.fault_scope, "fault_scope");
    is_bool(p.device_reset, "device_reset");
    t.Expect(
        !t.machine().Has(DEVRT_CAP_EVENT_TIMING) || p.elapsed_resolution_ns > 0,
        "elapsed_resolution_ns is known where events have times");
    t.Expect(p.device_reset == 0 || t.machine().simulator().has_value(),
             "device_reset is for simulators");
  }
}

void PriorityRange(Test& t) {
  for (const uint32_t device : t.devices()) {
    const Props p = GetProps(t, device);
    t.Expect(p.priority_greatest <= p.priority_least,
             absl::StrCat("the greatest priority is the smallest number: [",
                          p.priority_greatest, ", ", p.priority_least, "]"));
    if (t.machine().Has(DEVRT_CAP_STREAM_PRIORITY)) continue;
    t.Equal(p.priority_least, 0, "the least priority without STREAM_PRIORITY");
    t.Equal(p.priority_greatest, 0,
            "the greatest priority without STREAM_PRIORITY");
  }
}

void DevicesDiffer(Test& t) {
  std::set<std::vector<uint8_t>> seen;
  for (const uint32_t device : t.devices()) {
    const Props p = GetProps(t, device);
    const std::vector<uint8_t> uuid(std::begin(p.uuid), std::end(p.uuid));
    t.Expect(std::any_of(uuid.begin(), uuid.end(),
                         [](uint8_t byte) { return byte != 0; }),
             "the uuid is not all zero");
    t.Expect(seen.insert(uuid).second, "no two devices have one uuid");
  }
}

// Every size that a caller may have been compiled with.
void CallersOfEverySize(Test& t) {
  constexpr size_t kRoom = sizeof(Props) + 64;
  constexpr unsigned char kMark = 0xa5;
  for (const uint32_t device : t.devices()) {
    const Props whole = GetProps(t, device);
    for (uint32_t size = sizeof(uint32_t); size <= kRoom;
         size += sizeof(uint32_t)) {
      alignas(Props) unsigned char bytes[kRoom + 8];
      std::memset(bytes, kMark, sizeof bytes);
      std::memcpy(bytes, &size, sizeof size);
      t.Require(t.machine().Call<&Ops::device_props>(
                    device, reinterpret_cast<Props*>(bytes)),
                "device_props");
      uint32_t after = 0;
      std::memcpy(&after, bytes, sizeof after);
      t.Equal(after, size, "struct_size, which is the caller's");
      const size_t known = std::min<size_t>(size, sizeof whole);
      t.Expect(std::memcmp(bytes + 4, reinterpret_cast<const char*>(&whole) + 4,
                           known - 4) == 0,
               absl::StrCat("what fits into ", size, " bytes is there"));
      t.Expect(std::all_of(bytes + size, std::end(bytes),
                           [](unsigned char byte) { return byte == kMark; }),
               absl::StrCat("nothing is written beyond ", size, " bytes"));
      if (t.failures() > 0) return;
    }
  }
}

void PropertiesStay(Test& t) {
  std::vector<Props> first;
  for (const uint32_t device : t.devices()) {
    Props props = t.machine().props(device);  // as at the beginning
    props.struct_size = sizeof props;
    first.push_back(props);
  }
  const auto compare = [&](const char* when) {
    for (size_t i = 0; i < first.size(); ++i) {
      const Props now = GetProps(t, t.device(i));
      t.Require(std::memcmp(&now, &first[i], sizeof now) == 0,
                absl::StrCat("the properties of device ", t.device(i),
                             " are as at first after ", when));
    }
  };
  for (int i = 0; i < 20; ++i) compare("no other call");
  for (const uint32_t device : t.devices()) {
    CallEverything(t, device, [&](const char* call) { compare(call); });
  }
  Threads threads;
  for (int i = 0; i < 4; ++i) {
    threads.Start([&] {
      for (int round = 0; round < 10; ++round) compare("a thread was started");
    });
  }
  threads.Join();
}

// ---- Memory

struct Memory {
  uint64_t free = 0, total = 0;
};

Memory GetMemory(Test& t, uint32_t device) {
  Memory memory;
  t.Require(
      t.machine().Call<&Ops::mem_info>(device, &memory.free, &memory.total),
      "mem_info");
  return memory;
}

void MemoryIsPossible(Test& t) {
  for (const uint32_t device : t.devices()) {
    const uint64_t total = t.machine().props(device).total_memory;
    CallEverything(t, device, [&](const char* call) {
      const Memory memory = GetMemory(t, device);
      t.Require(memory.free <= memory.total,
                absl::StrCat("not more is free than there is after ", call,
                             ": ", memory.free, " of ", memory.total));
      t.Require(memory.total == total,
                absl::StrCat("mem_info's total is total_memory: ", memory.total,
                             ", not ", total));
    });
  }
}

// Figures of memory that the test does not use.
class Block {
 public:
  Block(Test& t, uint32_t device, uint64_t size)
      : t_(t), device_(device), size_(size) {
    t.Require(t.machine().Call<&Ops::alloc>(device, size, uint64_t{0}, &ptr_),
              "allocation");
  }
  Block(const Block&) = delete;
  ~Block() {
    t_.Ok(t_.machine().Call<&Ops::dealloc>(device_, ptr_, size_),
          "deallocation");
  }

 private:
  Test& t_;
  const uint32_t device_;
  const uint64_t size_;
  void* ptr_ = nullptr;
};

// The reason for a failure, or "".
std::string HowMemoryFollows(Test& t, uint32_t device, uint64_t size) {
  constexpr int kBlocks = 3;
  std::string why;
  uint64_t last = GetMemory(t, device).free;
  {
    std::list<Block> blocks;
    for (int k = 0; k < kBlocks; ++k) {
      blocks.emplace_back(t, device, size);
      const uint64_t now = GetMemory(t, device).free;
      if (now > last || last - now < size / 2) {
        why = absl::StrCat("an allocation of ", size, " bytes took ",
                           static_cast<int64_t>(last - now));
      }
      last = now;
    }
  }
  const uint64_t after = GetMemory(t, device).free;
  if (after < last + kBlocks * size / 2) {
    why = absl::StrCat("after freeing ", kBlocks * size, " bytes ", after,
                       " are free, ", last, " were before");
  }
  return why;
}

// Other processes may disturb one measurement, but not every one.
void MemoryFollowsAllocations(Test& t) {
  constexpr int kTries = 5;
  for (const uint32_t device : t.devices()) {
    const uint64_t size =
        std::min<uint64_t>(64 << 20, GetMemory(t, device).free / 8);
    if (size == 0) t.Skip("the device has no free memory");
    std::string why = "?";
    for (int i = 0; i < kTries && !why.empty(); ++i) {
      why = HowMemoryFollows(t, device, size);
    }
    t.Expect(why.empty(), absl::StrCat("mem_info follows allocations: ", why));
  }
}

constexpr TestCase kTests[] = {
    {"load.texts_are_terminated", "",
     "The texts of the properties end with NUL; reserved fields are 0.",
     &TextsAreTerminated},
    {"load.properties_are_possible", "C6 C35 C53 C60 C64 C72 C92 C95",
     "Each property has one of the values that it may have.",
     &ValuesArePossible},
    {"load.priority_range", "C22",
     "The priorities are [greatest, least], the smaller number is the more "
     "urgent; without STREAM_PRIORITY they are [0, 0].",
     &PriorityRange},
    {"load.devices_differ", "",
     "A device's uuid is not all zero and no other device's.", &DevicesDiffer},
    {"load.callers_of_every_size", "",
     "device_props fills as much as fits into the caller's struct, and does "
     "not change the rest and struct_size (contract P6).",
     &CallersOfEverySize},
    {"load.properties_stay", "",
     "The properties of a device never change, in no thread.", &PropertiesStay},
    {"load.memory_is_possible", "",
     "The free memory is not more than the total, and the total is "
     "total_memory.",
     &MemoryIsPossible},
    {"load.memory_follows_allocations", "",
     "Allocated memory is not free, and free again once it was given back.",
     &MemoryFollowsAllocations},
};

}  // namespace
}  // namespace load_property_tests

absl::Span<const TestCase> LoadPropertyTests() {
  return load_property_tests::kTests;
}

}  // namespace devrt::cts
