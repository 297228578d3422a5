// SPDX-License-Identifier: Apache-2.0
//
// Storage: the memory behind arrays, who must free it, and who still uses it.
//
// A use is a point of a stream's timeline (timeline.h): what was submitted up
// to it may touch the memory.  Uses that are complete are dropped when somebody
// looks; the newest of each stream is kept, reads and writes apart.
//
//   read   comes after all writes
//   write  comes after all reads and writes
//
// A stream that is known to be after a use (by being the same, by completion,
// by an Order) waits for nothing: same-stream work issues no call of the
// backend.
//
// The end of the last array ends the Storage: memory of devrt's goes back to
// its resource in the order of the home stream, which the resource's own marks
// hold back (memory.h); what is borrowed keeps its owner until all uses are
// complete (E36), without a wait.
//
// Plain host memory has no uses: who touches it has waited (E46).
//
// Threads: any.  One operation is one step for all others on the same memory:
// the locks of its storages, taken in the order of their addresses, are held
// over its joins and its enqueue, and no longer.  An enqueue that has to wait
// for a full queue (C6), or while plain host memory is copied, holds up those
// who want the same memory.  No lock is held while the host waits for other
// work or code of the program runs.

#ifndef DEVRT_ARRAYS_STORAGE_STORAGE_H_
#define DEVRT_ARRAYS_STORAGE_STORAGE_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/optimization.h"
#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "arrays/exchange/outside_use.h"
#include "arrays/storage/storage_uses.h"
#include "devrt/arrays/place.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/mutex.h"
#include "devrt/streams/stream.h"
#include "streams/internal/captures.h"
#include "streams/internal/stream_target.h"

namespace devrt {
class Array;
}  // namespace devrt

namespace devrt::internal {

class StorageEnd;

class Storage {
  enum class Source : uint8_t { kNothing, kHost, kPinned, kDevice, kBorrowed };
  class Key {
    friend class Storage;
    explicit Key() {}
  };

 public:
  // For the functions below: public for std::allocate_shared.
  Storage(Key key, const Place& place, Source source, void* base,
          uint64_t bytes, std::optional<StreamRef> home);

  // `bytes` of the place's memory; device memory on its current stream.  Zero
  // bytes: no memory, but a place.
  static absl::StatusOr<std::shared_ptr<Storage>> Allocate(const Place& place,
                                                           uint64_t bytes,
                                                           CallSite site);
  // The same on `stream`, of the place's device.
  static absl::StatusOr<std::shared_ptr<Storage>> AllocateOn(StreamRef stream,
                                                             uint64_t bytes,
                                                             CallSite site);
  // Borrowed.  `stream`: see PointerOptions.  Not `joined`: operations do not
  // come after what it was given so far.
  struct Borrowed {
    void* base = nullptr;
    uint64_t bytes = 0;
    std::shared_ptr<void> owner;
    std::optional<StreamRef> stream;
    bool joined = true;
  };
  static std::shared_ptr<Storage> Borrow(const Place& place,
                                         Borrowed&& borrowed);

  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  const Place& place() const { return place_; }
  void* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  // Of borrowed memory; else null.
  const std::shared_ptr<void>& owner() const { return owner_; }
  std::optional<StreamRef> home_stream() const { return home_; }
  // INVALID_ARGUMENT: a stream of another device, a destroyed one, memory that
  // is no device's.
  absl::Status SetDeallocationStream(StreamRef stream) DEVRT_EXCLUDES(mutex_);

  // See Array.
  absl::Status NoteUse(StreamRef stream, bool writes, CallSite site)
      DEVRT_EXCLUDES(mutex_);
  absl::Status RecordUse(StreamRef stream, CallSite site)
      DEVRT_EXCLUDES(mutex_);
  // RecordUse of who is told of nothing later (E8).  Nothing where the
  // memory goes back in the order of `stream` anyway.
  absl::Status RecordConsumer(StreamRef stream, CallSite site)
      DEVRT_EXCLUDES(mutex_);
  // What was done up to now; nullopt: on a stream that devrt does not know.
  void NoteOutsideUse(const std::optional<OutsideUse>& outside, bool writes)
      DEVRT_EXCLUDES(mutex_);
  absl::Status OrderBefore(StreamRef stream, bool for_write, CallSite site);
  absl::Status Ready(CallSite site) DEVRT_EXCLUDES(mutex_);
  absl::StatusOr<bool> IsReady(CallSite site) DEVRT_EXCLUDES(mutex_);
  // Whether devrt gave it work that is not known to be over; asks nobody, and
  // knows nothing of what others do on streams of RecordUse.
  DEVRT_EXPORT bool IsBusy() DEVRT_EXCLUDES(mutex_);
  // Whether `stream` has nothing to wait for.  Asks nothing where that or the
  // stream of a use captures: what is not known to be over is pending.
  absl::StatusOr<bool> IsReadyFor(StreamRef stream, CallSite site)
      DEVRT_EXCLUDES(mutex_);
  // FAILED_PRECONDITION while a stream that uses the memory captures: neither
  // the host nor, but in the same capture, another stream can wait for it.
  absl::Status CheckMayWait() DEVRT_EXCLUDES(mutex_);

  // For the only one who has the storage, who has just read use_count() == 1,
  // and destroys it next: gives the memory back where that is a note in its
  // allocator, which calls no backend and waits for nobody who does.  False,
  // with nothing done, elsewhere.
  DEVRT_EXPORT bool EndPlainly() DEVRT_EXCLUDES(mutex_);
  // The same for borrowed memory that devrt gave no work to do: lets its owner
  // go, with no lock held.
  DEVRT_EXPORT bool EndUnused() DEVRT_EXCLUDES(mutex_);

  // Where the program lets storages go that the calling thread ends from now
  // on, for memory histories: no caller of a destructor can say it.  {}:
  // unknown, which histories show as the library's own line.  Returns what was
  // set before.
  DEVRT_EXPORT static CallSite SetEndSite(CallSite site);

 private:
  friend class OrderedStep;
  friend class StorageEnd;

  void SeeOthers() DEVRT_EXCLUDES(mutex_);
  absl::InlinedVector<StorageUse, 4> PendingUses(bool captured = false)
      DEVRT_EXCLUDES(mutex_);
  void AddUse(const StorageUse& use, bool writes) DEVRT_EXCLUDES(mutex_);
  bool IsUsedOnlyBy(const Timeline* timeline) DEVRT_EXCLUDES(mutex_);
  // What its home stream was given so far, before anybody else has it.
  void AddHomeUse(CaptureNumber capture, bool imported);
  void AddLendersUse();

  const Place place_;
  const Source source_;
  const bool counted_;
  void* const base_;
  const uint64_t bytes_;
  const std::optional<StreamRef> home_;
  Timeline* const home_timeline_;  // its stream may have ended
  std::shared_ptr<void> owner_;
  bool has_ended_ = false;  // by EndPlainly or EndUnused
  Mutex mutex_;
  StorageUses uses_ DEVRT_GUARDED_BY(mutex_);
  // Its native stream outlives its Stream, as that of a RecordUse.
  std::optional<OutsideUse> deallocation_ DEVRT_GUARDED_BY(mutex_);
  // By RecordUse: closed at the end.
  absl::InlinedVector<OutsideUse, 1> open_ DEVRT_GUARDED_BY(mutex_);
};

// Storage::SetEndSite until the scope ends.
class EndSiteScope {
 public:
  explicit EndSiteScope(CallSite site) : former_(Storage::SetEndSite(site)) {}
  EndSiteScope(const EndSiteScope&) = delete;
  EndSiteScope& operator=(const EndSiteScope&) = delete;
  ~EndSiteScope() { Storage::SetEndSite(former_); }

 private:
  const CallSite former_;
};

// INVALID_ARGUMENT, of an array without a storage: "Fill on an Array that was
// moved from: ...".
absl::Status MovedFromError(const char* call);
inline absl::Status CheckNotMovedFrom(const std::shared_ptr<Storage>& storage,
                                      const char* call) {
  if (ABSL_PREDICT_TRUE(storage != nullptr)) return absl::OkStatus();
  return MovedFromError(call);
}

// Where a step of an operation runs.
struct Step {
  StreamRef stream;
  CallSite site;
  // The capture that the stream is part of, if the caller has asked.
  std::optional<CaptureNumber> capture = std::nullopt;
};

// Memory that a step reads, or also writes.
struct Touched {
  Storage* storage;
  bool writes;
};

// Submits the work of a step.  The stream has been checked.
using Enqueue = absl::FunctionRef<absl::Status(const StreamTarget& target)>;

// One step of an operation on arrays.  Orders the step's stream after what other
// streams do to the memory, calls `enqueue`, and notes a use of the memory, all
// as one step for other threads that use the same memory.  If the ordering fails
// nothing is enqueued, and waits that were enqueued stay.  What `enqueue`
// submitted before it failed counts as a use.
absl::Status RunOrdered(const Step& step, absl::Span<const Touched> touched,
                        Enqueue enqueue);

// RunOrdered for an enqueue that may hold its caller up until its turn comes,
// as copies of plain host memory do: the host waits first, with no lock held,
// for the stream and for what other streams do to the operands.  The stream is
// not capturing.
absl::Status RunDrained(const Step& step, absl::Span<const Touched> touched,
                        Enqueue enqueue);

// Waits on the host for the use.  FAILED_PRECONDITION while its stream is
// capturing: to wait for what it was given, or to ask, would end the capture.
absl::Status WaitForUse(const StorageUse& use, CallSite site);
absl::Status CheckMayAsk(const StorageUse& use);

// The same for the calling thread: waits for what streams do to the operands
// and calls `access`, which enqueues and waits for nothing.
absl::Status RunOnHost(absl::Span<const Touched> touched, CallSite site,
                       absl::FunctionRef<absl::Status()> access);

// The stream on which operations on memory there run: the current one of its
// device.  Not for plain host memory.
StreamRef CurrentStreamOf(const Place& place);

// For tests: storages that live, of those made after CountStoragesFromNow (a
// count that all threads share costs each of them), owners of borrowed memory,
// or its likes, that are kept for uses which are not complete, and what
// captures have used.
struct StorageCounts {
  int64_t live;
  int64_t kept;
  int64_t captured;
};
StorageCounts CountStorages();
void CountStoragesFromNow();
// Lets go what is kept for uses that are complete by now, and for captures that
// no graph is left of.  Every operation on arrays does it.  The driver
// is asked nothing while `beside`, a stream that lives, is capturing; and never
// so that a capture becomes invalid (Timeline::Poll).
void LetKeptGo(std::optional<StreamRef> beside = std::nullopt);
// Whether it may have anything to let go.
DEVRT_EXPORT bool HasKept();
// All of them, for callers that have just waited.
DEVRT_EXPORT void LetAllKeptGo();

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_STORAGE_STORAGE_H_
