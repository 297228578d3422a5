// SPDX-License-Identifier: Apache-2.0
//
// What devrt keeps of streams for one device: its default stream, the
// recycler of streams, the pool of events, host functions that have not run,
// and the tables of the extensions that streams use.

#ifndef DEVRT_STREAMS_INTERNAL_DEVICE_STREAMS_H_
#define DEVRT_STREAMS_INTERNAL_DEVICE_STREAMS_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_capture.h"
#include "devrt/backends/abi/devrt_dlpack.h"
#include "devrt/backends/abi/devrt_event_ipc.h"
#include "devrt/backends/abi/devrt_launch.h"
#include "devrt/backends/abi/devrt_probe.h"
#include "devrt/backends/abi/devrt_tensor.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/mutex.h"
#include "devrt/streams/event.h"
#include "devrt/streams/stream.h"
#include "runtime/internal/records.h"
#include "streams/internal/event_record.h"
#include "streams/internal/stream_record.h"
#include "streams/internal/timeline.h"

namespace devrt::internal {

// Hands out streams and takes them back.  A stream that comes back idle is
// handed out again at once; a busy one when it is seen idle later.  One whose
// native handle somebody was given is destroyed: it may still be in use.
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
  StreamRecord* FindFinished(int priority, bool blocking)
      DEVRT_EXCLUDES(mutex_);
  void TrimClass(int priority, bool blocking, size_t looks)
      DEVRT_EXCLUDES(mutex_);
  absl::StatusOr<StreamRef> MakeNative(const devrt_stream_desc_v0& desc,
                                       StreamKind kind,
                                       bool may_be_gone = false);
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
  Timeline::Last LastOf(const StreamRecord& record) const;
  // Ends the timeline, whose native stream goes or, as devrt does not own it,
  // is let go.  True when the caller has to do what `destroy` says.
  bool EndTimeline(StreamRecord* record, Timeline::Last last, bool destroy);
  void Destroy(StreamRecord* record);
  // Lets a native stream go that is not devrt's to destroy, or lost.
  void Forsake(StreamRecord* record);
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

// Hands out event records; the native event is made at the first record.
class EventPool {
 public:
  explicit EventPool(DeviceRecord* device) : device_(device) {}

  EventRef Take(uint32_t flags);
  void Release(EventRecord* record);
  // One whose native event is made already, and may be recorded elsewhere.
  EventRef Take(uint32_t flags, devrt_event handle);
  // Makes the native event if there is none.
  absl::Status EnsureHandle(EventRecord* record) DEVRT_EXCLUDES(mutex_);
  void ReleaseIdle();

 private:
  static constexpr uint32_t kClasses = 2 * DEVRT_EVENT_IPC;  // by flags
  void CountLive(int change) DEVRT_REQUIRES(mutex_);
  // Nothing for nullptr, and on a device that takes no calls.
  void DestroyHandle(devrt_event handle);
  DeviceRecord* const device_;
  Mutex mutex_;
  EventRecord* idle_[kClasses] DEVRT_GUARDED_BY(mutex_) = {};
};

struct HostCall;

// Host functions that were submitted and have not run.
class HostCalls {
 public:
  void Add(HostCall* call);
  void Remove(HostCall* call);
  std::vector<HostCall*> TakeAll();

 private:
  Mutex mutex_;
  HostCall* first_ DEVRT_GUARDED_BY(mutex_) = nullptr;
};

// An extension's functions, and what they take as `self`.
template <typename Table>
struct ExtensionOf {
  const Table* table = nullptr;  // nullptr: no such extension
  void* self = nullptr;
};
template <typename Table>
ExtensionOf<Table> FindExtension(DeviceRecord* device, const char* name,
                                 uint32_t minimum_size = sizeof(Table)) {
  const auto found =
      BackendRecord::Wrap(device->backend).GetExtension(name, minimum_size);
  if (!found.ok()) return {};
  return {static_cast<const Table*>(found->table), found->self};
}

// For a shorter one of an older backend, the same at each call: what it lacks
// is NULL.
const devrt_capture_v0* WholeCapture(const devrt_capture_v0* table);
// A shorter table of an older backend counts too.
ExtensionOf<devrt_capture_v0> FindCapture(DeviceRecord* device);

struct DeviceStreams {
  explicit DeviceStreams(DeviceRecord* record);

  DeviceRecord* const device;
  StreamRecord legacy;
  StreamRecycler streams;
  EventPool events;
  Timelines timelines;
  HostCalls host_calls;
  ExtensionOf<devrt_launch_v0> launch;
  ExtensionOf<devrt_probe_v0> probe;
  ExtensionOf<devrt_event_ipc_v0> event_ipc;
  ExtensionOf<devrt_capture_v0> capture;
  devrt_dlpack_v0 dlpack;  // its defaults where the backend says nothing
  ExtensionOf<devrt_elementwise_v0> elementwise;
  ExtensionOf<devrt_reduce_v0> reduce;

  // Made at the first use, never freed.
  static DeviceStreams* Of(DeviceRecord* device) {
    DeviceStreams* s = device->streams.load(std::memory_order_acquire);
    return ABSL_PREDICT_TRUE(s != nullptr) ? s : Make(device);
  }

 private:
  static DeviceStreams* Make(DeviceRecord* device);
};

// Runs what is left of the device's host functions with `fault` (C45).
void RunHostCallsWithFault(DeviceRecord* device, const absl::Status& fault);

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_INTERNAL_DEVICE_STREAMS_H_
