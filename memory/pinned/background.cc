// SPDX-License-Identifier: Apache-2.0

#include "memory/pinned/background.h"

#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "memory/pinned/pinned_allocator.h"
#include "runtime/common/thread_end.h"

namespace devrt::internal {
namespace {

using std::chrono::microseconds;

constexpr microseconds kShortest{50};
constexpr microseconds kLongest{5'000};
// The pause while nothing is pending.  A missed wake costs this long at most.
constexpr microseconds kIdle{200'000};

struct Background {
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<PinnedAllocator*> allocators;
  bool is_started = false;
  std::atomic<int> pauses{0};  // BackgroundPause objects, and the process's end
  std::atomic<bool> is_polling{false};

  static Background& Get() {
    static Background* const background = new Background;
    return *background;
  }

  // BeginPoll and Pause are sequentially consistent: either the thread sees the
  // pause, or the pause sees the poll.
  bool BeginPoll() {
    is_polling.store(true);
    if (pauses.load() == 0) return true;
    is_polling.store(false);
    return false;
  }
  // Waits at most `longest_us` for a poll; without a limit if that is negative.
  void Pause(int longest_us) {
    pauses.fetch_add(1);
    constexpr int kStep = 20;
    for (int us = 0; is_polling.load(); us += longest_us < 0 ? 0 : kStep) {
      if (longest_us >= 0 && us >= longest_us) return;
      const timespec time{0, kStep * 1000};
      nanosleep(&time, nullptr);
    }
  }
};

// Returns true if a block was pending.
bool PollAll(const std::vector<PinnedAllocator*>& allocators) {
  Background& b = Background::Get();
  bool any = false;
  for (PinnedAllocator* allocator : allocators) {
    if (!allocator->HasPending()) continue;
    any = true;
    if (!b.BeginPoll()) continue;
    allocator->Poll();
    b.is_polling.store(false);
  }
  return any;
}

void Run() {
  const NoCancel no_cancel;  // a log sink of the program may run here
  Background& b = Background::Get();
  microseconds pause = kIdle;
  for (;;) {
    std::vector<PinnedAllocator*> allocators;
    {
      std::unique_lock<std::mutex> lock(b.mutex);
      b.wake.wait_for(lock, pause);
      allocators = b.allocators;
    }
    if (!PollAll(allocators)) {
      pause = kIdle;
    } else {
      pause = pause == kIdle ? kShortest : std::min(pause * 2, kLongest);
    }
  }
}

// At the end of the process: the driver is not called once its own exit
// handlers may have run.  The limit is for a driver that hangs in a query.
void StopForGood() {
  constexpr int kMostMicroseconds = 100'000;
  Background::Get().Pause(kMostMicroseconds);
}

}  // namespace

bool StartBackground(PinnedAllocator* allocator) {
  Background& b = Background::Get();
  std::lock_guard<std::mutex> lock(b.mutex);
  b.allocators.push_back(allocator);
  if (b.is_started) return true;
  // Signals go to threads of the program.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(&Run).detach();
    b.is_started = true;
    std::atexit(&StopForGood);
    std::at_quick_exit(&StopForGood);
  } catch (const std::system_error&) {
    b.allocators.pop_back();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return b.is_started;
}

void WakeBackground() { Background::Get().wake.notify_one(); }

BackgroundPause::BackgroundPause() { Background::Get().Pause(-1); }

BackgroundPause::~BackgroundPause() { Background::Get().pauses.fetch_sub(1); }

}  // namespace devrt::internal
