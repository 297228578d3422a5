// SPDX-License-Identifier: Apache-2.0
//
// StorageEnd: gives memory back when no array and no consumer has it any more.
//
//   memory of a caching allocator   goes back at once; uses by streams other
//                                   than the home stream hold it back in the
//                                   allocator
//   memory of another resource      the stream that it goes back on waits for
//                                   all uses, by events
//   borrowed memory                 its home stream waits for all uses; its
//                                   owner is kept until they are complete (E36)
//
// Memory that a graph capture of another library has used goes back when no
// graph of the capture is left, because a graph keeps addresses.  If nothing
// tells when that is (CaptureNumber::kUnknown) the memory is kept for ever.
//
// Nothing waits on the host; what cannot end yet is kept (storage_kept.h).
//
// Threads: any.  A StorageEnd belongs to the thread that ends the storage.

#ifndef DEVRT_ARRAYS_STORAGE_STORAGE_END_H_
#define DEVRT_ARRAYS_STORAGE_STORAGE_END_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "arrays/storage/storage.h"

namespace devrt::internal {

class StorageEnd {
 public:
  // Gives memory of a caching allocator back if no stream but the home stream
  // uses it.  Returns true if that was all that the end has to do.
  static bool RunAtHome(const Storage& storage);
  // Returns true if RunAtHome would give the memory back.
  static bool IsAtHome(const Storage& storage);
  // Drops the owner of borrowed memory that devrt gave no work to.  Returns
  // true if that was all: nothing has to be ordered or awaited.
  static bool DropUnused(Storage* storage);

  // Takes what the storage has to give back.
  explicit StorageEnd(Storage* storage);

  // Returns false if there is nothing to give back and nothing to order.
  bool IsNeeded() const;
  // Ends the storage.  Call it with no lock held, outside host functions.
  void Run();
  // Keeps the owner for ever, at the end of the process.
  void Leak();

  // For tests: counts a new storage, if CountStoragesFromNow was called, and
  // returns true if the storage's end is to be counted as well.
  static bool CountNew();
  static void CountEnd(const Storage& storage);
  // The number of ends that wait for graphs.
  static int64_t CountInGraphs();

  // Returns memory of an array that has ended in the same capture and was used
  // on `stream` alone, so that the graph's own order separates the two uses.
  // The memory has `bytes` bytes after the caches' rounding.  Returns nullptr
  // if there is none.
  static void* TakeFromGraph(StreamRef stream, CaptureNumber capture,
                             uint64_t bytes);

 private:
  struct InGraphs;
  struct AfterGraphs;

  // True also for an owner that holds a null pointer, which has a deleter.
  bool HasOwner() const { return owner_.use_count() != 0; }
  // Ends an open use: adds a use for the work that its stream got up to now.
  void Close(const OutsideUse& open);
  // Turns the deallocation stream into a use, which is waited for, if the
  // memory cannot go back on that stream: the stream has ended, or the memory
  // is borrowed.
  void CloseDeallocation();
  // Closes all open uses, drops complete uses and moves captured ones into
  // captured_.
  void CloseUses();
  // Returns true if the memory came from `stream` and was used there alone,
  // outside captures or in this one.
  bool IsOnlyOf(StreamRef stream, CaptureNumber capture) const;
  // Gives the memory back when no graph of the captured uses is left.
  static void EndWithCaptures(StorageEnd end);
  void GiveBack();
  void FreeDeviceMemory();
  void FreePinnedMemory();
  void DropOwner();
  // Makes the home stream, if it lives, wait for all uses.
  void OrderHome();
  // Makes `stream` wait for all uses.  Returns false if it could not.
  bool OrderAfterUses(StreamRef stream);
  // Adds the captured uses to the graph as edges, if `stream` is in the same
  // capture.
  void OrderAfterCaptured(StreamRef stream);
  // Records events behind the uses.  Leaves out uses that the stream of `past`
  // comes after anyway; `past` may be null.
  void RecordCheckpoints(const Timeline* past);

  Storage::Source source_;
  void* base_;
  uint64_t bytes_;
  std::optional<StreamRef> home_;
  Timeline* home_timeline_;
  CallSite site_;  // where the program ended the storage
  std::optional<OutsideUse> deallocation_;
  std::shared_ptr<void> owner_;
  absl::InlinedVector<StorageUse, 2> uses_;
  absl::InlinedVector<StorageUse, 1> captured_;
  absl::InlinedVector<OutsideUse, 1> open_;
};

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_STORAGE_STORAGE_END_H_
