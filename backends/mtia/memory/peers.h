// SPDX-License-Identifier: Apache-2.0
//
// Which device may access the memory of which other: the topology, and what the
// program has enabled.  Thread-safe; a query costs one load.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_PEERS_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_PEERS_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "backends/mtia/config/config.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::mtia {

class PeerTable {
 public:
  // Takes the topology of `config`.  No access is enabled then.
  void Reset(const Config& config);

  bool CanAccess(uint32_t device, uint32_t peer) const;
  bool Enabled(uint32_t device, uint32_t peer) const;
  devrt_status Enable(uint32_t device, uint32_t peer);
  devrt_status Disable(uint32_t device, uint32_t peer);

 private:
  using Mask = std::atomic<uint64_t>;  // a bit per peer
  static_assert(kMaxDevices <= 64, "a mask has 64 bits");

  devrt_status CheckPair(uint32_t device, uint32_t peer) const;
  bool IsSet(const std::array<Mask, kMaxDevices>& masks, uint32_t device,
             uint32_t peer) const;

  uint32_t devices_ = 0;
  std::array<Mask, kMaxDevices> linked_{};
  std::array<Mask, kMaxDevices> enabled_{};
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_PEERS_H_
