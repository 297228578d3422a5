// SPDX-License-Identifier: Apache-2.0

#include "arrays/storage/storage_lock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace devrt::internal {

// The thread that gets the lock here does not know whether others sleep, so it
// leaves kAwaited behind, and its Unlock wakes one of them, if there is one.
void StorageLock::LockSlowly() {
  while (word_.exchange(kAwaited, std::memory_order_acquire) != kFree) {
    // Returns at once if the word has changed; a signal may end it early.
    (void)syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, uint32_t{kAwaited},
                  nullptr, nullptr, 0);
  }
}

// Another thread may free the storage meanwhile: the kernel only looks for
// sleepers by the address.
void StorageLock::WakeOne() {
  (void)syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace devrt::internal
