// SPDX-License-Identifier: Apache-2.0
#include "devrt/runtime/peer.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "runtime/plugins/host_table.h"
#include "runtime/registry/peer_table.h"
#include "runtime/registry/records.h"

namespace devrt {

namespace internal {

PeerTable& PeerTable::Get() {
  static PeerTable* const table = new PeerTable;
  return *table;
}

void PeerTable::Forget(const BackendRecord* backend) {
  MutexLock lock(&mutex);
  for (auto it = enabled.begin(); it != enabled.end();) {
    it = it->first.first->backend == backend ? enabled.erase(it) : ++it;
  }
}

}  // namespace internal

namespace {

using internal::DeviceName;
using internal::DeviceRecord;
using internal::FromPlugin;
using internal::PeerOwner;
using internal::PeerTable;

std::string PairText(const DeviceRecord* device, const DeviceRecord* peer) {
  return absl::StrCat("peer access of ", DeviceName(device), " to ",
                      DeviceName(peer));
}

absl::Status CheckOpen(const DeviceRecord* device, const DeviceRecord* peer) {
  for (const DeviceRecord* d : {device, peer}) {
    if (!internal::IsOpen(d)) return internal::ClosedError(d);
  }
  return absl::OkStatus();
}

// The reason if devrt knows that the pair is impossible; otherwise empty.
std::string Impossible(const DeviceRecord* device, const DeviceRecord* peer) {
  if (device == peer) return "a device is not its own peer";
  if (device->backend != peer->backend) {
    return "they belong to two backends";
  }
  if ((device->backend->capabilities & DEVRT_CAP_PEER_ACCESS) == 0) {
    return absl::StrCat("backend \"", device->backend->name,
                        "\" has no peer access");
  }
  return std::string();
}

absl::Status Refusal(const DeviceRecord* device, const DeviceRecord* peer,
                     const std::string& why) {
  return absl::FailedPreconditionError(
      absl::StrCat(PairText(device, peer), " is impossible: ", why));
}

}  // namespace

absl::StatusOr<bool> CanAccessPeer(Device device, Device peer) {
  DeviceRecord* from = device.record();
  const DeviceRecord* to = peer.record();
  DEVRT_RETURN_IF_ERROR(CheckOpen(from, to));
  if (!Impossible(from, to).empty()) return false;
  uint32_t can = 0;
  DEVRT_RETURN_IF_ERROR(FromPlugin(
      from,
      from->ops->peer_can_access(from->self, from->ordinal, to->ordinal, &can),
      "peer query"));
  return can != 0;
}

absl::Status EnablePeerAccess(Device device, Device peer) {
  DeviceRecord* from = device.record();
  const DeviceRecord* to = peer.record();
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("EnablePeerAccess");
  }
  DEVRT_RETURN_IF_ERROR(CheckOpen(from, to));
  const std::string impossible = Impossible(from, to);
  if (!impossible.empty()) return Refusal(from, to, impossible);
  DEVRT_ASSIGN_OR_RETURN(const bool can, CanAccessPeer(device, peer));
  if (!can) return Refusal(from, to, "the devices are not connected");

  PeerTable& table = PeerTable::Get();
  devrt_status error = nullptr;
  {
    MutexLock lock(&table.mutex);
    if (table.enabled.count({from, to}) != 0) {
      return absl::AlreadyExistsError(
          absl::StrCat(PairText(from, to), " is enabled already"));
    }
    error = from->ops->peer_enable(from->self, from->ordinal, to->ordinal);
    const bool foreign =
        error != nullptr && error->code == DEVRT_ALREADY_EXISTS;
    if (error == nullptr || foreign) {
      table.enabled[{from, to}] =
          foreign ? PeerOwner::kForeign : PeerOwner::kDevrt;
    }
    if (foreign) internal::DestroyError(std::exchange(error, nullptr));
  }
  // The lock is released here, because a sticky error runs hooks.
  return FromPlugin(from, error, "peer enable");
}

absl::Status DisablePeerAccess(Device device, Device peer) {
  DeviceRecord* from = device.record();
  const DeviceRecord* to = peer.record();
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("DisablePeerAccess");
  }
  DEVRT_RETURN_IF_ERROR(CheckOpen(from, to));
  PeerTable& table = PeerTable::Get();
  devrt_status error = nullptr;
  {
    MutexLock lock(&table.mutex);
    const auto found = table.enabled.find({from, to});
    if (found == table.enabled.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat(PairText(from, to), " is not enabled"));
    }
    if (found->second == PeerOwner::kDevrt) {
      error = from->ops->peer_disable(from->self, from->ordinal, to->ordinal);
    }
    // FAILED_PRECONDITION: another library disabled it, so it is off.
    const bool off =
        error != nullptr && error->code == DEVRT_FAILED_PRECONDITION;
    if (error == nullptr || off) table.enabled.erase(found);
    if (off) internal::DestroyError(std::exchange(error, nullptr));
  }
  return FromPlugin(from, error, "peer disable");
}

}  // namespace devrt
