// SPDX-License-Identifier: Apache-2.0
//
// The thread of pinned_use_background_threads: asks for pending frees, so that
// no allocation has to.  It obtains nothing.
//
// One for the process, detached: nobody waits for it at exit (C106).  It calls
// the backend only between BeginLook and EndLook, and neither begins once the
// process is ending or a backend is released: whoever ends that waits until the
// look that is under way is over, which takes no longer than its queries.  A
// forked child has no such thread (C105), and needs none.

#ifndef DEVRT_MEMORY_PINNED_BACKGROUND_H_
#define DEVRT_MEMORY_PINNED_BACKGROUND_H_

namespace devrt::internal {

class PinnedAllocator;

// Has `allocator` looked after from now on; false where the system gives no
// thread: allocations then ask themselves.
bool StartBackground(PinnedAllocator* allocator);
// There is something to wait for.
void WakeBackground();

// No look is under way while one lives.
class BackgroundPause {
 public:
  BackgroundPause();
  ~BackgroundPause();
  BackgroundPause(const BackgroundPause&) = delete;
  BackgroundPause& operator=(const BackgroundPause&) = delete;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_PINNED_BACKGROUND_H_
