// SPDX-License-Identifier: Apache-2.0
#include "python/src/bridge.h"

#include <utility>
#include <vector>

#include "devrt/runtime/mutex.h"
#include "devrt/runtime/status.h"

namespace devrt::python {
namespace {

struct Bridge {
  Device device;
  std::shared_ptr<Stream> stream;
};

// Never destroyed: threads may import after main.
struct Bridges {
  Mutex mutex;
  std::vector<Bridge> all DEVRT_GUARDED_BY(mutex);
};

Bridges* TheBridges() {
  static auto* bridges = new Bridges;
  return bridges;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Stream>> BridgeStream(Device device) {
  Bridges* const bridges = TheBridges();
  const MutexLock lock(&bridges->mutex);
  for (const Bridge& known : bridges->all) {
    if (known.device == device) return known.stream;
  }
  DEVRT_ASSIGN_OR_RETURN(Stream made, Stream::Create(device, {}, CallSite{}));
  bridges->all.push_back({device, std::make_shared<Stream>(std::move(made))});
  return bridges->all.back().stream;
}

void EndBridges() {
  std::vector<Bridge> ended;
  Bridges* const bridges = TheBridges();
  {
    const MutexLock lock(&bridges->mutex);
    ended.swap(bridges->all);
  }
}

}  // namespace devrt::python
