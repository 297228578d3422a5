// SPDX-License-Identifier: Apache-2.0
//
// Mistakes with locks: what they guard, and their order.
#include <algorithm>
#include <mutex>
#include <system_error>
#include <thread>

#include "devrt/streams/sync.h"
#include "tests/sim/bodies.h"
#include "tests/sim/thread_mistakes.h"

namespace devrt::testing {
namespace {

using Guard = std::lock_guard<sync::Mutex>;

// A decision at a lock alone shows the mistake: no call of devrt lies between.
absl::Status TwoSectionsForOneChange(bool mended) {
  sync::Mutex mutex;
  int count = 0;
  const auto add = [&] {
    std::unique_lock<sync::Mutex> lock(mutex);
    const int seen = count;
    if (!mended) lock.unlock(), lock.lock();
    count = seen + 1;
  };
  sync::Thread first(add), second(add);
  first.join();
  second.join();
  return ExpectValue(count, 2);
}

// A count is read and written under two locks of std::mutex, with a call of
// devrt in between.
absl::Status ALockIsGivenBackTooEarly(bool mended) {
  const Scene scene;
  std::mutex mutex;
  int count = 0;
  const auto add = [&](int stream) {
    std::unique_lock<std::mutex> lock(mutex);
    const int seen = count;
    if (!mended) lock.unlock();
    scene.Nothing(stream);
    if (!mended) lock.lock();
    count = seen + 1;
  };
  sync::Thread first([&] { add(0); });
  sync::Thread second([&] { add(1); });
  first.join();
  second.join();
  return ExpectValue(count, 2);
}

// Two mutexes that are locked in two orders.
absl::Status TwoOrdersOfLocks(bool mended) {
  sync::Mutex a, b;
  bool is_stuck = false;
  const auto both = [&](sync::Mutex* first, sync::Mutex* second) {
    try {
      const Guard outer(*first);
      const Guard inner(*second);
    } catch (const std::system_error&) {
      is_stuck = true;
    }
  };
  sync::Thread one([&] { both(&a, &b); });
  sync::Thread other([&] { mended ? both(&a, &b) : both(&b, &a); });
  one.join();
  other.join();
  return is_stuck ? absl::AbortedError("a thread waits for ever")
                  : absl::OkStatus();
}

// Both threads find that nothing is made yet, and both make it.
absl::Status MadeTwice(bool mended) {
  const Scene scene;
  sync::Mutex mutex;
  bool is_made = false;
  int made = 0;
  const auto use = [&](int stream) {
    std::unique_lock<sync::Mutex> lock(mutex);
    if (is_made) return;
    if (!mended) lock.unlock();
    scene.Nothing(stream);
    if (!mended) lock.lock();
    is_made = true;
    ++made;
  };
  sync::Thread first([&] { use(0); });
  sync::Thread second([&] { use(1); });
  first.join();
  second.join();
  return ExpectValue(made, 1);
}

// The count is looked at again after the lock was given back.
absl::Status BothAreTheLast(bool mended) {
  sync::Mutex mutex;
  int users = 2, ends = 0;
  const auto leave = [&] {
    std::unique_lock<sync::Mutex> lock(mutex);
    --users;
    if (!mended) lock.unlock(), lock.lock();
    if (users == 0) ++ends;
  };
  sync::Thread first(leave), second(leave);
  first.join();
  second.join();
  return ExpectValue(ends, 1);
}

// A pair is read under two locks.
absl::Status TwoReadsOfOnePair(bool mended) {
  sync::Mutex mutex;
  int a = 0, b = 0, difference = 0;
  sync::Thread writer([&] {
    const Guard lock(mutex);
    a = b = 1;
  });
  sync::Thread reader([&] {
    std::unique_lock<sync::Mutex> lock(mutex);
    const int seen = a;
    if (!mended) lock.unlock(), lock.lock();
    difference = b - seen;
  });
  writer.join();
  reader.join();
  return ExpectValue(difference, 0);
}

// A thread leaves its work out if another one has the lock.
absl::Status LeftOutWhenBusy(bool mended) {
  const Scene scene;
  sync::Mutex mutex;
  int count = 0;
  const auto add = [&](int stream) {
    if (mended) {
      mutex.lock();
    } else if (!mutex.try_lock()) {
      return;
    }
    scene.Nothing(stream);
    ++count;
    mutex.unlock();
  };
  sync::Thread first([&] { add(0); });
  sync::Thread second([&] { add(1); });
  first.join();
  second.join();
  return ExpectValue(count, 2);
}

// Three threads with three mutexes, each of which two of them need.
absl::Status ARingOfLocks(bool mended) {
  sync::Mutex mutexes[3];
  bool is_stuck = false;
  const auto both = [&](int i) {
    const int next = (i + 1) % 3;
    try {
      const bool turns = mended && next == 0;
      const Guard outer(mutexes[turns ? next : i]);
      const Guard inner(mutexes[turns ? i : next]);
    } catch (const std::system_error&) {
      is_stuck = true;
    }
  };
  sync::Thread one([&] { both(0); });
  sync::Thread two([&] { both(1); });
  sync::Thread three([&] { both(2); });
  one.join();
  two.join();
  three.join();
  return is_stuck ? absl::AbortedError("a thread waits for ever")
                  : absl::OkStatus();
}

}  // namespace

const std::vector<ThreadMistake>& LockMistakes() {
  static const auto* const all = new std::vector<ThreadMistake>{
      {"TwoSectionsForOneChange", "the value is 1", &TwoSectionsForOneChange},
      {"ALockIsGivenBackTooEarly", "the value is 1", &ALockIsGivenBackTooEarly,
       true},
      {"TwoOrdersOfLocks", "waits for ever", &TwoOrdersOfLocks},
      {"MadeTwice", "the value is 2", &MadeTwice},
      {"BothAreTheLast", "the value is 2", &BothAreTheLast},
      {"TwoReadsOfOnePair", "the value is 1", &TwoReadsOfOnePair},
      {"LeftOutWhenBusy", "the value is 1", &LeftOutWhenBusy},
      {"ARingOfLocks", "waits for ever", &ARingOfLocks},
  };
  return *all;
}

}  // namespace devrt::testing
