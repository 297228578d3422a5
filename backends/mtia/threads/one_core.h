// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_THREADS_ONE_CORE_H_
#define DEVRT_BACKENDS_MTIA_THREADS_ONE_CORE_H_

#include <sched.h>

#include <unordered_map>
#include <vector>

#include "backends/mtia/engine/op.h"

namespace devrt::mtia {

// Keeps threads of the program on one core, and gives the cores that they had
// before back to them (the key `pin` of DEVRT_MTIA).
//
// A new thread inherits the cores of the thread that makes it.  A thread made
// by one that is kept here therefore begins with one core, and may join when no
// thread is kept any more.  At its first call it gets the cores that the kept
// threads had.  A thread that the program bound to such a core before its first
// call looks like a thread that inherited the core, and loses the binding.
//
// Threads: every member is called with the lock of the thread list.
class OneCore {
 public:
  // For a thread at its first call: if the thread has inherited one core, gives
  // it the cores that the kept threads had.
  void DropInherited(const HostThread* thread);
  // Keeps `threads`, the first one first, on the core of those that are kept
  // already, or else on the core of the calling thread.
  void Keep(const std::vector<HostThread*>& threads);
  // Gives the thread the cores back that it had, if it is kept.
  void Release(HostThread* thread);

 private:
  cpu_set_t core_ = {};    // the last one that threads were kept on
  cpu_set_t chosen_ = {};  // all of these cores, since the start
  cpu_set_t cores_ = {};   // of the first kept thread, before
  std::unordered_map<HostThread*, cpu_set_t> before_;  // of the kept threads
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_THREADS_ONE_CORE_H_
