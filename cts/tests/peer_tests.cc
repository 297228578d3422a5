// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/core_objects.h"
#include "cts/lost.h"
#include "cts/objects.h"
#include "devrt/backends/abi/devrt_tensor.h"

namespace devrt::cts {
namespace {

using Ops = devrt_ops_v0;

bool CanAccess(Test& t, uint32_t device, uint32_t peer) {
  uint32_t can = 2;
  t.Require(t.machine().Call<&Ops::peer_can_access>(device, peer, &can),
            "peer_can_access");
  t.Require(can < 2, "peer_can_access answers 0 or 1");
  return can != 0;
}

Result Enable(Test& t, uint32_t device, uint32_t peer) {
  return t.machine().Call<&Ops::peer_enable>(device, peer);
}
Result Disable(Test& t, uint32_t device, uint32_t peer) {
  return t.machine().Call<&Ops::peer_disable>(device, peer);
}

// Two devices of which each can access the other.
std::pair<uint32_t, uint32_t> Peers(Test& t) {
  for (const uint32_t a : t.devices()) {
    for (const uint32_t b : t.devices()) {
      if (a != b && CanAccess(t, a, b) && CanAccess(t, b, a)) return {a, b};
    }
  }
  t.Skip("no two devices can access each other");
}

void Self(Test& t) {
  for (size_t i = 0; i < t.devices().size(); ++i) {
    const Device d = t.cpp_device(i);
    t.Expect(!t.Require(CanAccessPeer(d, d), "CanAccessPeer"),
             "a device is not its own peer");
    t.Code(EnablePeerAccess(d, d), DEVRT_FAILED_PRECONDITION,
           "access of a device to itself");
    t.Code(DisablePeerAccess(d, d), DEVRT_FAILED_PRECONDITION,
           "the end of access of a device to itself");
  }
}

void OneDirection(Test& t) {
  const auto [a, b] = Peers(t);
  t.Require(Enable(t, a, b), "enable a to b");
  t.Code(Disable(t, b, a), DEVRT_FAILED_PRECONDITION,
         "disable b to a while only a to b is enabled");
  t.Ok(Enable(t, b, a), "enable b to a");
  t.Ok(Disable(t, a, b), "disable a to b");
  t.Code(Enable(t, b, a), DEVRT_ALREADY_EXISTS,
         "b to a is still enabled when a to b is not");
  t.Ok(Disable(t, b, a), "disable b to a");
}

void StateErrors(Test& t) {
  const auto [a, b] = Peers(t);
  t.Code(Disable(t, a, b), DEVRT_FAILED_PRECONDITION, "disable when off");
  t.Require(Enable(t, a, b), "enable");
  t.Code(Enable(t, a, b), DEVRT_ALREADY_EXISTS, "enable twice");
  t.Ok(Disable(t, a, b), "one disable is enough");
  t.Code(Disable(t, a, b), DEVRT_FAILED_PRECONDITION, "disable twice");
  t.Ok(Enable(t, a, b), "enable again");
  t.Ok(Disable(t, a, b), "disable again");
}

void StateErrorsThroughCore(Test& t) {
  const auto [x, y] = Peers(t);
  const Device a = t.machine().backend().devices()[x];
  const Device b = t.machine().backend().devices()[y];
  t.Expect(t.Require(CanAccessPeer(a, b), "CanAccessPeer"), "a reaches b");
  t.Code(DisablePeerAccess(a, b), DEVRT_FAILED_PRECONDITION,
         "disable when off");
  t.Ok(EnablePeerAccess(a, b), "enable");
  t.Code(EnablePeerAccess(a, b), DEVRT_ALREADY_EXISTS, "enable twice");
  t.Code(DisablePeerAccess(b, a), DEVRT_FAILED_PRECONDITION,
         "disable of the other direction");
  t.Ok(DisablePeerAccess(a, b), "disable");
  t.Code(DisablePeerAccess(a, b), DEVRT_FAILED_PRECONDITION, "disable twice");
  // Enabled behind devrt's back: a success, which a disable does not undo.
  t.Require(Enable(t, x, y), "native enable");
  t.Ok(EnablePeerAccess(a, b), "enable what another library has enabled");
  t.Code(EnablePeerAccess(a, b), DEVRT_ALREADY_EXISTS, "enable twice");
  t.Ok(DisablePeerAccess(a, b), "disable");
  t.Code(Enable(t, x, y), DEVRT_ALREADY_EXISTS,
         "the other library's access is still there");
  t.Ok(Disable(t, x, y), "native disable");
}

void ImpossiblePair(Test& t) {
  if (!t.machine().simulator().has_value()) t.Skip("no simulator");
  t.Require(t.machine().Reset("peers=0-1"), "reset of the simulator");
  const std::vector<Device> devices = t.machine().backend().devices();
  t.Expect(t.Require(CanAccessPeer(devices[0], devices[1]), "CanAccessPeer"),
           "0 reaches 1");
  t.Expect(!t.Require(CanAccessPeer(devices[1], devices[0]), "CanAccessPeer"),
           "1 does not reach 0");
  t.Code(EnablePeerAccess(devices[1], devices[0]), DEVRT_FAILED_PRECONDITION,
         "access of a device to one that it does not reach", devices[1].name());
  t.Ok(EnablePeerAccess(devices[0], devices[1]), "the other direction");
  t.Ok(DisablePeerAccess(devices[0], devices[1]), "the other direction");
  t.Require(t.machine().Reset(""), "reset of the simulator");
}

void Extent(Test& t) {
  const auto [a, b] = Peers(t);
  const DeviceBlock before(t, b, 3000);
  t.Require(Enable(t, a, b), "enable");
  {
    const DeviceBlock after(t, b, 3000);
    const RawStream s(t, a);
    s.Fill(before.ptr(), 1, 3000);
    s.Fill(after.ptr(), 2, 3000);
    s.Sync();
    t.Expect(before.Holds(1), "memory of before the enable can be written");
    t.Expect(after.Holds(2), "memory of after the enable can be written");
  }
  t.Ok(Disable(t, a, b), "disable");
}

// ---- Copies

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

void CopiesMoveWithAccess(Test& t) {
  const auto [a, b] = Peers(t);
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
               "who waits for the copy sees what was written before it");
    }
  });
}

// The order that must be made by waits on both sides (gpu4pyscf#794).
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

// ---- Access without permission

// A kernel of `a` that writes memory of `b`.
Result WriteFrom(Test& t, uint32_t a, const DeviceBlock& of_b) {
  const auto found = t.machine().backend().GetExtension(
      DEVRT_ELEMENTWISE_EXTENSION, sizeof(devrt_elementwise_v0));
  if (!found.ok()) t.Unsupported("there is no devrt.elementwise/0");
  const auto* const table =
      static_cast<const devrt_elementwise_v0*>(found->table);
  if (t.machine().props(a).fault_delivery == DEVRT_FAULT_DELIVERY_ABORT) {
    t.MayDie();
  }
  const int64_t shape = 100;
  const devrt_tensor_v0 out = {of_b.ptr(), &shape, nullptr, 1, DEVRT_UINT8};
  const uint8_t value = 5;
  const RawStream& s = Lost<RawStream>(t, a);
  const Result enqueued = t.machine().CallExtension(
      &devrt_elementwise_v0::fill, table, found->self, s.handle(), &out,
      static_cast<const void*>(&value));
  return enqueued.ok() ? SyncOf(t, s) : enqueued;
}

void ExpectRefused(Test& t, uint32_t a, uint32_t b, const char* when) {
  const DeviceBlock& block = Lost<DeviceBlock>(t, b, uint64_t{100});
  t.Code(WriteFrom(t, a, block), DEVRT_INTERNAL,
         absl::StrCat("a kernel that writes a peer's memory ", when));
  t.Code(t.machine().Call<&Ops::device_sync>(a), DEVRT_INTERNAL,
         "the fault is sticky on the accessing device");
  if (!FaultsStayWithTheirDevice(t)) return;
  ExpectWorks(t, b, "the device that was to be written to is healthy");
  t.Expect(Reader(t, b, 100).Holds(block.ptr(), 0), "nothing was written");
}

void WriteWithAccess(Test& t) {
  const auto [a, b] = Peers(t);
  t.Require(Enable(t, a, b), "enable");
  const DeviceBlock& block = Lost<DeviceBlock>(t, b, uint64_t{100});
  t.Ok(WriteFrom(t, a, block), "a kernel that may write a peer's memory");
  t.Expect(block.Holds(5), "it has written");
}

void WriteWithout(Test& t) {
  const auto [a, b] = Peers(t);
  ExpectRefused(t, a, b, "without permission");
}

void WriteTheWrongWay(Test& t) {
  const auto [a, b] = Peers(t);
  t.Require(Enable(t, b, a), "enable b to a");
  ExpectRefused(t, a, b, "with permission for the other direction");
}

void WriteAfterwards(Test& t) {
  const auto [a, b] = Peers(t);
  t.Require(Enable(t, a, b), "enable");
  t.Require(Disable(t, a, b), "disable");
  ExpectRefused(t, a, b, "when the permission has ended");
}

constexpr uint64_t kAccess = DEVRT_CAP_PEER_ACCESS;
constexpr uint64_t kCopy = DEVRT_CAP_PEER_COPY;
constexpr uint32_t kFaults = kTwoDevices | kOwnProcess;

constexpr TestCase kTests[] = {
    {"peer.self", "C74", "A device cannot access itself as a peer.", &Self},
    {"peer.one_direction", "C75",
     "Enabling a to b does not enable b to a, nor does disabling it.",
     &OneDirection, kAccess, kTwoDevices},
    {"peer.state_errors", "C76",
     "Enabling twice is ALREADY_EXISTS, disabling when off "
     "FAILED_PRECONDITION.",
     &StateErrors, kAccess, kTwoDevices},
    {"peer.state_errors_through_the_core", "C76",
     "Errors of state are judged on devrt's own record; what another library "
     "enabled counts as a success and is not undone.",
     &StateErrorsThroughCore, kAccess, kTwoDevices},
    {"peer.impossible_pair", "C76",
     "Enabling an impossible pair is FAILED_PRECONDITION.", &ImpossiblePair,
     kAccess, kTwoDevices},
    {"peer.extent", "C77 C47",
     "Peer access covers existing and future allocations; fills may use it.",
     &Extent, kAccess, kTwoDevices},
    {"peer.copies_without_access", "C58 C57",
     "A peer copy without peer access has the same result, on a stream of "
     "either device.",
     &CopiesMove, kCopy, kTwoDevices},
    {"peer.copies_with_access", "C58 C77",
     "A peer copy has the same result with access, and after its end.",
     &CopiesMoveWithAccess, kCopy | kAccess, kTwoDevices},
    {"peer.copies_are_stream_ordered", "C57 C32",
     "A peer copy is ordered in its stream; a consumer on the destination's "
     "stream that waits for it sees the data.",
     &CopiesAreOrdered, kCopy, kTwoDevices | kNeedsGate},
    {"peer.copies_order_no_other_stream", "C57",
     "A peer copy is unordered with streams of the destination that do not "
     "wait for it.",
     &WithoutJoin, kCopy, kTwoDevices},
    {"peer.copies_through_the_core", "C57 C58",
     "Copies between devices are inferred, with or without PEER_COPY.",
     &CopiesThroughCore, 0, kTwoDevices},
    {"peer.kernel_with_permission", "C77 C78",
     "A kernel may write a peer's memory once it is permitted.",
     &WriteWithAccess, kAccess, kFaults},
    {"peer.kernel_without_permission_faults", "C78",
     "Access without permission is a sticky fault on the accessing device.",
     &WriteWithout, kAccess, kFaults},
    {"peer.kernel_the_wrong_way_faults", "C75 C78",
     "Permission for one direction is none for the other.", &WriteTheWrongWay,
     kAccess, kFaults},
    {"peer.kernel_after_permission_faults", "C78 C76",
     "When permission has ended, access faults.", &WriteAfterwards, kAccess,
     kFaults},
};

}  // namespace

absl::Span<const TestCase> PeerTests() { return kTests; }

}  // namespace devrt::cts
