// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_THREADS_HOLDER_WATCH_H_
#define DEVRT_BACKENDS_MTIA_THREADS_HOLDER_WATCH_H_

#include <chrono>
#include <cstdint>

#include "backends/mtia/engine/op.h"
#include "backends/mtia/system/thread_watch.h"

namespace devrt::mtia {

// Watches the thread that has the baton while it runs code of the program, and
// says when another thread may take the baton from it.
//
// Threads: every member is called with the lock of the thread list.
class HolderWatch {
 public:
  // Returns true if `holder` has been blocked at several looks in a row, or has
  // made no call for `patience`.  `word` is the baton's word.
  bool MayTakeFrom(const HostThread& holder, uint64_t word,
                   std::chrono::nanoseconds patience);
  // Forgets all looks.
  void Forget() { word_ = 0; }

 private:
  // What the looks have seen.
  uint64_t word_ = 0;
  uint64_t calls_ = 0;
  uint32_t blocked_ = 0;  // in a row
  RealClock::time_point since_{};
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_THREADS_HOLDER_WATCH_H_
