// SPDX-License-Identifier: Apache-2.0
//
// Timeline: how far a stream has come, as devrt knows it without waiting.
//
// Every native stream has one.  Time on it is its epoch, a number that grows
// whenever somebody is about to look at the stream:
//
//   a use was enqueued       OrderPoint p = {&timeline, timeline.Now()};
//   a look (record, query,   const uint64_t e = timeline.BeginLook();
//   synchronise)             ... the native record, query or wait ...
//   the look saw the end     timeline.Complete(e);
//   later, from any thread   timeline.IsComplete(p.epoch)
//
// Programs that use no memory/ pay nothing: until SetStreamEndHook, which
// comes before the first point is noted and is not taken back, looks of the
// program's own and its records leave timelines alone.
//
// A look that began at epoch e covers every use whose Now() was at most e: the
// use was enqueued before it read the epoch, and the look raised the epoch
// before it went to the driver, which orders both (R4).  A submission costs
// nothing, a use that must be remembered one load, a look one locked addition.
//
// Checkpoints are events of devrt's own behind uses that somebody waits for.
// They are asked in order: one query that says "not yet" answers for all behind
// it, and a stream that is stuck costs one query a poll and no more.  One that
// says "done" answers for all before: the steps between those asked double.
//
// What a stream is ordered after besides itself (docs/semantics.md 1.14) is its
// Order: which epochs of other timelines it has waited for by events, those
// events' own Order included (C26).  It is bounded and may forget.
//
// Identity: a timeline belongs to one native stream, so that neither a recycled
// Stream nor a driver's handle that comes back is taken for another (C100,
// F20).  A Stream that is handed out again by the recycler keeps its native
// stream and so its timeline.  When the native stream ends, its last work gets
// a checkpoint; after that is complete, and with it every point that anybody
// may have, the timeline serves a new native stream, in later epochs.
// Timelines are never freed; about 150 bytes each.
//
// An adopted stream without an owner may be gone whenever the program is not in
// a call that names it: such calls may look at it and put checkpoints on it,
// nobody else (CheckpointLater, Poll; C17, F22).
//
// A per-thread stream's native handle may mean the calling thread's own stream,
// whoever calls: only its thread's looks count.
//
// Threads: any.  `mutex` is a leaf: nothing is called while it is held.

#ifndef DEVRT_STREAMS_INTERNAL_TIMELINE_H_
#define DEVRT_STREAMS_INTERNAL_TIMELINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/mutex.h"
#include "devrt/runtime/thread_state.h"
#include "devrt/streams/stream.h"
#include "runtime/internal/records.h"
#include "streams/internal/capture_order.h"

namespace devrt::internal {

// An event of devrt's own.  It is no object of the program's: not counted.
struct Check {
  uint64_t epoch = 0;
  devrt_event event = nullptr;
  bool last = false;  // its stream has ended
  // Belong to the timeline's lock.
  uint32_t pins = 0;     // who uses the event outside that lock
  bool dropped = false;  // is nobody's once it is not pinned
  Check* next = nullptr;
};

class Timeline {
 public:
  // Who is ordered by being what it is (C8).
  enum class Rule : uint8_t { kNone, kBlocking, kDefault };

  explicit Timeline(DeviceRecord* device, Rule rule = Rule::kNone)
      : device_(device), rule_(rule) {}
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;
  ~Timeline();

  DeviceRecord* device() const { return device_; }

  // After an enqueue: the epoch that the work belongs to.
  uint64_t Now() const { return epoch_.load(std::memory_order_acquire); }
  // Before a native record, query or wait.
  uint64_t BeginLook() { return epoch_.fetch_add(1); }
  // The same for looks of the program's own: 0, which completes nothing, where
  // nobody notes points.
  inline uint64_t BeginLookIfNoted();
  // What was looked at at `epoch` is over.  Publishes with release: what this
  // thread has seen is seen by who finds IsComplete.
  void Complete(uint64_t epoch) {
    uint64_t seen = completed_.load(std::memory_order_relaxed);
    while (seen < epoch && !completed_.compare_exchange_weak(
                               seen, epoch, std::memory_order_release,
                               std::memory_order_relaxed)) {
    }
  }
  // Whether the point is one of the native stream that it serves now; those of
  // streams before are complete.
  bool IsOf(const OrderPoint& point) const {
    return point.epoch >= since_.load(std::memory_order_acquire);
  }
  bool IsComplete(uint64_t epoch) const {
    return completed_.load(std::memory_order_acquire) >= epoch;
  }
  // Whether what the calling thread sees of the stream is this stream.
  bool IsHere() const {
    const void* thread = thread_.load(std::memory_order_relaxed);
    return thread == nullptr || thread == &t_state;
  }
  // Complete, for who has looked at the stream itself.
  void CompleteHere(uint64_t epoch) {
    if (IsHere()) Complete(epoch);
  }

  // Whether work that is submitted from now on is ordered after `point`: by
  // this being its stream, by completion, by an Order, or by the rule of the
  // default stream (C8: a default and a blocking stream of one device).
  bool IsAfter(const OrderPoint& point) const DEVRT_EXCLUDES(mutex_);
  // The same without that rule, and so a fact that may be handed on: who is
  // after this stream's present epoch is after `point` too.  By the rule only
  // later operations wait; a stream with none may be seen at its end before.
  bool IsPast(const OrderPoint& point) const DEVRT_EXCLUDES(mutex_);

  // Records an event of devrt's own on `stream`, whose timeline this is, unless
  // one covers `epoch` already: that of the use, from Now() after it.  Calls
  // the backend: no lock may be held, and this may be no host function.  With
  // kMostCheckpoints open ones, or while another library captures the stream,
  // nothing is recorded: a Poll that finds one of them complete, or the stream,
  // makes up for it.  FAILED_PRECONDITION for another thread's per-thread
  // stream.
  absl::Status Checkpoint(StreamRef stream, uint64_t epoch)
      DEVRT_EXCLUDES(mutex_);
  absl::Status Checkpoint(StreamRef stream) {
    return Checkpoint(stream, Now());
  }
  // The same where the program does not name `stream` in its call: nothing is
  // recorded where it may be gone by now.
  absl::Status CheckpointLater(StreamRef stream, uint64_t epoch)
      DEVRT_EXCLUDES(mutex_) {
    return may_be_gone_.load(std::memory_order_relaxed)
               ? absl::OkStatus()
               : Checkpoint(stream, epoch);
  }
  // For a stream that only the present call may look at: recorded whatever the
  // number of those that are open.
  absl::Status CheckpointEagerly(StreamRef stream, uint64_t epoch)
      DEVRT_EXCLUDES(mutex_);
  // Whether nobody but the calls that name it on its thread may look at it.
  bool NeedsEagerCheckpoints() const {
    return may_be_gone_.load(std::memory_order_relaxed) ||
           thread_.load(std::memory_order_relaxed) != nullptr;
  }
  // Whether it may be, outside the program's calls on it.
  bool MayBeGone() const {
    return may_be_gone_.load(std::memory_order_relaxed);
  }
  // For who waits for the point with an event, or makes a stream wait: the
  // oldest checkpoint that covers `epoch`, else a new one whatever the number
  // of those that are open.  Unpin gives it back.  `captured` is what a wait
  // for it joins.  nullptr: the point is complete, or the calling thread cannot
  // reach the stream.
  absl::StatusOr<Check*> PinCheck(uint64_t epoch, Captured* captured)
      DEVRT_EXCLUDES(mutex_);
  void Unpin(Check* check) DEVRT_EXCLUDES(mutex_);
  // Asks checkpoints, oldest first, until one is not complete.  Where none is
  // left and `query_stream` is set, Poll asks the stream, unless the stream may
  // be gone.  True when completed_ grew.  While another thread polls, Poll does
  // nothing.
  //
  // A query that fails completes nothing: what uses the epoch stays pending
  // until a later look sees the end (docs/semantics.md 2.4).  `error` receives
  // why there is no answer that can be relied on: the query of the stream
  // failed, another library captures it, or the query of a checkpoint failed.
  // A failed checkpoint is dropped and the stream asked in its place, which may
  // complete the point all the same.  Otherwise whoever waits gives up, because
  // asking again need not ever change that.
  //
  // No capture of another library becomes invalid: while the stream is
  // captured, only its checkpoints of before the capture are asked.
  bool Poll(bool query_stream, absl::Status* error = nullptr)
      DEVRT_EXCLUDES(mutex_);

  // Whether the point is complete, by one question where that is not known; for
  // who may not wait, as captures forbid.  False where the answer would take a
  // question that ends a capture.
  bool AskFor(uint64_t epoch) DEVRT_EXCLUDES(mutex_);

  // After a Poll: whether no checkpoint is open and the calling thread may not
  // ask the stream: the device's synchronisation tells, or a look of the
  // program's.
  bool IsOutOfReach() const DEVRT_EXCLUDES(mutex_);

  // Whether another library captures the stream, as far as the calling thread
  // may ask: false for a stream that may be gone, or of another thread.
  absl::StatusOr<bool> IsCaptured() DEVRT_EXCLUDES(mutex_);

  static constexpr size_t kMostCheckpoints = 64;

  // ---- For streams/ ----

  // This stream has waited for an event with that capture.
  void Join(const Captured& captured) DEVRT_EXCLUDES(mutex_);
  // Before a native record: the capture's point and the stream's Order.
  void NoteCapture(uint64_t epoch, CaptureOrder* capture)
      DEVRT_EXCLUDES(mutex_) {
    if (has_order_.load(std::memory_order_acquire)) {
      NoteOrdered(epoch, capture);
    } else {
      capture->Note({this, epoch}, nullptr);
    }
  }
  // The native stream, once it is known.  `thread`: &t_state of the only
  // thread that it can be asked from, or nullptr.  `may_be_gone`: outside the
  // program's calls on it.  `shared`: see NoteShared.
  void Attach(devrt_stream handle, const void* thread, bool may_be_gone = false,
              bool shared = true) DEVRT_EXCLUDES(mutex_);
  // Whether the stream may be part of another library's capture: others have
  // its native handle, or it waits or has waited for what is part of one.
  bool MayCapture() const {
    return may_capture_.load(std::memory_order_relaxed) != 0;
  }
  // Others have the native handle from now on, and may capture the stream.
  void NoteShared() {
    may_capture_.fetch_or(kMayCapture, std::memory_order_relaxed);
  }
  // Around a native wait for an event that may be part of a capture, which the
  // stream then is, too: who uses it meanwhile asks.  `joined`: it is.
  void BeginJoin() {
    may_capture_.fetch_add(kJoining, std::memory_order_relaxed);
  }
  void EndJoin(bool joined) {
    if (joined) NoteShared();
    may_capture_.fetch_sub(kJoining, std::memory_order_relaxed);
  }

  enum class Last {
    kIdle,        // nothing runs on it
    kCheckpoint,  // work may run, and the handle is still good
    kUnknown,     // only the device's synchronisation will tell
  };
  // The native stream ends.  True: the caller destroys it if it has to; false:
  // somebody is asking it and will, where `destroy` says so.
  bool End(Last last, bool destroy) DEVRT_EXCLUDES(mutex_);
  // Whether the timeline may serve another native stream, and that.
  bool IsSpent() const DEVRT_EXCLUDES(mutex_);
  void Revive(Rule rule) DEVRT_EXCLUDES(mutex_);
  // The device's native objects are going: nothing runs.
  void Release() DEVRT_EXCLUDES(mutex_);
  // Before a wait for the whole device: what is complete after it.
  uint64_t BeginWait();

 private:
  friend class HeldStream;

  enum class Answer { kDone, kNotYet, kFailed };

  static constexpr uint32_t kMayCapture = 1;
  static constexpr uint32_t kJoining = 2;  // for each wait

  absl::StatusOr<bool> AskWhetherCaptured(devrt_stream handle) const;
  // Not OK while another library captures the native stream: what is recorded
  // then stands for nothing that runs, and to ask it would end the capture.
  absl::Status CheckNoCapture(devrt_stream handle) const;

  // Between them the native stream is not destroyed.  nullptr: there is none.
  devrt_stream Enter() DEVRT_EXCLUDES(mutex_);
  void Leave() DEVRT_EXCLUDES(mutex_);
  void NoteOrdered(uint64_t epoch, CaptureOrder* capture)
      DEVRT_EXCLUDES(mutex_);
  // Records a checkpoint behind all that is submitted.
  absl::Status Append(devrt_stream handle, bool last, Check** pinned = nullptr)
      DEVRT_EXCLUDES(mutex_);
  void Insert(Check* check) DEVRT_REQUIRES(mutex_);
  // The first that covers `epoch`.
  size_t FindCheck(uint64_t epoch) const DEVRT_REQUIRES(mutex_);
  Check* Pinned(uint64_t epoch) DEVRT_EXCLUDES(mutex_);
  // Makes room: every second one, but not the newest.
  void Thin() DEVRT_EXCLUDES(mutex_);
  // Takes out `first` to `last`; those that are not pinned are the caller's.
  Check* TakeOut(size_t first, size_t last) DEVRT_REQUIRES(mutex_);
  void PutChecks(Check* checks);
  Answer Ask(devrt_event event, absl::Status* error = nullptr);
  // kNotYet when one was not complete, kFailed when one was dropped, for
  // `error`.
  Answer AskChecks(bool* found, absl::Status* error) DEVRT_EXCLUDES(mutex_);
  // Not OK: the stream has no answer (Poll).
  absl::Status AskStream(devrt_stream handle);
  void ObtainDefault();
  // Makes up for checkpoints that were left out, now that there is room.
  void MakeUp(devrt_stream handle) DEVRT_EXCLUDES(mutex_);

  DeviceRecord* const device_;
  std::atomic<Rule> rule_;
  std::atomic<bool> has_order_{false};
  std::atomic<bool> ended_{false};
  std::atomic<bool> left_out_{false};         // a checkpoint, for want of room
  std::atomic<const void*> thread_{nullptr};  // see Attach
  std::atomic<bool> may_be_gone_{false};      // see Attach
  std::atomic<uint32_t> may_capture_{kMayCapture};  // and waits under way
  std::atomic<uint64_t> epoch_{1};
  std::atomic<uint64_t> completed_{0};
  std::atomic<uint64_t> since_{0};  // the first epoch of its native stream
  // Epoch of the newest checkpoint: none is needed for uses of before it.
  std::atomic<uint64_t> covered_{0};
  mutable Mutex mutex_;
  devrt_stream handle_ DEVRT_GUARDED_BY(mutex_) = nullptr;
  devrt_stream to_destroy_ DEVRT_GUARDED_BY(mutex_) = nullptr;
  uint32_t users_ DEVRT_GUARDED_BY(mutex_) = 0;  // between Enter and Leave
  bool polling_ DEVRT_GUARDED_BY(mutex_) = false;
  std::vector<Check*> checks_ DEVRT_GUARDED_BY(mutex_);  // by epoch
  std::unique_ptr<Order> order_ DEVRT_GUARDED_BY(mutex_);
};

// The stream's timeline, made with its native handle.
Timeline* TimelineOf(StreamRef stream);

// The timelines of one device and the events of their checkpoints.
class Timelines {
 public:
  explicit Timelines(DeviceRecord* device)
      : device_(device), legacy_(device, Timeline::Rule::kDefault) {
    all_.push_back(&legacy_);
  }

  Timeline* legacy() { return &legacy_; }
  // For a new native stream.
  Timeline* Take(bool blocking) DEVRT_EXCLUDES(mutex_);
  // One whose native stream has ended: it serves again when it is spent.
  void Retire(Timeline* timeline) DEVRT_EXCLUDES(mutex_);

  absl::StatusOr<Check*> TakeCheck() DEVRT_EXCLUDES(mutex_);
  void PutCheck(Check* check) DEVRT_EXCLUDES(mutex_);

  // Whether another library captures a stream of the device
  // (Timeline::IsCaptured).
  absl::StatusOr<bool> HasCaptured() DEVRT_EXCLUDES(mutex_);
  // Waits for the device by `wait`; then all submitted before is complete.
  absl::Status Synchronize(absl::FunctionRef<absl::Status()> wait)
      DEVRT_EXCLUDES(mutex_);
  // The device's native objects are going.
  void Release() DEVRT_EXCLUDES(mutex_);

 private:
  DeviceRecord* const device_;
  Timeline legacy_;
  Mutex mutex_;
  std::vector<Timeline*> all_ DEVRT_GUARDED_BY(mutex_);
  std::vector<Timeline*> retired_ DEVRT_GUARDED_BY(mutex_);
  size_t next_retired_ DEVRT_GUARDED_BY(mutex_) = 0;
  Check* checks_ DEVRT_GUARDED_BY(mutex_) = nullptr;  // with events, unused
};

// ---- What memory/ hears -----------------------------------------------------

// One range that an operation of devrt's touched.
struct UsedRange {
  const void* pointer;
  uint64_t bytes;
};

// After an operation was enqueued, with no lock held.  Cheap where all ranges
// are the stream's own.
using UseHook = void (*)(StreamRef stream, const UsedRange* ranges,
                         size_t count);
void SetUseHook(UseHook hook);

// A stream that programs know as `stream` is at its end, before its record is
// given another serial: open marks are closed by a checkpoint, its free blocks
// become anybody's.  No lock held; outside host functions.  Where the program
// destroyed the Stream inside a host function this comes later: calls through
// `stream` are refused by then, Checkpoint works.
using StreamEndHook = void (*)(StreamRef stream);
void SetStreamEndHook(StreamEndHook hook);

extern std::atomic<UseHook> g_use_hook;
extern std::atomic<StreamEndHook> g_stream_end_hook;

inline void NoteUses(StreamRef stream, const UsedRange* ranges, size_t count) {
  const UseHook hook = g_use_hook.load(std::memory_order_acquire);
  if (hook != nullptr) hook(stream, ranges, count);
}

// Whether anybody notes points at all.
inline bool AnyoneNotes() {
  return g_stream_end_hook.load(std::memory_order_acquire) != nullptr;
}
inline uint64_t Timeline::BeginLookIfNoted() {
  return AnyoneNotes() ? BeginLook() : 0;
}
inline void NoteStreamEnd(StreamRef stream) {
  const StreamEndHook hook = g_stream_end_hook.load(std::memory_order_acquire);
  if (hook != nullptr) hook(stream);
}

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_INTERNAL_TIMELINE_H_
