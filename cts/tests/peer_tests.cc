// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/core_objects.h"
#include "cts/lost_device.h"
#include "cts/objects.h"
#include "devrt/backends/abi/devrt_tensor.h"

namespace devrt::cts {
namespace peer_tests {
namespace {

using Ops = devrt_ops_v0;

Result Enable(Test& t, uint32_t device, uint32_t peer) {
  return t.machine().Call<&Ops::peer_enable>(device, peer);
}
Result Disable(Test& t, uint32_t device, uint32_t peer) {
  return t.machine().Call<&Ops::peer_disable>(device, peer);
}

// Two devices that can access each other.
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
  // Access that was enabled without devrt: a success, and a disable does not
  // undo it.
  t.Require(Enable(t, x, y), "native enable");
  t.Ok(EnablePeerAccess(a, b), "enable what another library has enabled");
  t.Code(EnablePeerAccess(a, b), DEVRT_ALREADY_EXISTS, "enable twice");
  t.Ok(DisablePeerAccess(a, b), "disable");
  t.Code(Enable(t, x, y), DEVRT_ALREADY_EXISTS,
         "the other library's access is still there");
  t.Ok(Disable(t, x, y), "native disable");
}

void ImpossiblePairOfThisMachine(Test& t) {
  const std::vector<Device> devices = t.machine().backend().devices();
  for (const uint32_t a : t.devices()) {
    for (const uint32_t b : t.devices()) {
      if (a == b || CanAccess(t, a, b)) continue;
      t.Code(EnablePeerAccess(devices[a], devices[b]),
             DEVRT_FAILED_PRECONDITION,
             "access of a device to one that it does not reach");
      t.Expect(!Enable(t, a, b).ok(), "nor does the backend allow it");
      return;
    }
  }
  t.Skip("every device can access every other");
}

void ImpossiblePair(Test& t) {
  if (!t.machine().simulator().has_value()) {
    ImpossiblePairOfThisMachine(t);
    return;
  }
  t.Require(t.machine().Reset("peers=0-1"), "reset of the simulator");
  const std::vector<Device> devices = t.machine().backend().devices();
  t.Expect(t.Require(CanAccessPeer(devices[0], devices[1]), "CanAccessPeer"),
           "0 reaches 1");
  t.Expect(!t.Require(CanAccessPeer(devices[1], devices[0]), "CanAccessPeer"),
           "1 does not reach 0");
  t.Code(EnablePeerAccess(devices[1], devices[0]), DEVRT_FAILED_PRECONDITION,
         "access of a device to one that it does not reach", devices[1].name());
  t.Expect(!Enable(t, 1, 0).ok(), "nor does the backend allow it");
  t.Ok(EnablePeerAccess(devices[0], devices[1]), "the other direction");
  t.Ok(DisablePeerAccess(devices[0], devices[1]), "the other direction");
  t.Require(t.machine().Reset(""), "reset of the simulator");
}

// With any topology.
void OnlyPossiblePairs(Test& t) {
  for (const uint32_t a : t.devices()) {
    for (const uint32_t b : t.devices()) {
      if (a == b) continue;
      const bool can = CanAccess(t, a, b);
      const Result enabled = Enable(t, a, b);
      t.Expect(enabled.ok() == can,
               absl::StrCat("access of ", a, " to ", b, " can be enabled if ",
                            "peer_can_access says so: ", ToString(enabled)));
      if (enabled.ok()) t.Ok(Disable(t, a, b), "disable");
    }
  }
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

// ---- Access without permission

// Runs a kernel on `a` that writes memory of `b`.
Result WriteFrom(Test& t, uint32_t a, const DeviceBlock& of_b) {
  const Extension found = t.NeedExtension(DEVRT_ELEMENTWISE_EXTENSION,
                                          sizeof(devrt_elementwise_v0));
  const auto* const table =
      static_cast<const devrt_elementwise_v0*>(found.table);
  if (t.machine().props(a).fault_delivery == DEVRT_FAULT_DELIVERY_ABORT) {
    t.MayDie();
  }
  const int64_t shape = 100;
  const devrt_tensor_v0 out = {of_b.ptr(), &shape, nullptr, 1, DEVRT_UINT8};
  const uint8_t value = 5;
  const RawStream& s = NeverDestroyed<RawStream>(t, a);
  const Result enqueued = t.machine().CallExtension(
      &devrt_elementwise_v0::fill, table, found.self, s.handle(), &out,
      static_cast<const void*>(&value));
  return enqueued.ok() ? SyncOf(t, s) : enqueued;
}

void ExpectRefused(Test& t, uint32_t a, uint32_t b, const char* when) {
  const DeviceBlock& block = NeverDestroyed<DeviceBlock>(t, b, uint64_t{100});
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
  const DeviceBlock& block = NeverDestroyed<DeviceBlock>(t, b, uint64_t{100});
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
     "devrt's own record decides errors of state; access that another library "
     "enabled counts as a success and is not undone.",
     &StateErrorsThroughCore, kAccess, kTwoDevices},
    {"peer.impossible_pair", "C76",
     "Enabling an impossible pair is FAILED_PRECONDITION.", &ImpossiblePair,
     kAccess, kTwoDevices},
    {"peer.possible_pairs", "C76",
     "Access can be enabled for the pairs for which peer_can_access says so.",
     &OnlyPossiblePairs, kAccess, kTwoDevices},
    {"peer.extent", "C77 C47",
     "Peer access covers existing and future allocations; fills may use it.",
     &Extent, kAccess, kTwoDevices},
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
}  // namespace peer_tests

absl::Span<const TestCase> PeerTests() { return peer_tests::kTests; }

}  // namespace devrt::cts
