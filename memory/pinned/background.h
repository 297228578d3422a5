// SPDX-License-Identifier: Apache-2.0
//
// The background thread of pinned_use_background_threads: polls pending frees,
// so that allocations need not.  It allocates nothing.
//
// The process has one such thread, detached, so the exit does not wait for it
// (C106).  The thread calls the backend only between BeginLook and EndLook.  No
// look begins once the process is ending or a backend is being released;
// whoever ends them waits until a look that is under way is over, which takes a
// few queries.  A forked child has no such thread (C105), and needs none.

#ifndef DEVRT_MEMORY_PINNED_BACKGROUND_H_
#define DEVRT_MEMORY_PINNED_BACKGROUND_H_

namespace devrt::internal {

class PinnedAllocator;

// Makes the thread poll for `allocator`.  Returns false if the system gives no
// thread: allocations then poll themselves.
bool StartBackground(PinnedAllocator* allocator);
// Tells the thread that a block is pending.
void WakeBackground();

// While an object lives, the thread does not call the backend.
class BackgroundPause {
 public:
  BackgroundPause();
  ~BackgroundPause();
  BackgroundPause(const BackgroundPause&) = delete;
  BackgroundPause& operator=(const BackgroundPause&) = delete;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_PINNED_BACKGROUND_H_
