// SPDX-License-Identifier: Apache-2.0
//
// StreamTarget: a stream that was checked and may be used now, with what a call
// of the backend needs.
//
//   StreamTarget t;
//   DEVRT_RETURN_IF_ERROR(ResolveStreamForWork(stream, "copy", site, &t));
//   absl::Status status = FromPlugin(
//       t.device, t.ops().copy_async(t.self(), t.handle, ...), "copy");
//   t.MarkDirty();
//
// While the target lives, its call site is the calling thread's, for reports.

#ifndef DEVRT_STREAMS_OBJECTS_STREAM_TARGET_H_
#define DEVRT_STREAMS_OBJECTS_STREAM_TARGET_H_

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/call_site.h"
#include "devrt/streams/gate.h"
#include "devrt/streams/stream.h"
#include "runtime/plugins/stream_numbers.h"
#include "runtime/registry/records.h"
#include "streams/common/deferred_deletion.h"
#include "streams/objects/stream_record.h"
#include "streams/timelines/timeline.h"

namespace devrt::internal {

struct StreamTarget {
  StreamRecord* record = nullptr;
  DeviceRecord* device = nullptr;
  devrt_stream handle = nullptr;

  Timeline* timeline() const {
    return record->timeline.load(std::memory_order_relaxed);
  }

  StreamTarget() = default;
  StreamTarget(const StreamTarget&) = delete;
  StreamTarget& operator=(const StreamTarget&) = delete;
  ~StreamTarget() { SetCallSite({}); }

  const devrt_ops_v0& ops() const { return *device->ops; }
  void* self() const { return device->self; }
  // Marks that the stream got work.  Call it after the enqueue: a concurrent
  // Synchronize could remove a mark that was set before.
  void MarkDirty() const {
    if (!record->dirty.load(std::memory_order_relaxed)) {
      record->dirty.store(true, std::memory_order_relaxed);
    }
  }
};

// What a plugin is told of the StreamRecord `record` while it has `handle`.
StreamFacts FactsOfRecord(const void* record, devrt_stream handle);

// Notes that the calling thread's present call uses `stream`.
inline void NoteStream(StreamRef stream, devrt_stream handle) {
  NoteStream(handle, &FactsOfRecord, stream.record());
}

// Checks `stream` and fills `target`, which keeps `site` for reports.  `call`
// names the call for errors.  Allowed inside host functions, for calls that
// neither enqueue nor wait.
inline absl::Status ResolveStream(StreamRef stream, const char* call,
                                  CallSite site, StreamTarget* target) {
  StreamRecord* record = stream.record();
  target->record = record;
  absl::Status checked = CheckStream(stream, call);
  if (ABSL_PREDICT_FALSE(!checked.ok())) return checked;
  SetCallSite(site);
  devrt_stream handle = record->handle.load(std::memory_order_acquire);
  if (ABSL_PREDICT_FALSE(handle == nullptr)) {
    absl::Status status = ObtainHandle(record, call);
    if (!status.ok()) return status;
    handle = record->handle.load(std::memory_order_acquire);
  }
  target->device = record->device;
  target->handle = handle;
  NoteStream(stream, handle);
  return absl::OkStatus();
}

// As ResolveStream, for calls that enqueue or wait: FAILED_PRECONDITION inside
// a host function.  Runs deferred deletions.
inline absl::Status ResolveStreamForWork(StreamRef stream, const char* call,
                                         CallSite site, StreamTarget* target) {
  if (ABSL_PREDICT_FALSE(InHostFunction())) return HostFunctionError(call);
  if (ABSL_PREDICT_FALSE(HasDeferredDeletions())) RunDeferredDeletions();
  return ResolveStream(stream, call, site, target);
}

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_OBJECTS_STREAM_TARGET_H_
