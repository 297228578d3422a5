// SPDX-License-Identifier: Apache-2.0
//
// Lets the host threads of a program wait for each other.
//
// Under a simulator in virtual mode a thread that sleeps in a mutex blocks the
// others until a watchdog notices.  There threads wait in the simulator's
// Yield, which is a scheduling decision like any other.  Elsewhere they sleep.
//
// Threads: any.

#ifndef DEVRT_CTS_RANDOM_TURNS_H_
#define DEVRT_CTS_RANDOM_TURNS_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "devrt/devrt.h"

namespace devrt::cts {

class Turns {
 public:
  // Pass `simulator` only if it is in virtual mode.  If no turn was passed on
  // for some seconds under a simulator, a waiting thread calls `stuck` once.
  // The function should free the held threads.
  Turns(std::optional<Simulator> simulator, std::function<void()> stuck)
      : simulator_(std::move(simulator)), stuck_(std::move(stuck)) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Waits until the current turn is `turn`.  Turn 0 belongs to no thread.
  void Await(int turn);
  void Pass(int turn);
  // Waits until `threads` threads have called it.
  void Meet(int threads);

 private:
  void WaitUntil(const std::function<bool()>& holds);
  void Yield(const std::function<bool()>& holds);

  const std::optional<Simulator> simulator_;
  const std::function<void()> stuck_;
  std::atomic<bool> told_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int> turn_{-1};
  std::atomic<int> here_{0};
  std::atomic<int> meetings_{0};
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_TURNS_H_
