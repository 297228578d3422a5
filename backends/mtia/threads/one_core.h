// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_THREADS_ONE_CORE_H_
#define DEVRT_BACKENDS_MTIA_THREADS_ONE_CORE_H_

#include <sched.h>

#include <vector>

#include "backends/mtia/engine/op.h"

namespace devrt::mtia {

// Keeps threads of the program on one core, and gives the cores that they had
// before back to them (the key `pin` of DEVRT_MTIA).
//
// Threads: every member is called with the lock of the thread list.
class OneCore {
 public:
  // Keeps `me` on the core of the others.  `threads` are all threads, the first
  // one first.  The first call chooses the core of the calling thread for all
  // of them.
  void Add(const std::vector<HostThread*>& threads, HostThread* me);
  void Remove(HostThread* me);
  void RemoveAll(const std::vector<HostThread*>& threads);

 private:
  bool is_used_ = false;
  cpu_set_t before_;  // the cores that the threads had
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_THREADS_ONE_CORE_H_
