// SPDX-License-Identifier: Apache-2.0
//
// StreamRecycler: the streams of one device.  It makes them, takes them back
// and hands them out again.
//
// A stream that comes back idle may be handed out again at once.  A stream that
// comes back busy is handed out again after a query finds it idle.  A stream
// whose native handle was given to somebody is destroyed, because it may still
// be in use. docs/decisions/0003-stream-records.md has the reasons.
//
// Threads: any.  Lock: `mutex_`, a leaf; it is not held while the driver is
// called, because other threads may run in that call.

#ifndef DEVRT_STREAMS_OBJECTS_STREAM_RECYCLER_H_
#define DEVRT_STREAMS_OBJECTS_STREAM_RECYCLER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/mutex.h"
#include "devrt/streams/stream.h"
#include "runtime/registry/records.h"
#include "streams/objects/stream_record.h"
#include "streams/timelines/timeline.h"

namespace devrt::internal {

class StreamRecycler {
 public:
  explicit StreamRecycler(DeviceRecord* device) : device_(device) {}

  absl::StatusOr<StreamRef> Create(StreamOptions options);
  absl::StatusOr<StreamRef> Adopt(void* native, std::shared_ptr<void> owner);
  // Makes the calling thread's default stream, which the thread keeps (C12).
  absl::StatusOr<StreamRef> MakePerThread();
  // Takes back a stream of Create, Adopt or MakePerThread.
  void Release(StreamRecord* record);
  // Destroys idle streams beyond the number that is kept.
  void Trim();
  // Destroys idle native streams and forgets per-thread ones.
  void ReleaseIdle();

 private:
  friend class KeptStream;

  // The free streams of one priority, blocking or not.
  struct Class {
    int priority = 0;
    bool blocking = false;
    StreamRecord* idle = nullptr;  // last in, first out
    size_t idle_count = 0;
    StreamRecord* busy = nullptr;  // first in, first out
    StreamRecord** busy_tail = &busy;
    size_t busy_count = 0;
  };
  // What a query of the oldest busy stream found.
  enum class Seen { kNone, kIdle, kBusy, kFailed };

  absl::StatusOr<int> ClampPriority(int priority) DEVRT_EXCLUDES(mutex_);
  Class* FindClass(int priority, bool blocking) DEVRT_REQUIRES(mutex_);
  StreamRecord* PopIdle(Class* c) DEVRT_REQUIRES(mutex_);
  StreamRecord* PopBusy(Class* c) DEVRT_REQUIRES(mutex_);
  void PushBusy(Class* c, StreamRecord* record) DEVRT_REQUIRES(mutex_);
  // Queries the oldest busy stream.  If it is idle, `record` receives it and
  // the caller owns it.  kNone if there is no busy stream, or, with `surplus`,
  // if there are no more streams than are kept.
  Seen QueryBusy(int priority, bool blocking, bool surplus,
                 StreamRecord** record) DEVRT_EXCLUDES(mutex_);
  // Takes out a busy stream that has become idle; nullptr if there is none.
  StreamRecord* FindIdle(int priority, bool blocking) DEVRT_EXCLUDES(mutex_);
  void TrimClass(int priority, bool blocking, size_t looks)
      DEVRT_EXCLUDES(mutex_);
  absl::StatusOr<StreamRef> MakeNative(const devrt_stream_desc_v0& desc,
                                       StreamKind kind,
                                       bool may_be_destroyed = false);
  // A blank record has no native stream.
  StreamRecord* TakeBlank(StreamKind kind, bool blocking, int priority)
      DEVRT_EXCLUDES(mutex_);
  void PushBlank(StreamRecord* record) DEVRT_REQUIRES(mutex_);
  // Keeps the stream for a later Create.  Returns false if the caller has to
  // destroy it.
  bool Keep(Class* c, StreamRecord* record) DEVRT_REQUIRES(mutex_);
  // The part of Release that runs outside host functions.
  void GiveBack(StreamRecord* record) DEVRT_EXCLUDES(mutex_);
  // A serial from those that this recycler took in advance.
  uint64_t NextSerial() DEVRT_REQUIRES(mutex_);
  StreamRef Publish(StreamRecord* record, uint64_t serial);
  // How the native stream of `record` ends.
  Timeline::EndState EndStateOf(const StreamRecord& record) const;
  // Ends the timeline of `record`.  `destroy`: devrt owns the native stream and
  // destroys it.  Returns true if the caller has to do that.
  bool EndTimeline(StreamRecord* record, Timeline::EndState state,
                   bool destroy);
  void Destroy(StreamRecord* record);
  // Forgets a native stream that devrt does not own, or that was lost.
  void Abandon(StreamRecord* record);
  // Destroys the native stream and makes the record blank.
  void DestroyAndBlank(StreamRecord* record) DEVRT_EXCLUDES(mutex_);

  DeviceRecord* const device_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Class>> classes_ DEVRT_GUARDED_BY(mutex_);
  StreamRecord* blank_ DEVRT_GUARDED_BY(mutex_) = nullptr;  // no native stream
  std::vector<StreamRecord*> per_thread_ DEVRT_GUARDED_BY(mutex_);
  uint64_t next_serial_ DEVRT_GUARDED_BY(mutex_) = 0;
  uint64_t end_of_serials_ DEVRT_GUARDED_BY(mutex_) = 0;
  // The device's range of priorities, once it is known.
  bool has_priorities_ DEVRT_GUARDED_BY(mutex_) = false;
  int priority_greatest_ DEVRT_GUARDED_BY(mutex_) = 0;
  int priority_least_ DEVRT_GUARDED_BY(mutex_) = 0;
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_OBJECTS_STREAM_RECYCLER_H_
