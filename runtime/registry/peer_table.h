// SPDX-License-Identifier: Apache-2.0
//
// The pairs of devices whose peer access devrt has enabled; C76 uses them.

#ifndef DEVRT_RUNTIME_REGISTRY_PEER_TABLE_H_
#define DEVRT_RUNTIME_REGISTRY_PEER_TABLE_H_

#include <map>
#include <utility>

#include "devrt/runtime/mutex.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

enum class PeerOwner {
  kDevrt,
  kForeign,  // another library enabled it, so devrt must not disable it
};

struct PeerTable {
  using Pair = std::pair<const DeviceRecord*, const DeviceRecord*>;

  static PeerTable& Get();
  // Forgets all pairs of a backend that was reset.
  void Forget(const BackendRecord* backend) DEVRT_EXCLUDES(mutex);

  Mutex mutex;
  std::map<Pair, PeerOwner> enabled DEVRT_GUARDED_BY(mutex);
};

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_REGISTRY_PEER_TABLE_H_
