// SPDX-License-Identifier: Apache-2.0
//
// OrderedStep: the locks, the waits and the uses of one step of an operation on
// arrays (storage_order.h).

#ifndef DEVRT_ARRAYS_STORAGE_ORDERED_STEP_H_
#define DEVRT_ARRAYS_STORAGE_ORDERED_STEP_H_

#include <cstddef>
#include <optional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "arrays/storage/storage_order.h"

namespace devrt::internal {

// The storages of one operation, each once, with their locks.
class OrderedStep {
 public:
  static constexpr size_t kMost = 8;

  // `touched` outlives the object.
  explicit OrderedStep(absl::Span<const Touched> touched);

  void Lock() DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
    for (const Touched& t : storages()) t.storage->mutex_.Lock();
  }
  void Unlock() DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
    for (const Touched& t : storages()) t.storage->mutex_.Unlock();
  }
  // The locks of several steps that run as one.  `storages` is sorted.
  static void Lock(absl::Span<Storage* const> storages)
      DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
    for (Storage* const storage : storages) storage->mutex_.Lock();
  }
  static void Unlock(absl::Span<Storage* const> storages)
      DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
    for (Storage* const storage : storages) storage->mutex_.Unlock();
  }

  // The functions below need the locks.

  // Returns true if Join has nothing to do, in the usual case: the step's
  // stream alone uses the memory.
  bool IsInOrder(const Step& step, const Timeline* timeline) const {
    return step.after.timeline == nullptr && AreUsesOnlyOf(timeline);
  }

  // Makes the step's stream wait for the uses of other streams, and for
  // `step.after`.  If it meets a point that only the host can wait for, it sets
  // `for_host` and stops.
  absl::Status Join(const Step& step, const StreamTarget& target,
                    CaptureNumber capture, std::optional<OrderPoint>* for_host);
  // A use that the host has to wait for.  Uses up to `done` are complete.
  std::optional<StorageUse> FindPending(OrderPoint done = {});
  void Note(StreamRef stream, CaptureNumber capture, bool ordered);

 private:
  // Returns true if no other stream uses the memory.
  bool AreUsesOnlyOf(const Timeline* timeline) const
      DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
    for (const Touched& t : storages()) {
      if (!t.storage->uses_.AreOnlyOf(timeline)) return false;
    }
    return true;
  }
  // Calls f for each use that the operation has to wait for.
  template <typename F>
  void ForEachUse(F f);

  absl::Span<const Touched> storages() const { return {storages_, count_}; }

  const absl::Span<const Touched> touched_;
  Touched storages_[kMost];  // sorted by address, so that locks have one order
  size_t count_ = 0;
};

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_STORAGE_ORDERED_STEP_H_
