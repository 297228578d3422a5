// SPDX-License-Identifier: Apache-2.0
//
// Copies between devices.
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/core_objects.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace copy_peer_tests {
namespace {

using Ops = devrt_ops_v0;

Result PeerCopy(Test& t, const RawStream& s, const DeviceBlock& to,
                uint64_t to_offset, const DeviceBlock& from,
                uint64_t from_offset, uint64_t size) {
  return t.machine().Call<&Ops::copy_peer_async>(
      s.handle(), static_cast<void*>(to.ptr() + to_offset), to.device(),
      static_cast<const void*>(from.ptr() + from_offset), from.device(), size);
}

void CopySome(Test& t, uint32_t from, uint32_t to, uint32_t by,
              const std::string& how) {
  const uint64_t room = 70'000;
  const DeviceBlock x(t, from, room), y(t, to, room);
  const std::vector<uint8_t> bytes = Pattern(room, from + 3 * to);
  x.Write(bytes);
  const RawStream s(t, by), owner(t, to);
  for (const uint64_t size : {1, 3, 512, 4097, 65'536}) {
    owner.Fill(y.ptr(), 0xee, room);
    owner.Sync();
    t.Require(PeerCopy(t, s, y, 7, x, 5, size), "peer copy");
    s.Sync();
    std::vector<uint8_t> want(room, 0xee);
    std::memcpy(want.data() + 7, bytes.data() + 5, size);
    t.Expect(y.Read() == want,
             absl::StrCat("a peer copy of ", size, " bytes from ", from, " to ",
                          to, " on a stream of ", by, ", ", how,
                          ", moves these bytes and no others"));
  }
  t.Expect(x.Read() == bytes, "the source stays as it is");
}

void CopyBothWays(Test& t, const std::string& how) {
  for (const uint32_t from : {t.device(0), t.device(1)}) {
    const uint32_t to = from == t.device(0) ? t.device(1) : t.device(0);
    CopySome(t, from, to, from, how);
    CopySome(t, from, to, to, how);
  }
}

void CopiesMove(Test& t) { CopyBothWays(t, "without peer access"); }

Result Enable(Test& t, uint32_t device, uint32_t peer) {
  return t.machine().Call<&Ops::peer_enable>(device, peer);
}
Result Disable(Test& t, uint32_t device, uint32_t peer) {
  return t.machine().Call<&Ops::peer_disable>(device, peer);
}

void CopiesMoveWithAccess(Test& t) {
  const uint32_t a = t.device(0), b = t.device(1);
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    if (!CanAccess(t, from, to)) {
      t.Skip("the first two devices cannot access each other");
    }
  }
  t.Require(Enable(t, a, b), "enable");
  CopyBothWays(t, "with access of one to the other");
  t.Ok(Enable(t, b, a), "enable");
  CopyBothWays(t, "with access both ways");
  t.Ok(Disable(t, a, b), "disable");
  t.Ok(Disable(t, b, a), "disable");
  CopyBothWays(t, "after the access has ended");
}

void CopiesAreOrdered(Test& t) {
  t.InEverySchedule([&] {
    for (const size_t by : {0, 1}) {
      const DeviceBlock x(t, t.device(0), 5000), y(t, t.device(1), 5000);
      const DeviceBlock z(t, t.device(1), 5000);
      const Reader reader(t, t.device(1), 5000);
      const RawStream writer(t, t.device(0)), s(t, t.device(by));
      const RawStream consumer(t, t.device(1));
      const RawEvent written(t, t.device(0)), copied(t, t.device(by));
      writer.Fill(x.ptr(), 3, 5000);
      writer.Sync();
      Gate gate(t);
      gate.Hold(writer);
      writer.Fill(x.ptr(), 6, 5000);
      written.Record(writer);
      s.Wait(written);
      t.Require(PeerCopy(t, s, y, 0, x, 0, 5000), "peer copy");
      copied.Record(s);
      consumer.Wait(copied);
      consumer.Copy(z.ptr(), y.ptr(), 5000, DEVRT_COPY_D2D);
      t.Settle();
      t.Expect(!s.Query() && !copied.Query() && !consumer.Query(),
               "a peer copy behind a held stream is not complete, nor is what "
               "waits for it");
      t.Expect(reader.Holds(y.ptr(), 0), "it has not happened");
      gate.Open();
      consumer.Sync();
      t.Expect(z.Holds(6),
               "a stream that waits for the copy sees data that was written "
               "before the copy");
    }
  });
}

// The copy is ordered only by waits on both sides (gpu4pyscf#794).
void WithoutJoin(Test& t) {
  t.Reaches({"old", "new"}, [&]() -> std::string {
    const DeviceBlock x(t, t.device(0), 64), y(t, t.device(1), 64);
    const DeviceBlock z(t, t.device(1), 64);
    const RawStream s(t, t.device(0)), consumer(t, t.device(1));
    s.Fill(x.ptr(), 1, 64);
    t.Require(PeerCopy(t, s, y, 0, x, 0, 64), "peer copy");
    consumer.Copy(z.ptr(), y.ptr(), 64, DEVRT_COPY_D2D);
    consumer.Sync();
    s.Sync();
    if (z.Holds(1)) return "new";
    return z.Holds(0) ? "old" : "a mixture";
  });
}

void CopiesThroughCore(Test& t) {
  const Device a = t.cpp_device(0), b = t.cpp_device(1);
  const CoreBlock x(t, a, 9000), y(t, b, 9000), z(t, a, 9000);
  const std::vector<uint8_t> bytes = Pattern(9000, 17);
  x.Write(bytes);
  for (const Device by : {a, b}) {
    const Stream s = t.Require(Stream::Create(by), "Stream::Create");
    y.Write(std::vector<uint8_t>(9000, 0));
    t.Ok(CopyAsync(s, y.ptr(), x.ptr(), 9000), "copy between two devices");
    t.Ok(Copy(s, z.ptr(), y.ptr(), 9000, CopyKind::kDeviceToDevice),
         "copy back");
    t.Ok(s.Synchronize(), "Synchronize");
    t.Expect(y.Read() == bytes, "the other device has the bytes");
    t.Expect(z.Read() == bytes, "they come back");
  }
}

constexpr uint64_t kCopy = DEVRT_CAP_PEER_COPY;

constexpr TestCase kTests[] = {
    {"copy.peer_without_access", "C58 C57",
     "A peer copy without peer access has the result of one with access, on a "
     "stream of either device.",
     &CopiesMove, kCopy, kTwoDevices},
    {"copy.peer_with_access", "C58 C77",
     "Access changes no result of a peer copy, nor does the end of access.",
     &CopiesMoveWithAccess, kCopy | DEVRT_CAP_PEER_ACCESS, kTwoDevices},
    {"copy.peer_is_stream_ordered", "C57 C32",
     "A peer copy is ordered in its stream; a consumer on the destination's "
     "stream that waits for it sees the data.",
     &CopiesAreOrdered, kCopy, kTwoDevices | kNeedsGate},
    {"copy.peer_orders_no_other_stream", "C57",
     "A peer copy is unordered with streams of the destination that do not "
     "wait for it.",
     &WithoutJoin, kCopy, kTwoDevices},
    {"copy.peer_through_the_core", "C57 C58",
     "Copies between devices are inferred, with or without PEER_COPY.",
     &CopiesThroughCore, 0, kTwoDevices},
};

}  // namespace
}  // namespace copy_peer_tests

absl::Span<const TestCase> PeerCopyTests() { return copy_peer_tests::kTests; }

}  // namespace devrt::cts
