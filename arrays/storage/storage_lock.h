// SPDX-License-Identifier: Apache-2.0
//
// StorageLock: the lock of a storage.  An operation takes the lock of each of
// its operands, so that three pairs of calls of std::mutex, which go to the C
// library, are a tenth of devrt's part of a small addition.  Here they are
// inline: one locked instruction each.  A thread that has to wait sleeps in the
// kernel, as with std::mutex, since the holder may be in a call of a driver.

#ifndef DEVRT_ARRAYS_STORAGE_STORAGE_LOCK_H_
#define DEVRT_ARRAYS_STORAGE_STORAGE_LOCK_H_

#include <atomic>
#include <cstdint>

#include "absl/base/optimization.h"
#include "devrt/runtime/mutex.h"

namespace devrt::internal {

class DEVRT_THREAD_ANNOTATION_(capability("mutex")) StorageLock {
 public:
  StorageLock() = default;
  StorageLock(const StorageLock&) = delete;
  StorageLock& operator=(const StorageLock&) = delete;

  void Lock() DEVRT_THREAD_ANNOTATION_(acquire_capability()) {
    TakePart();
    uint32_t found = kFree;
    if (ABSL_PREDICT_FALSE(!word_.compare_exchange_strong(
            found, kHeld, std::memory_order_acquire,
            std::memory_order_relaxed))) {
      LockSlowly();
    }
  }
  void Unlock() DEVRT_THREAD_ANNOTATION_(release_capability()) {
    if (ABSL_PREDICT_FALSE(word_.exchange(kFree, std::memory_order_release) ==
                           kAwaited)) {
      WakeOne();
    }
  }

 private:
  // A thread that sleeps has set kAwaited before.
  enum : uint32_t { kFree, kHeld, kAwaited };

  void LockSlowly();
  void WakeOne();

  std::atomic<uint32_t> word_{kFree};
};

class DEVRT_THREAD_ANNOTATION_(scoped_lockable) StorageLockHolder {
 public:
  explicit StorageLockHolder(StorageLock* lock)
      DEVRT_THREAD_ANNOTATION_(acquire_capability(lock))
      : lock_(lock) {
    lock_->Lock();
  }
  ~StorageLockHolder() DEVRT_THREAD_ANNOTATION_(release_capability()) {
    lock_->Unlock();
  }
  StorageLockHolder(const StorageLockHolder&) = delete;
  StorageLockHolder& operator=(const StorageLockHolder&) = delete;

 private:
  StorageLock* const lock_;
};

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_STORAGE_STORAGE_LOCK_H_
