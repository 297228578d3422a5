// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/memory/peers.h"

#include <algorithm>
#include <string>

#include "backends/mtia/common/error.h"
#include "backends/mtia/common/text.h"

namespace devrt::mtia {
namespace {

// CUDA's numbers
constexpr int64_t kNoSuchDevice = 101;
constexpr int64_t kPeerAccessUnsupported = 217;
constexpr int64_t kPeerAccessAlreadyEnabled = 704;
constexpr int64_t kPeerAccessNotEnabled = 705;

uint64_t Bit(uint32_t peer) { return uint64_t{1} << peer; }

bool HasLink(const Config& config, uint32_t device, uint32_t peer) {
  if (device == peer) return false;
  switch (config.peers) {
    case Peers::kAll:
      return true;
    case Peers::kRing:
      return (device + 1) % config.devices == peer ||
             (peer + 1) % config.devices == device;
    case Peers::kNone:
      return false;
    case Peers::kMatrix:
      return std::find(config.peer_links.begin(), config.peer_links.end(),
                       std::make_pair(device, peer)) != config.peer_links.end();
  }
  return false;
}

std::string FromTo(uint32_t device, uint32_t peer) {
  return "peer access from " + DeviceName(device) + " to " + DeviceName(peer);
}

}  // namespace

void PeerTable::Reset(const Config& config) {
  devices_ = config.devices;
  for (uint32_t device = 0; device < kMaxDevices; ++device) {
    uint64_t linked = 0;
    for (uint32_t peer = 0; device < devices_ && peer < devices_; ++peer) {
      if (HasLink(config, device, peer)) linked |= Bit(peer);
    }
    linked_[device].store(linked, std::memory_order_relaxed);
    enabled_[device].store(0, std::memory_order_release);
  }
}

bool PeerTable::IsSet(const std::array<Mask, kMaxDevices>& masks,
                      uint32_t device, uint32_t peer) const {
  if (device >= devices_ || peer >= devices_) return false;
  return (masks[device].load(std::memory_order_acquire) & Bit(peer)) != 0;
}

bool PeerTable::CanAccess(uint32_t device, uint32_t peer) const {
  return IsSet(linked_, device, peer);
}

bool PeerTable::Enabled(uint32_t device, uint32_t peer) const {
  return IsSet(enabled_, device, peer);
}

devrt_status PeerTable::CheckPair(uint32_t device, uint32_t peer) const {
  const uint32_t largest = std::max(device, peer);
  if (largest >= devices_) {
    return MakeError(DEVRT_INVALID_ARGUMENT, kNoSuchDevice,
                     "Device index value " + std::to_string(largest) +
                         " is out of index range [0, " +
                         std::to_string(devices_) + ")");
  }
  if (device == peer) {
    return MakeError(DEVRT_FAILED_PRECONDITION, kPeerAccessUnsupported,
                     DeviceName(device) + " is not its own peer");
  }
  if (!CanAccess(device, peer)) {
    return MakeError(
        DEVRT_FAILED_PRECONDITION, kNoSuchDevice,
        FromTo(device, peer) + " is impossible: peers= gives them no link");
  }
  return nullptr;
}

devrt_status PeerTable::Enable(uint32_t device, uint32_t peer) {
  if (devrt_status error = CheckPair(device, peer)) return error;
  if ((enabled_[device].fetch_or(Bit(peer)) & Bit(peer)) == 0) return nullptr;
  return MakeError(DEVRT_ALREADY_EXISTS, kPeerAccessAlreadyEnabled,
                   FromTo(device, peer) + " is enabled already");
}

devrt_status PeerTable::Disable(uint32_t device, uint32_t peer) {
  if (devrt_status error = CheckPair(device, peer)) return error;
  if ((enabled_[device].fetch_and(~Bit(peer)) & Bit(peer)) != 0) return nullptr;
  return MakeError(DEVRT_FAILED_PRECONDITION, kPeerAccessNotEnabled,
                   FromTo(device, peer) + " is not enabled");
}

}  // namespace devrt::mtia
