// SPDX-License-Identifier: Apache-2.0
//
// DeviceOrder: the order between communicators of one device.
//
// Two operations on two streams may wait for each other for ever, if a device
// has room for one of them only and the ranks begin with different ones.  So
// the operations follow each other as they were submitted, which is right if
// the program submits in one order on all ranks.
//
// Ranks of one communicator that share the device must not wait for each
// other's lock: an engine may enqueue a rank's part only when the other ranks
// have come.  So the lock is let go for that wait.
//
// Elsewhere the lock is held while the engine enqueues.  A submission behind
// one that waits for other ranks is ended by nothing of its own, neither by
// Abort nor by its timeout, which begins when it has the lock.  It goes on when
// the one before it ends: by Abort of that communicator, or by its timeout.
//
// Threads: any.

#ifndef DEVRT_COLLECTIVES_CORE_DEVICE_ORDER_H_
#define DEVRT_COLLECTIVES_CORE_DEVICE_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "collectives/core/comm.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/mutex.h"

namespace devrt::collectives::internal {

// The communicators of one submission.
class Submitting {
 public:
  // `comms` outlives the object.
  explicit Submitting(absl::Span<Comm* const> comms) : comms_(comms) {
    for (const Comm* const comm : comms) {
      if (!HasKey(comm->key)) keys_.push_back(comm->key);
    }
    if (comms.size() > kFew) many_.insert(comms.begin(), comms.end());
  }

  // Does not look into `comm`, which may be gone.
  bool Has(const Comm* comm) const {
    return many_.empty()
               ? std::find(comms_.begin(), comms_.end(), comm) != comms_.end()
               : many_.contains(comm);
  }
  bool HasKey(uint64_t key) const {
    return std::find(keys_.begin(), keys_.end(), key) != keys_.end();
  }

 private:
  static constexpr size_t kFew = 8;
  const absl::Span<Comm* const> comms_;
  absl::flat_hash_set<const Comm*> many_;  // empty for a few
  absl::InlinedVector<uint64_t, 1> keys_;  // each once: mostly one
};

// One device.  Lives until the end of the process.
class DeviceOrder {
 public:
  static DeviceOrder* Of(Device device);

  // The lock is held from the question to the note, so that other threads'
  // submissions come before or after.
  void Lock() DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
    mutex_.Lock();
  }
  void Unlock() DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
    mutex_.Unlock();
  }

  // Adds the work of other communicators that the next submission of `comm`
  // comes after.
  void AddBefore(const Comm& comm, OrderPoints* points) const {
    for (const Work& work : last_) {
      if (ABSL_PREDICT_FALSE(work.key != comm.key)) points->push_back(work.end);
    }
  }
  // Begins a submission of `comms`, of which Add notes the work of those that
  // keep this order.  Forgets what it came after: all that is here, unless the
  // lock was let go since AddBefore.
  void Begin(const Submitting& comms, bool after_all);
  // Begins a submission that has one communicator of the device, which came
  // after all that is here, and adds its work.
  void NoteOne(Comm* comm, OrderPoint end) {
    if (ABSL_PREDICT_TRUE(last_.size() == 1 && (last_[0].comm == comm ||
                                                last_[0].key != comm->key))) {
      last_[0] = {comm, comm->key, end};
      return;
    }
    Begin(Submitting({&comm, 1}), /*after_all=*/true);
    Add(*comm, end);
  }
  void Add(const Comm& comm, OrderPoint end) {
    last_.push_back({&comm, comm.key, end});
  }

 private:
  struct Work {
    const Comm* comm;  // for comparisons only
    uint64_t key;      // of the communicator: its ranks may begin in any order
    OrderPoint end;
  };
  Mutex mutex_;
  // Of the last submission, and of others that it did not come after.
  std::vector<Work> last_;
};

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_CORE_DEVICE_ORDER_H_
