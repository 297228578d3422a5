// SPDX-License-Identifier: Apache-2.0
//
// AdoptedStreams: streams of other libraries that callers of devrt_memory.h
// name by their native handles.  Each is adopted at its first use.
//
// They count as objects of devrt, so they do not make Shutdown fail (C98).
// They end with devrt_memory_stream_ends, or with the device's memory.
//
// Lock: `mutex_`, which is not held while a stream is made or ended.

#ifndef DEVRT_MEMORY_API_ADOPTED_STREAMS_H_
#define DEVRT_MEMORY_API_ADOPTED_STREAMS_H_

#include <map>
#include <utility>

#include "absl/status/statusor.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"
#include "devrt/runtime/mutex.h"
#include "devrt/streams/stream.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

class AdoptedStreams {
 public:
  static AdoptedStreams& Get();

  absl::StatusOr<StreamRef> Find(Device device, void* native)
      DEVRT_EXCLUDES(mutex_);
  void End(Device device, void* native) DEVRT_EXCLUDES(mutex_);
  // Ends all streams of a device whose gate is closed or which is reset.
  void Release(DeviceRecord* device) DEVRT_EXCLUDES(mutex_);

 private:
  using Key = std::pair<DeviceRecord*, void*>;

  Mutex mutex_;
  std::map<Key, Stream> streams_ DEVRT_GUARDED_BY(mutex_);
};

// The stream of a handle of devrt_memory.h: an adopted stream, or a default
// stream, whose handle is a small number.
DEVRT_EXPORT absl::StatusOr<StreamRef> StreamByHandle(Device device,
                                                      void* native);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_API_ADOPTED_STREAMS_H_
