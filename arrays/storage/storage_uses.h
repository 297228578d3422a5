// SPDX-License-Identifier: Apache-2.0
//
// StorageUses: who uses the memory of a storage, reads and writes apart.
//
// The newest point of each timeline is kept, and none that an operation which
// was noted later is after: a write that came after all others stands for them.
//
// Captured uses (captures.h) order others of the same capture and nothing else.
// They are kept as long as a graph of it is: until then the memory is used.
//
// Not synchronised: belongs to the storage's lock.

#ifndef DEVRT_ARRAYS_STORAGE_STORAGE_USES_H_
#define DEVRT_ARRAYS_STORAGE_STORAGE_USES_H_

#include <cstddef>
#include <cstdint>

#include "absl/base/optimization.h"
#include "absl/container/inlined_vector.h"
#include "devrt/streams/stream.h"
#include "streams/internal/captures.h"
#include "streams/internal/timeline.h"

namespace devrt::internal {

struct StorageUse : OrderPoint {
  StorageUse(const OrderPoint& point, StreamRef of)
      : OrderPoint(point), stream(of) {}

  StreamRef stream;  // may have ended
  // Of which it is: work that another library captures does not run.
  CaptureNumber capture = CaptureNumber::kNone;
  bool imported = false;  // what the memory was borrowed with, not devrt's
  bool late = false;      // its Stream had ended: of others, who went on

  bool captured() const { return capture != CaptureNumber::kNone; }
};

class StorageUses {
 public:
  using List = absl::InlinedVector<StorageUse, 1>;

  const List& reads() const { return reads_; }
  const List& writes() const { return writes_; }
  bool empty() const { return reads_.empty() && writes_.empty(); }

  // Whether there are none but of that stream, and no captured ones.
  bool AreOnlyOf(const Timeline* timeline) const {
    for (const List* list : {&writes_, &reads_}) {
      for (const StorageUse& use : *list) {
        if (use.timeline != timeline || use.captured()) return false;
      }
    }
    return true;
  }

  // Beside all others.
  void Add(const StorageUse& use, bool writes) {
    if (ABSL_PREDICT_FALSE(use.captured())) DropOver();
    Merge(use, writes ? &writes_ : &reads_);
  }
  // Before any other.
  void AddFirst(const StorageUse& use) { writes_.push_back(use); }
  // An operation that was ordered after what it had to come after, and with it
  // everything that `use.timeline` is past.
  void AddOrdered(const StorageUse& use, bool writes);
  // Leaves out what is known to be complete, and what no graph is left of.
  void DropComplete();

 private:
  // Of two threads the later may have come first.
  static void Renew(const StorageUse& use, StorageUse* known) {
    const bool imported = known->imported && use.imported;
    if (known->epoch <= use.epoch) *known = use;
    known->imported = imported;
  }
  static void Merge(const StorageUse& use, List* list);
  // Of captures that no graph is left of.
  void DropOver();

  List reads_;
  List writes_;
};

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_STORAGE_STORAGE_USES_H_
