// SPDX-License-Identifier: Apache-2.0
//
// Timeline: how far one native stream has come, as devrt knows without waiting.
//
// A timeline is made of parts, each with one subject, and its own lock or none:
//
//   EpochClock      the time of the stream, and what is complete
//   NativeHandle    the native handle, and which calls may use it
//   CheckpointList  events of devrt's own behind uses that somebody waits for
//   KnownOrder      what the stream comes after besides its own work
//
// The timeline itself says what a point is ordered after (IsAfter), decides
// when a checkpoint is recorded (Checkpoint), and queries the driver (Poll):
//
//   a use was enqueued       OrderPoint p = {&timeline, timeline.Now()};
//   somebody will wait       timeline.Checkpoint(p.epoch)
//   somebody waits           timeline.Poll(true)
//   later, on any thread     timeline.IsComplete(p.epoch)
//
// Identity: a timeline belongs to one native stream.  So neither a recycled
// Stream nor a driver's handle that comes back is taken for another stream
// (C100, F20).  A Stream that the recycler hands out again keeps its native
// stream and so its timeline.  When the native stream ends, a last checkpoint
// covers its work.  Once that checkpoint is complete, so is every point that
// anybody may have, and the timeline serves a new native stream, in later
// epochs.  Timelines are never freed; one takes 320 bytes, and shares no line
// of the cache with another.
//
// Threads: any.  No lock is held while another one is taken, or while the
// driver is called.

#ifndef DEVRT_STREAMS_TIMELINES_TIMELINE_H_
#define DEVRT_STREAMS_TIMELINES_TIMELINE_H_

#include <atomic>
#include <cstdint>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "runtime/registry/records.h"
#include "streams/timelines/checkpoint_list.h"
#include "streams/timelines/checkpoint_pool.h"
#include "streams/timelines/epoch_clock.h"
#include "streams/timelines/event_order.h"
#include "streams/timelines/known_order.h"
#include "streams/timelines/native_handle.h"
#include "streams/timelines/order.h"

namespace devrt::internal {

class alignas(64) Timeline : public EpochClock {
 public:
  // How the rule of the default stream orders the stream (C8).
  enum class Rule : uint8_t { kNone, kBlocking, kDefault };

  // `capture` is the extension of `device` and outlives the timeline.
  Timeline(DeviceRecord* device, CheckpointPool* events,
           const ExtensionOf<devrt_capture_v0>* capture, Rule rule)
      : device_(device),
        rule_(rule),
        events_(events),
        native_(device, capture),
        checkpoints_(device, events, this),
        order_(this) {}
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  DeviceRecord* device() const { return device_; }
  NativeHandle& native() { return native_; }
  const NativeHandle& native() const { return native_; }

  // ---- Looks of the program -------------------------------------------------

  // Completes `epoch` after a look, unless the handle means another stream on
  // the calling thread (NativeHandle::IsValidOnThisThread).
  void CompleteHere(uint64_t epoch) {
    if (native_.IsValidOnThisThread()) Complete(epoch);
  }

  // ---- Order ----------------------------------------------------------------

  // Returns true if work that is submitted to the stream from now on comes
  // after `point`: `point` is of this stream or complete, the stream has waited
  // for it, or the rule of the default stream orders the two (C8: a default and
  // a blocking stream of one device).
  bool IsAfter(const OrderPoint& point) const;
  // Returns what IsAfter returns without the rule of the default stream.  If
  // true, a stream that waits for this stream comes after `point` too.  The
  // rule of the default stream does not allow that conclusion: it delays
  // operations only, so a stream that gets no operation may be found complete
  // while `point` is not.
  bool IsPast(const OrderPoint& point) const;
  // Notes that the stream has waited for an event that was recorded at
  // `waited`.
  void Join(const OrderedPoint& waited) {
    if (native_.IsValidOnThisThread()) order_.Join(waited);
  }
  // Begins a look (EpochClock) for a wait of `taker`.  `point` receives the
  // point that the look covers, and what the stream comes after at that point.
  void BeginOrderedLook(const Timeline* taker, OrderedPoint* point) {
    point->point = {this, BeginLook()};
    point->order.count = 0;
    order_.CopyTo(&point->order, taker);
  }
  // Notes in `event` that it is recorded at `epoch`.  Called before the native
  // record.
  void NoteIn(EventOrder* event, uint64_t epoch) {
    order_.NoteIn(event, {this, epoch});
  }

  // A wait of another stream for this one records this event; nullptr: not made
  // yet.  Threads may share the event: a wait is for its newest record, and
  // each record is behind the work before it.  The event stays when the native
  // stream ends, for the next one.
  devrt_event event_of_waits() const {
    const CheckpointEvent* const event =
        event_of_waits_.load(std::memory_order_acquire);
    return ABSL_PREDICT_TRUE(event != nullptr) ? event->event : nullptr;
  }
  absl::StatusOr<devrt_event> MakeEventOfWaits();

  // ---- Checkpoints ----------------------------------------------------------

  // Records a checkpoint on the stream, behind the use whose Now() was `epoch`.
  // Does nothing if an open checkpoint covers `epoch`.  Calls the backend: no
  // lock may be held, and the thread must be outside host functions.  The
  // checkpoint is left out while CheckpointList::kMost are open or another
  // library captures the stream; a later Poll that finds a complete checkpoint
  // records it.  FAILED_PRECONDITION for another thread's per-thread stream.
  absl::Status Checkpoint(uint64_t epoch);
  // Calls Checkpoint from a call of the program that does not name the stream.
  // Records nothing if the native stream may already be destroyed, since the
  // handle must not be used then (NativeHandle::MayBeDestroyed).
  absl::Status CheckpointUnlessDestroyed(uint64_t epoch) {
    return native_.MayBeDestroyed() ? absl::OkStatus() : Checkpoint(epoch);
  }
  // Calls Checkpoint for a stream that needs eager checkpoints (below).  Makes
  // room in a full list first, because no later call could record the
  // checkpoint.
  absl::Status CheckpointEagerly(uint64_t epoch);
  // Returns true if a checkpoint may not be complete.  Takes no lock.
  bool HasOpenCheckpoint() const { return !IsComplete(checkpoints_.covered()); }
  // Returns true if later queries are impossible: the stream was adopted
  // without an owner, or it is a per-thread stream.  Checkpoints are then
  // recorded with the use, and not when somebody waits.
  bool NeedsEagerCheckpoints() const { return native_.IsForPresentCallOnly(); }
  // Returns a checkpoint to wait for, on the host or on a stream: the oldest
  // that covers `epoch`, or a new one, even if the list is full.  The caller
  // gives it back by Unpin.  `covered` receives the point that the checkpoint
  // stands for.  Returns nullptr if the epoch is complete, or if the calling
  // thread cannot reach the stream.
  absl::StatusOr<CheckpointEvent*> PinCheckpoint(uint64_t epoch,
                                                 OrderedPoint* covered);
  void Unpin(CheckpointEvent* check) { checkpoints_.Unpin(check); }

  // ---- Queries --------------------------------------------------------------

  // Queries checkpoints, oldest first, until one is not complete.  If none is
  // left and `query_stream` is set, queries the stream, unless the native
  // stream may be destroyed.  Returns true if more work is known to be
  // complete.  Does nothing while another thread polls.
  //
  // A query that fails completes nothing: the uses stay pending until a later
  // look sees the end (docs/reference/semantics.md 2.4).  `error` receives why
  // no answer can be relied on: the query of the stream failed, another library
  // captures the stream, or the query of a checkpoint failed.  A failed
  // checkpoint is removed and the stream is queried in its place, which may
  // complete the point all the same.  A caller that finds an error and an
  // incomplete point gives up, because another query need not change the
  // answer.
  //
  // No capture becomes invalid: while another library captures the stream, only
  // checkpoints from before the capture are queried.
  bool Poll(bool query_stream, absl::Status* error = nullptr) {
    return Poll({query_stream, UINT64_MAX, false}, error);
  }
  // Polls, but queries the stream only if checkpoints leave `epoch` incomplete:
  // on CUDA a query of a stream costs several times one of an event.
  bool PollFor(uint64_t epoch, absl::Status* error = nullptr) {
    return Poll({true, epoch, false}, error);
  }
  // Makes one query: of the oldest checkpoint that covers `epoch`, or of the
  // newest one, or of the stream if no checkpoint is open.  If the query of the
  // checkpoint leaves `epoch` incomplete without an answer of "not yet", the
  // stream is queried as well.  Makes no query if `epoch` is complete.  For
  // callers that come often.
  bool PollOnceFor(uint64_t epoch) {
    return Poll({true, epoch, true}, nullptr);
  }
  // Returns true if `epoch` is complete.  Makes one query if that is not
  // known.  For callers that may not wait, because a capture forbids it:
  // returns false if the query would make a capture invalid.
  bool QueryEpoch(uint64_t epoch);
  // After a Poll: returns true if no checkpoint is open and the calling thread
  // may not query the stream.  Then only a wait for the device, or a look of
  // the program at the stream, tells.
  bool IsOutOfReach() const;

  // ---- The life of the native stream ----------------------------------------

  // Returns the native handle of the device's default stream, whose timeline
  // this is.  The first call makes the handle: outside of host functions.
  absl::StatusOr<devrt_stream> ObtainDefaultHandle();
  // How the native stream ends.
  enum class EndState {
    kIdle,     // no work runs on it
    kBusy,     // work may run, and the handle still takes a checkpoint
    kUnknown,  // only a wait for the device tells
  };
  // Called when the native stream ends.  Returns true if the caller has to
  // destroy the native stream.  Returns false if a thread that borrows the
  // handle will destroy it, provided `destroy` is set.
  bool End(EndState state, bool destroy);
  // Returns true if the timeline may serve another native stream.
  bool IsSpent() const;
  // Serves another native stream from now on.
  void Revive(Rule rule);
  // Called when the device destroys its native objects: no work runs any more.
  void Release();
  // Called before a wait for the whole device.  Returns the epoch that is
  // complete after the wait.
  uint64_t BeginWait();

 private:
  struct Effort {
    bool query_stream;
    uint64_t enough;  // the stream is not queried if this is complete
    bool once;        // PollOnceFor
  };
  bool Poll(const Effort& effort, absl::Status* error);
  // What a poll calls with the handle, after the queries of checkpoints, which
  // found complete ones and failed as the arguments say.
  void FinishPoll(bool query_stream, bool found, absl::Status failed,
                  absl::Status* error);
  // Queries the stream, whose handle is borrowed.  Returns an error if the
  // query gave no answer.
  absl::Status QueryStream(devrt_stream handle);
  // Borrows the handle; nullptr: there is none.  Obtains the handle of a
  // default stream that the program has not named yet, on which other libraries
  // may work.
  absl::StatusOr<devrt_stream> BorrowHandle();
  // Makes room for one more checkpoint.
  void MakeRoom();
  // Records the checkpoint that was left out, if there is one.
  void RecordLeftOut(devrt_stream handle);

  DeviceRecord* const device_;
  std::atomic<Rule> rule_;
  std::atomic<bool> ended_{false};
  CheckpointPool* const events_;
  std::atomic<CheckpointEvent*> event_of_waits_{nullptr};
  NativeHandle native_;
  CheckpointList checkpoints_;
  KnownOrder order_;
};

inline void OrderedPoint::CompleteAll() const {
  point.timeline->Complete(point.epoch);
  if (order.count != 0) order.CompleteAll();
}

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_TIMELINES_TIMELINE_H_
