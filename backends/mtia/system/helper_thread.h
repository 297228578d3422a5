// SPDX-License-Identifier: Apache-2.0
//
// Threads that the simulator starts.  They are detached, do not hold up the end
// of the process, and block the program's signals.

#ifndef DEVRT_BACKENDS_MTIA_SYSTEM_HELPER_THREAD_H_
#define DEVRT_BACKENDS_MTIA_SYSTEM_HELPER_THREAD_H_

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
  std::atomic<bool> idle{false};   // waits for work
  std::atomic<bool> taken{false};  // this entry belongs to a thread
};

// The entry of the calling thread; nullptr in threads of the program.
inline thread_local Helper* t_helper
    __attribute__((tls_model("initial-exec"))) = nullptr;

// All helpers of the process; never destroyed.
class Helpers {
 public:
  Helper* Add();
  void PutBack(Helper* helper) { helper->taken = false; }
  static void Begin(Helper* helper);  // called on the new thread
  // Appends the threads that wait for work.
  void AddIdle(std::vector<int32_t>* tids);

 private:
  std::mutex mu_;
  std::deque<Helper> all_;
};
Helpers& TheHelpers();

// Signals that a fault of the thread itself raises.  They are not blocked: a
// blocked one would end the process without a call of the program's handler.
inline constexpr int kFaultSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE,
                                        SIGABRT};

// Delays pthread_cancel until the end of the scope.  Waits inside the machine
// need it: a thread that was cancelled there would keep the lock.
class NoCancel {
 public:
  NoCancel() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancel() { pthread_setcancelstate(before_, nullptr); }
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// Starts a thread that runs `body`.  Returns nullptr if the system refuses.
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
    TheHelpers().PutBack(helper);
    helper = nullptr;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return helper;
}

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_SYSTEM_HELPER_THREAD_H_
