// SPDX-License-Identifier: Apache-2.0
//
// Threads of ours: detached, never in the way of exit, deaf to signals.

#ifndef DEVRT_BACKENDS_MTIA_THREADS_HELPER_THREAD_H_
#define DEVRT_BACKENDS_MTIA_THREADS_HELPER_THREAD_H_

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace devrt::mtia {

struct Helper {
  std::atomic<int32_t> tid{0};     // 0: has not begun
  std::atomic<bool> idle{false};   // does nothing before somebody gives it work
  std::atomic<bool> taken{false};  // this entry is somebody's
};

// Set in threads of ours.
extern thread_local Helper* t_helper __attribute__((tls_model("initial-exec")));

// All helpers of the process; never destroyed.
class Helpers {
 public:
  Helper* Add();
  void Drop(Helper* helper) { helper->taken = false; }
  static void Begin(Helper* helper);  // on its thread
  // Appends the idle ones.
  void AddIdle(std::vector<int32_t>* tids);

 private:
  std::mutex mu_;
  std::deque<Helper> all_;
};
Helpers& TheHelpers();

// Of faults of the thread itself.  Blocked they would end the process without
// a word from whoever handles them.
inline constexpr int kFaultSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE,
                                        SIGABRT};

// Requests to cancel the thread wait until the end of the scope.  For waits
// inside the machine: a thread that left one half done would stop the others.
class NoCancel {
 public:
  NoCancel() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancel() { pthread_setcancelstate(before_, nullptr); }
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// The program's signals are not for this thread, nor is it the program's to
// cancel.  nullptr when the system has no thread for us.
template <class Body>
Helper* StartHelper(const char* name, Body body) {
  Helper* helper = TheHelpers().Add();
  sigset_t all, before;
  sigfillset(&all);
  for (const int signal : kFaultSignals) sigdelset(&all, signal);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread([helper, body = std::move(body)] {
      const NoCancel no_cancel;
      Helpers::Begin(helper);
      body();
    });
    pthread_setname_np(thread.native_handle(), name);
    thread.detach();
  } catch (const std::system_error&) {
    TheHelpers().Drop(helper);
    helper = nullptr;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return helper;
}

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_THREADS_HELPER_THREAD_H_
