// SPDX-License-Identifier: Apache-2.0
//
// StreamRecycler: the streams of one device.  It makes them, takes them back
// and hands them out again.
//
// A stream that comes back idle is handed out again at once; a busy stream once
// a query finds it idle.  A stream whose native handle was given to somebody is
// destroyed, because it may still be in use.  docs/decisions/0003-stream-records.md
// has the reasons.
//
// Threads: any.  Lock: `mutex_`, a leaf; it is not held while the driver is
// called, because other threads may run in that call.

#ifndef DEVRT_STREAMS_INTERNAL_STREAM_RECYCLER_H_
#define DEVRT_STREAMS_INTERNAL_STREAM_RECYCLER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/mutex.h"
#include "devrt/streams/stream.h"
#include "runtime/internal/records.h"
#include "streams/internal/stream_record.h"
#include "streams/internal/timeline.h"

namespace devrt::internal {

class StreamRecycler {
 public:
  explicit StreamRecycler(DeviceRecord* device) : device_(device) {}

  absl::StatusOr<StreamRef> Create(StreamOptions options);
  absl::StatusOr<StreamRef> Adopt(void* native, std::shared_ptr<void> owner);
  // For the calling thread, which keeps it (C12).
  absl::StatusOr<StreamRef> MakePerThread();
  // The end of what Create, Adopt or MakePerThread began.
  void Release(StreamRecord* record);
  // Destroys streams that have become idle beyond the number that is kept.
  void Trim();
  // Destroys idle native streams and forgets per-thread ones.
  void ReleaseIdle();

 private:
  friend class KeptStream;

  // Streams that are alike: one priority, blocking or not.
  struct Class {
    int priority = 0;
    bool blocking = false;
    StreamRecord* idle = nullptr;  // last in, first out: warm
    size_t idle_count = 0;
    StreamRecord* busy = nullptr;  // first in, first out
    StreamRecord** busy_tail = &busy;
    size_t busy_count = 0;
  };
  // What a look at the oldest busy stream found.
  enum class Seen { kNone, kIdle, kBusy, kFailed };

  absl::StatusOr<int> ClampPriority(int priority) DEVRT_EXCLUDES(mutex_);
  Class* FindClass(int priority, bool blocking) DEVRT_REQUIRES(mutex_);
  StreamRecord* PopIdle(Class* c) DEVRT_REQUIRES(mutex_);
  StreamRecord* PopBusy(Class* c) DEVRT_REQUIRES(mutex_);
  void PushBusy(Class* c, StreamRecord* record) DEVRT_REQUIRES(mutex_);
  // `record` is set when it is idle: it is the caller's then.  kNone if there
  // is none; `surplus`: or no more than are kept.
  Seen LookAtBusy(int priority, bool blocking, bool surplus,
                  StreamRecord** record) DEVRT_EXCLUDES(mutex_);
  // A busy stream that has become idle, or nullptr.
  StreamRecord* FindIdle(int priority, bool blocking) DEVRT_EXCLUDES(mutex_);
  void TrimClass(int priority, bool blocking, size_t looks)
      DEVRT_EXCLUDES(mutex_);
  absl::StatusOr<StreamRef> MakeNative(const devrt_stream_desc_v0& desc,
                                       StreamKind kind,
                                       bool may_be_destroyed = false);
  StreamRecord* TakeBlank(StreamKind kind, bool blocking, int priority)
      DEVRT_EXCLUDES(mutex_);
  void PushBlank(StreamRecord* record) DEVRT_REQUIRES(mutex_);
  // False when it is to be destroyed; else it is kept.
  bool Keep(Class* c, StreamRecord* record) DEVRT_REQUIRES(mutex_);
  // Release, but for what a host function may do itself.
  void GiveBack(StreamRecord* record) DEVRT_EXCLUDES(mutex_);
  // A serial as NextStreamSerial gives, without its atomic step.
  uint64_t NextSerial() DEVRT_REQUIRES(mutex_);
  StreamRef Publish(StreamRecord* record, uint64_t serial);
  // Of a record whose native stream goes.
  Timeline::EndState EndStateOf(const StreamRecord& record) const;
  // Ends the timeline, whose native stream goes or, as devrt does not own it,
  // is let go.  True when the caller has to do what `destroy` says.
  bool EndTimeline(StreamRecord* record, Timeline::EndState state,
                   bool destroy);
  void Destroy(StreamRecord* record);
  // Lets a native stream go that is not devrt's to destroy, or lost.
  void Abandon(StreamRecord* record);
  // Destroy, and the record may be used again.
  void DestroyAndBlank(StreamRecord* record) DEVRT_EXCLUDES(mutex_);

  DeviceRecord* const device_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Class>> classes_ DEVRT_GUARDED_BY(mutex_);
  StreamRecord* blank_ DEVRT_GUARDED_BY(mutex_) = nullptr;  // no native stream
  std::vector<StreamRecord*> per_thread_ DEVRT_GUARDED_BY(mutex_);
  uint64_t next_serial_ DEVRT_GUARDED_BY(mutex_) = 0;
  uint64_t end_of_serials_ DEVRT_GUARDED_BY(mutex_) = 0;
  // The device's range of priorities, asked for once.
  bool has_priorities_ DEVRT_GUARDED_BY(mutex_) = false;
  int priority_greatest_ DEVRT_GUARDED_BY(mutex_) = 0;
  int priority_least_ DEVRT_GUARDED_BY(mutex_) = 0;
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_INTERNAL_STREAM_RECYCLER_H_
