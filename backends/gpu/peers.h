// SPDX-License-Identifier: Apache-2.0
//
// Peers<Api>: which device may use the memory of which other, as devrt has
// arranged.
//
// Threads: every member from any thread.  The lock is held while the driver is
// called, and while Pools and VirtualMemory take theirs.

#ifndef DEVRT_BACKENDS_GPU_PEERS_H_
#define DEVRT_BACKENDS_GPU_PEERS_H_

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "backends/gpu/context_scope.h"
#include "backends/gpu/device.h"
#include "backends/gpu/pool.h"
#include "backends/gpu/virtual_memory.h"

namespace devrt::gpu {

template <class Api>
class Peers {
 public:
  using Error = typename Api::Error;
  using Context = typename Api::Context;
  using Device = gpu::Device<Api>;

  Peers(Devices<Api>* devices, Pools<Api>* pools, VirtualMemory<Api>* mappings)
      : driver_(devices->driver()),
        api_(driver_.api()),
        devices_(*devices),
        pools_(*pools),
        mappings_(*mappings) {}
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  devrt_status peer_can_access(uint32_t device, uint32_t peer, uint32_t* can);
  devrt_status peer_enable(uint32_t device, uint32_t peer);
  devrt_status peer_disable(uint32_t device, uint32_t peer);

 private:
  devrt_status FindBoth(uint32_t ordinal, uint32_t peer, Device** device,
                        Device** other) {
    devrt_status error = devices_.Find(ordinal, device);
    return error != nullptr ? error : devices_.Find(peer, other);
  }
  // Lets `device` use the memory of `peer` that access between contexts does
  // not cover, or withdraws that.  After an error `*what` names what failed.
  Error AllowPeer(uint32_t device, uint32_t peer, bool allow,
                  const char** what);

  Driver<Api>& driver_;
  const Api& api_;
  Devices<Api>& devices_;
  Pools<Api>& pools_;
  VirtualMemory<Api>& mappings_;
  std::mutex mutex_;  // guards peers_
  // (device, peer): true if devrt enabled it, false if another library had.
  std::unordered_map<uint64_t, bool> peers_;
};

template <class Api>
devrt_status Peers<Api>::peer_can_access(uint32_t ordinal, uint32_t peer,
                                         uint32_t* can) {
  Device* device = nullptr;
  Device* other = nullptr;
  if (devrt_status error = FindBoth(ordinal, peer, &device, &other)) {
    return error;
  }
  int answer = 0;
  if (device != other) {
    if (devrt_status error = driver_.ToStatus(
            api_.CanAccessPeer(device->native, other->native, &answer),
            "peer access query", device)) {
      return error;
    }
  }
  *can = answer != 0 ? 1 : 0;
  return nullptr;
}

template <class Api>
devrt_status Peers<Api>::peer_enable(uint32_t ordinal, uint32_t peer) {
  Device* device = nullptr;
  Device* other = nullptr;
  if (devrt_status error = FindBoth(ordinal, peer, &device, &other)) {
    return error;
  }
  if (device == other) {
    return driver_.Refuse(DEVRT_INVALID_ARGUMENT, "%s:%u is its own peer",
                          Api::kBackend, ordinal);
  }
  Context context{}, peer_context{};
  if (devrt_status error = devices_.Enter(device, &context)) return error;
  if (devrt_status error = devices_.Enter(other, &peer_context)) return error;
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t key = uint64_t{ordinal} << 32 | peer;
  if (peers_.count(key) != 0) {
    return driver_.Refuse(DEVRT_ALREADY_EXISTS,
                          "%s:%u may access %s:%u already", Api::kBackend,
                          ordinal, Api::kBackend, peer);
  }
  const ContextScope<Api> scope(api_, context);
  Error error = scope.error();
  if (error == Api::kSuccess) error = api_.EnablePeer(peer_context);
  // Another library may have enabled it first.  Then devrt does not disable it.
  if (error != Api::kSuccess && error != Api::kPeerAlreadyEnabled) {
    return driver_.ToStatus(error, "peer access", device);
  }
  const bool ours = error == Api::kSuccess;
  const char* what = "";
  error = AllowPeer(ordinal, peer, true, &what);
  if (error == Api::kSuccess) {
    peers_[key] = ours;
    return nullptr;
  }
  // Withdraws what was given already, so that nothing has changed.
  const char* ignored = "";
  (void)AllowPeer(ordinal, peer, false, &ignored);
  if (ours) (void)api_.DisablePeer(peer_context);
  return driver_.ToStatus(error, what, device);
}

template <class Api>
typename Api::Error Peers<Api>::AllowPeer([[maybe_unused]] uint32_t ordinal,
                                          [[maybe_unused]] uint32_t peer,
                                          [[maybe_unused]] bool allow,
                                          [[maybe_unused]] const char** what) {
  Error error = Api::kSuccess;
  if constexpr (Api::kHasPools) {
    *what = "access to a memory pool";
    error = pools_.Allow(ordinal, peer, allow);
  }
  if constexpr (Api::kHasVirtualMemory) {
    // A withdrawal goes on after an error, so that no access is left.
    const bool has_failed = error != Api::kSuccess;
    if (has_failed && allow) return error;
    const Error next = mappings_.Allow(ordinal, peer, allow);
    if (has_failed) return error;
    *what = "access to mappings";
    error = next;
  }
  return error;
}

template <class Api>
devrt_status Peers<Api>::peer_disable(uint32_t ordinal, uint32_t peer) {
  Device* device = nullptr;
  Device* other = nullptr;
  if (devrt_status error = FindBoth(ordinal, peer, &device, &other)) {
    return error;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = peers_.find(uint64_t{ordinal} << 32 | peer);
  if (found == peers_.end()) {
    return driver_.Refuse(DEVRT_FAILED_PRECONDITION,
                          "%s:%u may not access %s:%u", Api::kBackend, ordinal,
                          Api::kBackend, peer);
  }
  if (found->second) {
    const ContextScope<Api> scope(api_, device->context.load());
    Error error = scope.error();
    if (error == Api::kSuccess) error = api_.DisablePeer(other->context.load());
    if (error != Api::kSuccess && error != Api::kPeerNotEnabled) {
      return driver_.ToStatus(error, "peer access", device);
    }
  }
  peers_.erase(found);
  const char* what = "";
  const Error error = AllowPeer(ordinal, peer, false, &what);
  return driver_.ToStatus(error, what, device);
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_PEERS_H_
