// SPDX-License-Identifier: Apache-2.0
//
// Stream-ordered memory: alloc_async and dealloc_async.
//
// Uses without order are undefined.  Only a simulator has to report them.
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/held_stream.h"
#include "cts/lost_device.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace memory_async_tests {
namespace {

using Ops = devrt_ops_v0;

constexpr uint64_t kSize = 100'000;

Result TryAlloc(Test& t, const RawStream& s, uint64_t size, void** ptr,
                uint64_t alignment = 0) {
  return t.machine().Call<&Ops::alloc_async>(s.handle(), size, alignment, ptr);
}
uint8_t* Alloc(Test& t, const RawStream& s, uint64_t size,
               uint64_t alignment = 0) {
  void* ptr = nullptr;
  t.Require(TryAlloc(t, s, size, &ptr, alignment), "alloc_async");
  t.Require(ptr != nullptr, "stream-ordered memory is not NULL");
  return static_cast<uint8_t*>(ptr);
}
Result TryDealloc(Test& t, const RawStream& s, void* ptr, uint64_t size) {
  return t.machine().Call<&Ops::dealloc_async>(s.handle(), ptr, size);
}
void Dealloc(Test& t, const RawStream& s, void* ptr, uint64_t size) {
  t.Ok(TryDealloc(t, s, ptr, size), "dealloc_async");
}
uint64_t FreeBytes(Test& t, uint32_t device) {
  uint64_t free = 0, total = 0;
  t.Require(t.machine().Call<&Ops::mem_info>(device, &free, &total),
            "mem_info");
  return free;
}

// All calls return while the stream is held, and take effect in the order of
// the stream: each block keeps its bytes until its own free.
void LivesInItsStream(Test& t) {
  for (const uint32_t device : t.devices()) {
    const HostBlock one(t, device, kSize), two(t, device, kSize);
    const RawStream s(t, device);
    {
      HeldStream held(t, s);
      uint8_t* const first = Alloc(t, s, kSize);
      s.Fill(first, 1, kSize);
      s.Copy(one.ptr(), first, kSize, DEVRT_COPY_D2H);
      Dealloc(t, s, first, kSize);
      uint8_t* const second = Alloc(t, s, kSize);
      s.Fill(second, 2, kSize);
      s.Copy(two.ptr(), second, kSize, DEVRT_COPY_D2H);
      Dealloc(t, s, second, kSize);
      held.StillHolds("neither an allocation nor a free waits for its stream");
    }
    s.Sync();
    t.Expect(one.Holds(1), "a block keeps its bytes until the stream frees it");
    t.Expect(two.Holds(2), "so does the next one");
  }
}

// An event, or a host wait for the allocation, orders uses on other streams
// after the allocation.
void OthersByOrder(Test& t) {
  const HostBlock host(t, t.device(), kSize);
  const RawStream a(t, t.device()), b(t, t.device());
  const RawEvent made(t, t.device()), used(t, t.device());
  uint8_t* ptr = nullptr;
  {
    HeldStream held(t, a);
    ptr = Alloc(t, a, kSize);
    made.Record(a);
    b.Wait(made);
    b.Fill(ptr, 3, kSize);
    held.Blocks(b, "a stream that waits for an allocation");
    b.Copy(host.ptr(), ptr, kSize, DEVRT_COPY_D2H);
    used.Record(b);
    a.Wait(used);
    Dealloc(t, a, ptr, kSize);
  }
  a.Sync();
  t.Expect(host.Holds(3), "another stream uses the block behind an event");
  ptr = Alloc(t, a, kSize);
  a.Sync();
  b.Fill(ptr, 4, kSize);
  b.Copy(host.ptr(), ptr, kSize, DEVRT_COPY_D2H);
  b.Sync();
  // The free may be on another stream.
  Dealloc(t, b, ptr, kSize);
  b.Sync();
  t.Expect(host.Holds(4), "another stream uses it behind a synchronisation");
}

void DefaultStreams(Test& t) {
  const HostBlock host(t, t.device(), kSize);
  for (const uint32_t kind : {DEVRT_STREAM_LEGACY, DEVRT_STREAM_PER_THREAD}) {
    const RawStream s = RawStream::Default(t, t.device(), kind);
    uint8_t* const ptr = Alloc(t, s, kSize);
    s.Fill(ptr, static_cast<uint8_t>(kind + 1), kSize);
    s.Copy(host.ptr(), ptr, kSize, DEVRT_COPY_D2H);
    Dealloc(t, s, ptr, kSize);
    s.Sync();
    t.Expect(host.Holds(static_cast<uint8_t>(kind + 1)),
             "a default stream allocates, uses and frees");
  }
}

void AlignmentIsKept(Test& t) {
  const RawStream s(t, t.device());
  const uint64_t own = t.machine().props(t.device()).alloc_alignment;
  for (const uint64_t alignment :
       {uint64_t{0}, uint64_t{1}, uint64_t{4096}, uint64_t{1} << 20}) {
    std::vector<uint8_t*> blocks;
    for (int i = 0; i < 3; ++i) {
      uint8_t* const ptr = Alloc(t, s, 700, alignment);
      const auto address = reinterpret_cast<uintptr_t>(ptr);
      t.Equal(address % own, uint64_t{0}, "alignment to alloc_alignment");
      if (alignment != 0) {
        t.Equal(address % alignment, uint64_t{0},
                absl::StrCat("alignment to ", alignment));
      }
      s.Fill(ptr, 1, 700);
      blocks.push_back(ptr);
    }
    for (uint8_t* const ptr : blocks) Dealloc(t, s, ptr, 700);
  }
  s.Sync();
}

// Allocates far more than the memory of the device, on one stream and without a
// host wait: the stream can use the memory that it has freed.
void AStreamReusesWhatItFreed(Test& t) {
  const uint64_t size = FreeBytes(t, t.device()) / 8 * 5;
  const RawStream s(t, t.device());
  HeldStream held(t, s);
  for (int i = 0; i < 5; ++i) {
    uint8_t* const ptr = Alloc(t, s, size);
    s.Fill(ptr, 1, 1000);
    Dealloc(t, s, ptr, size);
  }
  held.StillHolds("none of these calls waits for the stream");
}

void FreedMemoryComesBack(Test& t) {
  const uint64_t before = FreeBytes(t, t.device());
  const uint64_t size = before / 4;
  for (int i = 0; i < 40; ++i) {
    const RawStream s(t, t.device());
    uint8_t* const ptr = Alloc(t, s, size);
    s.Fill(ptr, 1, 1000);
    Dealloc(t, s, ptr, size);
    s.Sync();
  }
  // Pools may keep some of the memory.
  if (t.machine().simulator().has_value()) {
    t.Equal(FreeBytes(t, t.device()), before, "free memory afterwards");
  }
  void* raw = nullptr;
  t.Require(
      t.machine().Call<&Ops::alloc>(t.device(), size * 3, uint64_t{0}, &raw),
      "a raw allocation of three quarters of the memory");
  t.Ok(t.machine().Call<&Ops::dealloc>(t.device(), raw, size * 3), "its free");
}

void OutOfMemoryIsLocal(Test& t) {
  const RawStream s(t, t.device());
  const uint64_t total = t.machine().props(t.device()).total_memory;
  const uint64_t before = FreeBytes(t, t.device());
  int mark = 0;
  {
    HeldStream held(t, s);
    uint8_t* const pending = Alloc(t, s, kSize);
    Dealloc(t, s, pending, kSize);
    const uint64_t with = FreeBytes(t, t.device());
    for (const uint64_t size : {total, total + 1, total * 2, uint64_t{1} << 50,
                                (uint64_t{1} << 60) - 1}) {
      void* ptr = &mark;
      t.Code(TryAlloc(t, s, size, &ptr), DEVRT_RESOURCE_EXHAUSTED,
             absl::StrCat("a stream-ordered allocation of ", size, " bytes"));
      t.Expect(ptr == &mark, "a failed call leaves its out-parameter alone");
    }
    if (t.machine().simulator().has_value()) {
      t.Equal(FreeBytes(t, t.device()), with, "free memory after refusals");
    }
  }
  s.Sync();
  if (t.machine().simulator().has_value()) {
    t.Equal(FreeBytes(t, t.device()), before, "free memory at the end");
  }
  const HostBlock host(t, t.device(), kSize);
  uint8_t* const smaller = Alloc(t, s, kSize);
  s.Fill(smaller, 6, kSize);
  s.Copy(host.ptr(), smaller, kSize, DEVRT_COPY_D2H);
  Dealloc(t, s, smaller, kSize);
  s.Sync();
  t.Expect(host.Holds(6), "a smaller request succeeds next, and works");
}

void WrongFrees(Test& t) {
  const RawStream s(t, t.device());
  uint8_t* const ptr = Alloc(t, s, kSize);
  int stack = 0;
  t.Code(TryDealloc(t, s, ptr + 256, kSize), DEVRT_INVALID_ARGUMENT,
         "a stream-ordered free of an interior pointer");
  t.Code(TryDealloc(t, s, &stack, 4), DEVRT_INVALID_ARGUMENT,
         "a stream-ordered free of the stack");
  if (t.devices().size() > 1) {
    const RawStream other(t, t.device(1));
    t.Code(TryDealloc(t, other, ptr, kSize), DEVRT_INVALID_ARGUMENT,
           "a stream-ordered free on a stream of another device");
  }
  s.Fill(ptr, 1, kSize);
  Dealloc(t, s, ptr, kSize);
  s.Sync();
}

// C63: the raw free accepts the block, after its uses are complete.
void RawFreeTakesIt(Test& t) {
  const RawStream s(t, t.device());
  for (int i = 0; i < 20; ++i) {
    const uint64_t size = FreeBytes(t, t.device()) / 4;
    uint8_t* const ptr = Alloc(t, s, size);
    s.Fill(ptr, 1, 1000);
    s.Sync();
    t.Ok(t.machine().Call<&Ops::dealloc>(t.device(), static_cast<void*>(ptr),
                                         size),
         "a raw free of stream-ordered memory");
  }
}

void IsPointedAt(Test& t) {
  const RawStream s(t, t.device());
  uint8_t* const ptr = Alloc(t, s, kSize);
  for (const uint64_t offset : {uint64_t{0}, kSize - 1}) {
    devrt_pointer_info_v0 info{};
    info.struct_size = sizeof info;
    t.Require(t.machine().Call<&Ops::pointer_info>(ptr + offset, &info),
              "pointer_info");
    t.Equal(info.kind, DEVRT_POINTER_DEVICE, "the kind of a pool's memory");
    t.Equal(info.device, static_cast<int32_t>(t.device()), "its device");
    t.Expect(info.base == ptr, "its base is what alloc_async gave");
    t.Expect(info.size >= kSize, "its size is at least what was asked for");
  }
  Dealloc(t, s, ptr, kSize);
  s.Sync();
}

// peer_enable covers existing and later blocks.
void PeersReachIt(Test& t) {
  Machine& m = t.machine();
  const uint32_t owner = t.device(0), peer = t.device(1);
  if (!CanAccess(t, peer, owner)) {
    t.Skip("the first two devices cannot access each other");
  }
  const HostBlock host(t, owner, kSize);
  const RawStream own(t, owner), other(t, peer);
  uint8_t* const before = Alloc(t, own, kSize);
  t.Require(m.Call<&Ops::peer_enable>(peer, owner), "peer_enable");
  uint8_t* const after = Alloc(t, own, kSize);
  own.Sync();
  for (uint8_t* const ptr : {before, after}) {
    other.Fill(ptr, 8, kSize);
    other.Sync();
    own.Copy(host.ptr(), ptr, kSize, DEVRT_COPY_D2H);
    own.Sync();
    t.Expect(host.Holds(8), "a peer with access fills stream-ordered memory");
    Dealloc(t, own, ptr, kSize);
  }
  own.Sync();
  t.Ok(m.Call<&Ops::peer_disable>(peer, owner), "peer_disable");
}

// ---- Uses without order: for simulators

Result TryFill(Test& t, const RawStream& s, void* ptr) {
  return t.machine().Call<&Ops::fill_async>(s.handle(), ptr, 1u, kSize);
}

// The call that submits the use reports it, or the device does.
void ExpectFound(Test& t, const Result& submitted, const RawStream& s,
                 const char* what) {
  t.Expect(!submitted.ok() || !SyncOf(t, s).ok(),
           absl::StrCat(what, " is an error"));
}

void UseBeforeTheAllocation(Test& t) {
  RawStream& a = NeverDestroyed<RawStream>(t, t.device());
  RawStream& b = NeverDestroyed<RawStream>(t, t.device());
  HoldForEver(t, a);
  uint8_t* const ptr = Alloc(t, a, kSize);
  ExpectFound(t, TryFill(t, b, ptr), b,
              "a use on a stream that no event orders behind the allocation");
}

void UseAfterTheFree(Test& t) {
  RawStream& a = NeverDestroyed<RawStream>(t, t.device());
  RawStream& b = NeverDestroyed<RawStream>(t, t.device());
  uint8_t* const ptr = Alloc(t, a, kSize);
  a.Sync();
  HoldForEver(t, a);
  Dealloc(t, a, ptr, kSize);
  ExpectFound(t, TryFill(t, b, ptr), b,
              "a use that is submitted after the free, on another stream");
}

void AFreeThatOvertakesAUse(Test& t) {
  RawStream& a = NeverDestroyed<RawStream>(t, t.device());
  RawStream& b = NeverDestroyed<RawStream>(t, t.device());
  uint8_t* const ptr = Alloc(t, a, kSize);
  a.Sync();
  Gate& gate = NeverDestroyed<Gate>(t);
  gate.Hold(b);
  t.Require(TryFill(t, b, ptr), "a fill");
  Dealloc(t, a, ptr, kSize);
  a.Sync();
  gate.Open();
  ExpectFound(t, Result{}, b, "a use that no event orders before the free");
}

constexpr uint64_t kNeeded = DEVRT_CAP_ASYNC_ALLOC;

constexpr TestCase kTests[] = {
    {"memory.async_lives_in_its_stream", "C65",
     "alloc_async returns the address at once; the stream may use the block "
     "until its free, and neither call waits.",
     &LivesInItsStream, kNeeded, kNeedsGate},
    {"memory.async_others_by_order", "C65",
     "Other streams use it behind an event or a synchronisation.",
     &OthersByOrder, kNeeded, kNeedsGate},
    {"memory.async_default_streams", "C65",
     "The default streams allocate and free as others do.", &DefaultStreams,
     kNeeded},
    {"memory.async_alignment_is_kept", "",
     "Stream-ordered memory is aligned to alloc_alignment and to the requested "
     "alignment (contract P10).",
     &AlignmentIsKept, kNeeded},
    {"memory.async_stream_reuses_what_it_freed", "C67",
     "A stream may get the memory that it has freed again, without a wait.",
     &AStreamReusesWhatItFreed, kNeeded, kNeedsGate},
    {"memory.async_freed_memory_comes_back", "C65",
     "Freed memory can be allocated again, on any stream and raw.",
     &FreedMemoryComesBack, kNeeded},
    {"memory.async_out_of_memory_is_local", "C62",
     "A request for which there is no room is RESOURCE_EXHAUSTED and changes "
     "nothing.",
     &OutOfMemoryIsLocal, kNeeded, kNeedsGate},
    {"memory.async_wrong_frees", "C63",
     "Pointers that are not the beginning of a block of the stream's device "
     "are refused, and change nothing.",
     &WrongFrees, kNeeded},
    {"memory.async_raw_free_takes_it", "C63",
     "dealloc accepts stream-ordered memory after its uses are complete.",
     &RawFreeTakesIt, kNeeded},
    {"memory.async_is_pointed_at", "C71",
     "pointer_info names the device and the block of stream-ordered memory.",
     &IsPointedAt, kNeeded | DEVRT_CAP_POINTER_INFO},
    {"memory.async_peers_reach_it", "C77",
     "peer_enable covers stream-ordered memory, present and future.",
     &PeersReachIt, kNeeded | DEVRT_CAP_PEER_ACCESS, kTwoDevices},
    {"memory.async_use_before_allocation_is_found", "C65",
     "A simulator finds a use on a second stream without a wait.",
     &UseBeforeTheAllocation, kNeeded, kNeedsSim | kNeedsProbe | kOwnProcess},
    {"memory.async_use_after_free_is_found", "C66",
     "A simulator finds a use that is submitted after the free.",
     &UseAfterTheFree, kNeeded, kNeedsSim | kNeedsProbe | kOwnProcess},
    {"memory.async_early_free_is_found", "C66",
     "A simulator finds a use that runs after the free.",
     &AFreeThatOvertakesAUse, kNeeded, kNeedsSim | kNeedsProbe | kOwnProcess},
};

}  // namespace
}  // namespace memory_async_tests

absl::Span<const TestCase> AsyncMemoryTests() {
  return memory_async_tests::kTests;
}

}  // namespace devrt::cts
