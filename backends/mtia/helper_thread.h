// SPDX-License-Identifier: Apache-2.0
//
// Threads of ours: detached, never in the way of exit, deaf to signals.

#ifndef DEVRT_BACKENDS_MTIA_HELPER_THREAD_H_
#define DEVRT_BACKENDS_MTIA_HELPER_THREAD_H_

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

#include "backends/mtia/host_threads.h"

namespace devrt::mtia {

template <class Body>
void StartHelper(const char* name, Body body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  g_threads->AddHelper();
  std::thread thread(std::move(body));
  pthread_setname_np(thread.native_handle(), name);
  thread.detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_HELPER_THREAD_H_
