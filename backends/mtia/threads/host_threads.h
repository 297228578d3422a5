// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_THREADS_HOST_THREADS_H_
#define DEVRT_BACKENDS_MTIA_THREADS_HOST_THREADS_H_

#include <cstdint>

#include "backends/mtia/engine/op.h"
#include "backends/mtia/threads/baton.h"
#include "backends/mtia/threads/thread_list.h"

namespace devrt::mtia {

inline thread_local HostThread* t_host
    __attribute__((tls_model("initial-exec"))) = nullptr;

// Lets threads of the program join the machine at their first call and leave it
// at their end.
class HostThreads {
 public:
  Baton baton{&list};  // the first member, for each call of the table uses it
  ThreadList list;

  // The calling thread.  It joins the machine at its first call.
  HostThread* Me() {
    HostThread* const me = t_host;
    if (__builtin_expect(me != nullptr && me->epoch == list.epoch(), 1)) {
      return me;
    }
    return Join();
  }
  // True if the calling thread takes part in the present machine.
  bool IsHere() const {
    return t_host != nullptr && t_host->epoch == list.epoch();
  }
  // The thread in whose name calls from host functions are made.
  HostThread& borrower() { return borrower_; }

  // ---- called inside the machine ----

  // Sets the values of the keys `baton`, `pin` and `watchdog` of the first
  // machine.
  void Configure(bool keep, bool pin, uint64_t watchdog);
  // Drops all threads but the calling one and those that sleep at the start of
  // a call: these join the machine that begins, unless they are in their exit.
  void Reset(HostThread* me, bool keep, bool pin, uint64_t watchdog);

 private:
  HostThread* Join();
  static void ThreadExit(void* me);

  HostThread borrower_;
};

// The threads of this process.  The first Backend::Open makes the object; it is
// never destroyed, since threads may end after everything else.
extern HostThreads* g_threads;

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_THREADS_HOST_THREADS_H_
