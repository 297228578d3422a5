// SPDX-License-Identifier: Apache-2.0
//
// Storage: the memory behind arrays, its uses by streams, and how it is freed.
//
// A use is a point of a stream's timeline (timeline.h): work that the stream
// was given up to that point may touch the memory.  Uses that are complete are
// dropped when an operation looks.  Of each stream the newest read and the
// newest write are kept.
//
//   read   waits for all writes
//   write  waits for all reads and writes
//
// A stream does not wait for a use that it already comes after: its own, a
// complete one, or one that it has waited for.  So work on one stream calls the
// backend for no order.
//
// The end of the last array ends the Storage.  Memory that devrt allocated goes
// back to its resource on the home stream, and the resource hands it out again
// only after the uses by other streams.  The owner of borrowed memory is kept
// until all uses are complete (E36).  Neither waits on the host.
//
// Plain host memory has no uses: every operation on it waits (E46).
//
// Threads: any.  One operation is one step for all other threads that use the
// memory: it holds the locks of its storages, taken in the order of their
// addresses, from the waits that it enqueues to the note of its use.  An
// enqueue that blocks, because a queue is full (C6) or because it copies plain
// host memory, holds up other threads that want the memory.  No lock is held
// while the host waits for other work, or while code of the program runs.

#ifndef DEVRT_ARRAYS_STORAGE_STORAGE_H_
#define DEVRT_ARRAYS_STORAGE_STORAGE_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "arrays/storage/outside_use.h"
#include "arrays/storage/storage_uses.h"
#include "devrt/arrays/place.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/mutex.h"
#include "devrt/streams/stream.h"
#include "streams/captures/captures.h"

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
  // For the functions below.  Public because std::allocate_shared calls it.
  Storage(Key key, const Place& place, Source source, void* base,
          uint64_t bytes, std::optional<StreamRef> home);

  // Allocates memory in `place`; device memory on its current stream.  With
  // zero bytes the storage has a place and no memory.
  static absl::StatusOr<std::shared_ptr<Storage>> Allocate(const Place& place,
                                                           uint64_t bytes,
                                                           CallSite site);
  // Allocates memory of the stream's device on `stream`.
  static absl::StatusOr<std::shared_ptr<Storage>> AllocateOn(StreamRef stream,
                                                             uint64_t bytes,
                                                             CallSite site);
  // Memory that devrt did not allocate.  `stream`: see PointerOptions.  If not
  // `joined`, operations do not wait for the stream's work so far.
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
  // The owner of borrowed memory; null for other memory.
  const std::shared_ptr<void>& owner() const { return owner_; }
  std::optional<StreamRef> home_stream() const { return home_; }
  // INVALID_ARGUMENT: a stream of another device, a destroyed stream, memory
  // that no device has.
  absl::Status SetDeallocationStream(StreamRef stream) DEVRT_EXCLUDES(mutex_);

  // See Array.
  absl::Status NoteUse(StreamRef stream, bool writes, CallSite site)
      DEVRT_EXCLUDES(mutex_);
  absl::Status RecordUse(StreamRef stream, CallSite site)
      DEVRT_EXCLUDES(mutex_);
  // RecordUse for a consumer that never says when it is done (E8).  Does
  // nothing if the memory goes back on `stream` anyway.
  absl::Status RecordConsumer(StreamRef stream, CallSite site)
      DEVRT_EXCLUDES(mutex_);
  // Notes the work up to now of `outside` as a use; nullopt stands for a stream
  // that devrt does not know.
  void NoteOutsideUse(const std::optional<OutsideUse>& outside, bool writes)
      DEVRT_EXCLUDES(mutex_);
  absl::Status OrderBefore(StreamRef stream, bool for_write, CallSite site);
  absl::Status Ready(CallSite site) DEVRT_EXCLUDES(mutex_);
  absl::StatusOr<bool> IsReady(CallSite site) DEVRT_EXCLUDES(mutex_);
  // Returns true if devrt enqueued work on the memory that is not known to be
  // complete.  Asks no backend, and knows nothing of work that others enqueue
  // on streams of RecordUse.
  DEVRT_EXPORT bool IsBusy() DEVRT_EXCLUDES(mutex_);
  // Returns true if `stream` has no use to wait for.  Asks the backend nothing
  // if `stream` or the stream of a use captures; then a use counts as pending
  // unless it is known to be complete.
  absl::StatusOr<bool> IsReadyFor(StreamRef stream, CallSite site)
      DEVRT_EXCLUDES(mutex_);
  // FAILED_PRECONDITION while a stream that uses the memory captures: the host
  // cannot wait for it, and other streams only inside that capture.
  absl::Status CheckMayWait() DEVRT_EXCLUDES(mutex_);

  // For a caller that holds the last reference (it has just read use_count() ==
  // 1) and destroys the storage next.  Gives the memory back if the allocator
  // can take it without a call of a backend, and without a wait for a thread
  // that is in such a call.  Otherwise does nothing and returns false.
  DEVRT_EXPORT bool EndPlainly() DEVRT_EXCLUDES(mutex_);
  // EndPlainly for borrowed memory: drops the owner, with no lock held, if
  // devrt enqueued no work on the memory.
  DEVRT_EXPORT bool EndUnused() DEVRT_EXCLUDES(mutex_);

  // Sets the line of the program that memory histories show for storages that
  // the calling thread ends from now on, because a destructor has no parameter
  // for it.  With {} histories show a line of devrt.  Returns the former value.
  DEVRT_EXPORT static CallSite SetEndSite(CallSite site);

 private:
  friend class OrderedStep;
  friend class StorageEnd;

  // Makes visible what other threads did before they dropped their references.
  void SeeOthers() DEVRT_EXCLUDES(mutex_);
  absl::InlinedVector<StorageUse, 4> PendingUses(bool captured = false)
      DEVRT_EXCLUDES(mutex_);
  void AddUse(const StorageUse& use, bool writes) DEVRT_EXCLUDES(mutex_);
  bool IsUsedOnlyBy(const Timeline* timeline) DEVRT_EXCLUDES(mutex_);
  // Adds the work that the home stream got so far as a use.  Called before
  // other threads see the storage.
  void AddHomeUse(CaptureNumber capture, bool imported);
  void AddLendersUse();

  const Place place_;
  const Source source_;
  const bool counted_;
  void* const base_;
  const uint64_t bytes_;
  const std::optional<StreamRef> home_;
  Timeline* const home_timeline_;  // of a stream that may have ended
  std::shared_ptr<void> owner_;
  bool has_ended_ = false;  // EndPlainly or EndUnused did it
  Mutex mutex_;
  StorageUses uses_ DEVRT_GUARDED_BY(mutex_);
  // The stream of SetDeallocationStream; keeps the native stream.
  std::optional<OutsideUse> deallocation_ DEVRT_GUARDED_BY(mutex_);
  // From RecordUse; they end with the storage.
  absl::InlinedVector<OutsideUse, 1> open_ DEVRT_GUARDED_BY(mutex_);
};

// Calls Storage::SetEndSite, and restores the former line at the end of the
// scope.
class EndSiteScope {
 public:
  explicit EndSiteScope(CallSite site) : former_(Storage::SetEndSite(site)) {}
  EndSiteScope(const EndSiteScope&) = delete;
  EndSiteScope& operator=(const EndSiteScope&) = delete;
  ~EndSiteScope() { Storage::SetEndSite(former_); }

 private:
  const CallSite former_;
};

// The stream that operations on memory in `place` run on: the current stream of
// its device.  Not for plain host memory.
StreamRef CurrentStreamOf(const Place& place);

// For tests.  Storages are counted from CountStoragesFromNow on, because a
// count that all threads share costs time.
struct StorageCounts {
  int64_t live;      // storages
  int64_t kept;      // owners, and memory, kept until uses are complete
  int64_t captured;  // ended storages that graphs still use
};
StorageCounts CountStorages();
void CountStoragesFromNow();

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_STORAGE_STORAGE_H_
