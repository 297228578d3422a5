// SPDX-License-Identifier: Apache-2.0
//
// StorageEnd: what is done when nobody has a storage any more.
//
//   memory of a caching allocator   goes back at once; uses by other streams
//                                   than the home stream hold it back there
//   of another resource             the stream that it goes back on comes after
//                                   all uses, by events
//   borrowed memory                 its home stream comes after all uses; its
//                                   owner is kept until they are complete (E36)
//
// Where a capture of another library has used the memory, all this comes when
// no graph of it is left: a graph keeps addresses.  If nothing tells when that
// is (CaptureNumber::kUnknown) the memory is kept for ever.
//
// Nothing waits on the host.  What is kept is let go by LetKeptGo, and leaked
// at the end of the process.
//
// Threads: any; belongs to who ends the storage.

#ifndef DEVRT_ARRAYS_STORAGE_STORAGE_END_H_
#define DEVRT_ARRAYS_STORAGE_STORAGE_END_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "arrays/storage/storage.h"

namespace devrt::internal {

class StorageEnd {
 public:
  // Whether that was all: memory of a device that only its home stream has used
  // goes back, and pinned memory that nobody has.
  static bool RunAtHome(const Storage& storage);
  // Whether no use but the home stream's keeps such memory.
  static bool IsAtHome(const Storage& storage);
  // Whether that was all: the owner of borrowed memory goes that devrt gave no
  // work to do, so that nothing is to be ordered or awaited.
  static bool DropUnused(Storage* storage);

  // Takes what the storage has to give back.
  explicit StorageEnd(Storage* storage);

  bool IsNeeded() const;
  // With no lock held, outside host functions.
  void Run();
  void Leak();

  // Whether the end of the new storage is to be counted, too.
  static bool CountNew();
  static void CountEnd(const Storage& storage);

  // Memory of as many bytes, as caches count them, that an array of the same
  // capture had on `stream` alone, and is through with: the graph has the
  // stream's order.  nullptr: none.
  static void* TakeFromGraph(StreamRef stream, CaptureNumber capture,
                             uint64_t bytes);

 private:
  struct InGraphs;
  struct AfterGraphs;

  // One without a pointer has a deleter all the same.
  bool HasOwner() const { return owner_.use_count() != 0; }
  // What was done there up to now; captured work apart.
  void Close(const OutsideUse& open);
  // Nothing can go back on a stream that has ended, but behind it; nor what is
  // borrowed, whose owner waits for it.
  void CloseDeallocation();
  // Open uses end now; those that are complete count no more, and captured
  // ones apart.
  void CloseUses();
  // Gives back when no graph of the captured uses is left.
  static void EndWithCaptures(StorageEnd end);
  void GiveBack();
  void FreeDeviceMemory();
  void FreePinnedMemory();
  void DropOwner();
  // The home stream, if it lives, comes after all uses.
  void OrderHome();
  // Whether `stream` comes after all uses.
  bool OrderAfterUses(StreamRef stream);
  void OrderAfterCaptured(StreamRef stream);
  // `past`: but for what it is past; may be null.
  void RecordCheckpoints(const Timeline* past);
  void Keep(std::function<void()> release);

  Storage::Source source_;
  void* base_;
  uint64_t bytes_;
  std::optional<StreamRef> home_;
  Timeline* home_timeline_;
  CallSite site_;  // of the end
  std::optional<OutsideUse> deallocation_;
  std::shared_ptr<void> owner_;
  absl::InlinedVector<StorageUse, 2> uses_;
  absl::InlinedVector<StorageUse, 1> captured_;
  absl::InlinedVector<OutsideUse, 1> open_;
};

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_STORAGE_STORAGE_END_H_
