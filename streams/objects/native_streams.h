// SPDX-License-Identifier: Apache-2.0
//
// NativeStreams: finds the live Stream of a native handle, for calls in which
// other libraries pass a handle as a number (E8).
//
// A stream is found after a call of Native(), and after its adoption.  Default
// streams are not found, because each backend names them in its own way.  If a
// handle was adopted several times, the newest adoption that lives is found.
//
// Threads: any.  `mutex_` is a leaf.

#ifndef DEVRT_STREAMS_OBJECTS_NATIVE_STREAMS_H_
#define DEVRT_STREAMS_OBJECTS_NATIVE_STREAMS_H_

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/mutex.h"
#include "devrt/streams/stream.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

class NativeStreams {
 public:
  static NativeStreams& Get();

  void Add(StreamRef stream, void* native) DEVRT_EXCLUDES(mutex_);
  std::optional<StreamRef> Find(Device device, const void* native)
      DEVRT_EXCLUDES(mutex_);

 private:
  using Key = std::pair<const DeviceRecord*, const void*>;

  // Forgets streams that have ended.
  void Sweep() DEVRT_REQUIRES(mutex_);

  Mutex mutex_;
  absl::flat_hash_map<Key, std::vector<StreamRef>> streams_
      DEVRT_GUARDED_BY(mutex_);
  size_t sweep_at_ DEVRT_GUARDED_BY(mutex_) = 64;
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_OBJECTS_NATIVE_STREAMS_H_
