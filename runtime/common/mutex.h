// SPDX-License-Identifier: Apache-2.0
//
// std::mutex with Clang's thread-safety annotations.  Not absl::Mutex, because
// ThreadSanitizer gives false reports for a prebuilt one.
//
// Not for programs: this is for the files of devrt.

#ifndef DEVRT_RUNTIME_COMMON_MUTEX_H_
#define DEVRT_RUNTIME_COMMON_MUTEX_H_

#include <mutex>

#include "devrt/runtime/turns.h"

#if defined(__clang__)
#define DEVRT_THREAD_ANNOTATION_(x) __attribute__((x))
#else
#define DEVRT_THREAD_ANNOTATION_(x)
#endif
#define DEVRT_GUARDED_BY(m) DEVRT_THREAD_ANNOTATION_(guarded_by(m))
#define DEVRT_REQUIRES(m) DEVRT_THREAD_ANNOTATION_(requires_capability(m))
#define DEVRT_EXCLUDES(m) DEVRT_THREAD_ANNOTATION_(locks_excluded(m))

namespace devrt {

class DEVRT_THREAD_ANNOTATION_(capability("mutex")) Mutex {
 public:
  void Lock() DEVRT_THREAD_ANNOTATION_(acquire_capability()) {
    internal::TakePart();
    m_.lock();
  }
  // Lock, for a thread that takes no part in the schedule of a simulator: fork.
  void LockOutOfTurn() DEVRT_THREAD_ANNOTATION_(acquire_capability()) {
    m_.lock();
  }
  bool TryLock() DEVRT_THREAD_ANNOTATION_(try_acquire_capability(true)) {
    return m_.try_lock();
  }
  void Unlock() DEVRT_THREAD_ANNOTATION_(release_capability()) { m_.unlock(); }

 private:
  std::mutex m_;
};

class DEVRT_THREAD_ANNOTATION_(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex* m) DEVRT_THREAD_ANNOTATION_(acquire_capability(m))
      : m_(m) {
    m_->Lock();
  }
  ~MutexLock() DEVRT_THREAD_ANNOTATION_(release_capability()) { m_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* m_;
};

}  // namespace devrt

#endif  // DEVRT_RUNTIME_COMMON_MUTEX_H_
