// SPDX-License-Identifier: Apache-2.0
//
// AdoptedStreams: the streams that other libraries made and named by their
// native handles (devrt_memory.h), adopted at their first use.
//
// They are devrt's objects, not the program's: Shutdown does not wait for them
// (C98).  They end with stream_ends, and with all that is cached.
//
// Lock: `mutex_`.  Streams are made and ended with it not held.

#ifndef DEVRT_MEMORY_EXTERNAL_ADOPTED_STREAMS_H_
#define DEVRT_MEMORY_EXTERNAL_ADOPTED_STREAMS_H_

#include <map>
#include <utility>

#include "absl/status/statusor.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"
#include "devrt/runtime/mutex.h"
#include "devrt/streams/stream.h"
#include "runtime/internal/records.h"

namespace devrt::internal {

class AdoptedStreams {
 public:
  static AdoptedStreams& Get();

  absl::StatusOr<StreamRef> Find(Device device, void* native)
      DEVRT_EXCLUDES(mutex_);
  void End(Device device, void* native) DEVRT_EXCLUDES(mutex_);
  // All of a device whose gate is closed, or which is reset.
  void Release(DeviceRecord* device) DEVRT_EXCLUDES(mutex_);

 private:
  using Key = std::pair<DeviceRecord*, void*>;

  Mutex mutex_;
  std::map<Key, Stream> streams_ DEVRT_GUARDED_BY(mutex_);
};

// The stream that devrt_memory.h means by a handle: adopted, or one of those
// that have a number instead, the default streams.
DEVRT_EXPORT absl::StatusOr<StreamRef> StreamByHandle(Device device,
                                                      void* native);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_EXTERNAL_ADOPTED_STREAMS_H_
