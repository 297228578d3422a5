// SPDX-License-Identifier: Apache-2.0
//
// StorageUses: the uses of a storage's memory, reads and writes apart.
//
// The newest point of each timeline is kept.  A point is dropped when a later
// operation has waited for it: a write that waited for all other uses replaces
// them.
//
// Captured uses (captures.h) order operations of the same capture only.  They
// are kept as long as a graph of the capture exists, which may use the memory.
//
// Threads: the lock of the storage protects its uses.

#ifndef DEVRT_ARRAYS_STORAGE_STORAGE_USES_H_
#define DEVRT_ARRAYS_STORAGE_STORAGE_USES_H_

#include <cstddef>
#include <cstdint>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/container/inlined_vector.h"
#include "devrt/streams/stream.h"
#include "streams/captures/captures.h"
#include "streams/timelines/timeline.h"

namespace devrt::internal {

struct StorageUse : OrderPoint {
  StorageUse(const OrderPoint& point, StreamRef of)
      : OrderPoint(point), stream(of) {}

  StreamRef stream;  // may have ended
  // The capture that recorded the work, which therefore does not run now.
  CaptureNumber capture = CaptureNumber::kNone;
  bool imported = false;  // work of the producer, from before the import
  bool late = false;      // work of others, after the Stream had ended

  bool captured() const { return capture != CaptureNumber::kNone; }
};

class StorageUses {
 public:
  using List = absl::InlinedVector<StorageUse, 1>;

  const List& reads() const { return reads_; }
  const List& writes() const { return writes_; }
  bool empty() const { return reads_.empty() && writes_.empty(); }

  // Returns true if all uses are of that stream and none is captured.
  bool AreOnlyOf(const Timeline* timeline) const {
    return sole_ == timeline || empty();
  }

  // Adds a use that has waited for no other.
  void Add(const StorageUse& use, bool writes) {
    if (!IsNoted(use, writes)) MergeUse(use, writes);
  }
  // Adds the first use.
  void AddFirst(const StorageUse& use) {
    writes_.push_back(use);
    sole_ = use.captured() ? nullptr : use.timeline;
  }
  // Adds an operation that waited for the uses that it depends on.  Drops the
  // uses that `use.timeline` already comes after.
  void AddOrdered(const StorageUse& use, bool writes) {
    if (ABSL_PREDICT_FALSE(!IsNoted(use, writes))) MergeOrdered(use, writes);
  }
  // Drops complete uses, and captured ones without a graph.
  void DropComplete();

 private:
  // Keeps the later of two points: threads may add them in either order.
  static void KeepLater(const StorageUse& use, StorageUse* known) {
    const bool imported = known->imported && use.imported;
    if (known->epoch <= use.epoch) *known = use;
    known->imported = imported;
  }
  static void Merge(const StorageUse& use, List* list);
  // Returns true if Add and AddOrdered would change nothing: the stream is the
  // only one, and nobody has looked at it since its last use.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool IsNoted(const StorageUse& use,
                                            bool writes) {
    Noted& noted = noted_[writes ? 1 : 0];
    if (ABSL_PREDICT_TRUE(
            noted.epoch == use.epoch && noted.serial == use.stream.serial() &&
            sole_ == use.timeline && !use.captured() && !use.late)) {
      return true;
    }
    return LearnsNoted(use, writes);
  }
  bool LearnsNoted(const StorageUse& use, bool writes);
  bool IsInList(const StorageUse& use, bool writes) const {
    const List& same = writes ? writes_ : reads_;
    if (same.size() != 1 || (writes && !reads_.empty())) return false;
    const StorageUse& known = same.front();
    return known.timeline == use.timeline && known.epoch == use.epoch &&
           known.stream == use.stream && !known.captured() && !use.captured() &&
           !known.imported && !known.late && !use.late;
  }
  void MergeUse(const StorageUse& use, bool writes);
  void MergeOrdered(const StorageUse& use, bool writes);
  // Drops uses of captures that no graph is left of.
  void DropOver();
  // Sets `sole_`.  Called after each change.
  void FindSole();
  // Called with each change.
  void ForgetNoted() { noted_[0] = noted_[1] = {}; }

  List reads_;
  List writes_;
  // The stream of all uses.  nullptr if there are several, one is captured, or
  // there is no use.
  const Timeline* sole_ = nullptr;
  // For a read and a write: the use of the stream `sole_` for which IsNoted has
  // last returned true.  No epoch is 0.
  struct Noted {
    uint64_t epoch = 0;
    uint64_t serial = 0;
  } noted_[2];
};

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_STORAGE_STORAGE_USES_H_
