// SPDX-License-Identifier: Apache-2.0
//
// How the host threads of a program wait for each other.
//
// Under a simulator in virtual mode a thread that sleeps in a mutex keeps the
// others out until a watchdog has seen that; so there they wait in the
// simulator's Yield, which is a decision like any other.  Elsewhere they sleep.
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
  // `simulator` only if it is in virtual mode.  `stuck` is called, once, by a
  // thread that waits, when nobody has passed a turn on for some seconds of a
  // simulator's run; it should free whoever is held.
  Turns(std::optional<Simulator> simulator, std::function<void()> stuck)
      : simulator_(std::move(simulator)), stuck_(std::move(stuck)) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // Waits until it is the turn of `turn`.  Nobody's is the first.
  void Await(int turn);
  void Pass(int turn);
  // Waits until `threads` threads have come here.
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
