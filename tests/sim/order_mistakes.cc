// SPDX-License-Identifier: Apache-2.0
//
// Mistakes in the order of threads, and in waits.
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

// The consumer waits for an event that may not have been recorded yet.
absl::Status WaitBeforeTheRecord(bool mended) {
  const Scene scene;
  const Event event = Must(Event::Create(scene.device()));
  std::thread producer([&] {
    scene.Update(0, 2, 0, "double");
    Must(event.Record(scene.stream(0)));
  });
  if (mended) producer.join();
  Must(scene.stream(1).Wait(event));
  scene.Update(1, 1, 3, "add");
  if (!mended) producer.join();
  return ExpectValue(scene.Value(), 5);
}

// Two threads enqueue on one stream, and their order is part of the result.
// Each takes a lock of std before its first call of devrt.
absl::Status TwoThreadsOnOneStream(bool mended) {
  const Scene scene;
  std::mutex mutex;
  sync::Thread first([&] {
    const std::lock_guard<std::mutex> lock(mutex);
    scene.Update(0, 2, 0, "double");
  });
  if (mended) first.join();
  sync::Thread second([&] {
    const std::lock_guard<std::mutex> lock(mutex);
    scene.Update(0, 1, 3, "add");
  });
  if (!mended) first.join();
  second.join();
  return ExpectValue(scene.Value(), 5);
}

// The update that is announced comes after the lock is given back.
absl::Status AnnouncedTooEarly(bool mended) {
  const Scene scene;
  sync::Mutex mutex;
  bool is_there = false;
  sync::Thread first([&] {
    std::unique_lock<sync::Mutex> lock(mutex);
    is_there = true;
    if (!mended) lock.unlock();
    scene.Update(0, 2, 0, "double");
  });
  sync::Thread second([&] {
    std::unique_lock<sync::Mutex> lock(mutex);
    const bool seen = is_there;
    lock.unlock();
    if (seen) scene.Update(0, 1, 3, "add");
  });
  first.join();
  second.join();
  const int64_t value = scene.Value();
  return value == 2 ? absl::OkStatus() : ExpectValue(value, 5);
}

// So it is with a notification, for which the other thread waits already.
absl::Status NotifiedTooEarly(bool mended) {
  const Scene scene;
  sync::Mutex mutex;
  sync::ConditionVariable changed;
  bool is_waiting = false;
  sync::Thread second([&] {
    std::unique_lock<sync::Mutex> lock(mutex);
    is_waiting = true;
    changed.wait(lock);
    lock.unlock();
    scene.Update(0, 1, 3, "add");
  });
  for (bool seen = false; !seen;) {
    const Guard lock(mutex);
    seen = is_waiting;
  }
  if (mended) scene.Update(0, 2, 0, "double");
  changed.notify_one();
  if (!mended) scene.Update(0, 2, 0, "double");
  second.join();
  return ExpectValue(scene.Value(), 5);
}

// The value is read when one of two threads has ended.
absl::Status JoinsOneOfTwo(bool mended) {
  const Scene scene;
  sync::Thread first([&] { scene.Update(0, 2, 0, "double"); });
  first.join();
  sync::Thread second([&] { scene.Update(0, 1, 1, "increment"); });
  sync::Thread third([&] { scene.Update(0, 1, 2, "add"); });
  second.join();
  if (mended) third.join();
  const int64_t value = scene.Value();
  if (!mended) third.join();
  return ExpectValue(value, 5);
}

// The flag is read without the lock, so the notification may come before the
// wait.
absl::Status ALostNotification(bool mended) {
  sync::Mutex mutex;
  sync::ConditionVariable changed;
  bool is_ready = false;
  sync::Thread giver([&] {
    const Guard lock(mutex);
    is_ready = true;
    changed.notify_one();
  });
  if (mended) {
    std::unique_lock<sync::Mutex> lock(mutex);
    changed.wait(lock, [&] { return is_ready; });
  } else if (!is_ready) {
    std::unique_lock<sync::Mutex> lock(mutex);
    changed.wait(lock);
  }
  giver.join();
  return absl::OkStatus();
}

// One notification for two threads that wait.
absl::Status NotifyOneForTwo(bool mended) {
  sync::Mutex mutex;
  sync::ConditionVariable changed;
  bool is_ready = false, is_stuck = false;
  const auto wait = [&] {
    try {
      std::unique_lock<sync::Mutex> lock(mutex);
      changed.wait(lock, [&] { return is_ready; });
    } catch (const std::system_error&) {
      is_stuck = true;
    }
  };
  sync::Thread first(wait), second(wait);
  {
    const Guard lock(mutex);
    is_ready = true;
    mended ? changed.notify_all() : changed.notify_one();
  }
  first.join();
  second.join();
  return is_stuck ? absl::AbortedError("a thread waits for ever")
                  : absl::OkStatus();
}

// The thread may start before the value is set.
absl::Status SetAfterTheStart(bool mended) {
  int value = 0, seen = 0;
  if (mended) value = 5;
  sync::Thread reader([&] { seen = value; });
  if (!mended) value = 5;
  reader.join();
  return ExpectValue(seen, 5);
}

// The value is set again before the thread has read it.
absl::Status FilledAgainTooEarly(bool mended) {
  const Scene scene;
  int term = 3;
  sync::Thread reader([&] { scene.Update(0, 1, term, "add"); });
  if (mended) reader.join();
  term = 7;
  if (!mended) reader.join();
  return ExpectValue(scene.Value(), 4);
}

// The event counts as complete until it is recorded.
absl::Status QueryBeforeTheRecord(bool mended) {
  const Scene scene;
  const Event event = Must(Event::Create(scene.device()));
  sync::Thread producer([&] {
    scene.Update(0, 2, 0, "double");
    Must(event.Record(scene.stream(0)));
  });
  if (mended) producer.join();
  while (!Must(event.Query())) {
  }
  scene.Update(1, 1, 3, "add");
  if (!mended) producer.join();
  return ExpectValue(scene.Value(), 5);
}

// The consumer is told before the event is recorded that it waits for.
absl::Status ToldBeforeTheRecord(bool mended) {
  const Scene scene;
  const Event event = Must(Event::Create(scene.device()));
  sync::Mutex mutex;
  sync::ConditionVariable changed;
  bool is_told = false;
  sync::Thread producer([&] {
    scene.Update(0, 2, 0, "double");
    if (mended) Must(event.Record(scene.stream(0)));
    {
      const Guard lock(mutex);
      is_told = true;
      changed.notify_one();
    }
    if (!mended) Must(event.Record(scene.stream(0)));
  });
  sync::Thread consumer([&] {
    std::unique_lock<sync::Mutex> lock(mutex);
    changed.wait(lock, [&] { return is_told; });
    Must(scene.stream(1).Wait(event));
    scene.Update(1, 1, 3, "add");
  });
  producer.join();
  consumer.join();
  return ExpectValue(scene.Value(), 5);
}

// The flag is set before the result.
absl::Status DoneBeforeTheResult(bool mended) {
  const Scene scene;
  sync::Mutex mutex;
  bool is_done = false;
  int result = 0;
  sync::Thread worker([&] {
    if (mended) result = 3;
    {
      const Guard lock(mutex);
      is_done = true;
    }
    scene.Nothing(0);
    if (!mended) result = 3;
  });
  for (bool seen = false; !seen;) {
    const Guard lock(mutex);
    seen = is_done;
  }
  const int seen = result;
  worker.join();
  return ExpectValue(seen, 3);
}

// The buffer goes back before the event of its use is recorded.
absl::Status GivenBackBeforeTheRecord(bool mended) {
  const Scene scene;
  const Event used = Must(Event::Create(scene.device()));
  sync::Mutex mutex;
  const auto use = [&](int stream, int64_t factor, int64_t term) {
    std::unique_lock<sync::Mutex> lock(mutex);
    Must(scene.stream(stream).Wait(used));
    scene.Update(stream, factor, term);
    if (!mended) lock.unlock();
    Must(used.Record(scene.stream(stream)));
  };
  sync::Thread first([&] { use(0, 2, 0); });
  first.join();
  sync::Thread second([&] { use(1, 1, 3); });
  sync::Thread third([&] { use(0, 1, 5); });
  second.join();
  third.join();
  return ExpectValue(scene.Value(), 10);
}

// The worker looks whether it has to stop before it looks for work.
absl::Status StopsBeforeTheLastItem(bool mended) {
  const Scene scene;
  sync::Mutex mutex;
  sync::ConditionVariable changed;
  int items = 0, done = 0;
  bool stops = false;
  sync::Thread worker([&] {
    std::unique_lock<sync::Mutex> lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return stops || items > 0; });
      if (stops && (!mended || items == 0)) return;
      --items;
      lock.unlock();
      scene.Nothing(0);
      lock.lock();
      ++done;
    }
  });
  for (int i = 0; i < 2; ++i) {
    const Guard lock(mutex);
    ++items;
    changed.notify_one();
  }
  {
    const Guard lock(mutex);
    stops = true;
    changed.notify_one();
  }
  worker.join();
  return ExpectValue(done, 2);
}

// A thread that was told takes the item without another look.
absl::Status IfInPlaceOfWhile(bool mended) {
  sync::Mutex mutex;
  sync::ConditionVariable changed;
  int items = 0, least = 0;
  const auto take = [&] {
    std::unique_lock<sync::Mutex> lock(mutex);
    if (mended) {
      changed.wait(lock, [&] { return items > 0; });
    } else if (items == 0) {
      changed.wait(lock);
    }
    least = std::min(least, --items);
  };
  sync::Thread first(take), second(take);
  for (int i = 0; i < 2; ++i) {
    const Guard lock(mutex);
    ++items;
    changed.notify_all();
  }
  {
    const Guard lock(mutex);
    changed.notify_all();
  }
  first.join();
  second.join();
  return ExpectValue(least, 0);
}

// The thread is told to begin before its argument is there.
absl::Status ToldBeforeTheArgument(bool mended) {
  const Scene scene;
  sync::Mutex mutex;
  sync::ConditionVariable changed;
  bool begins = false;
  int64_t term = 0;
  sync::Thread worker([&] {
    std::unique_lock<sync::Mutex> lock(mutex);
    changed.wait(lock, [&] { return begins; });
    lock.unlock();
    scene.Update(0, 1, term, "add");
  });
  if (mended) term = 3;
  {
    const Guard lock(mutex);
    begins = true;
    changed.notify_one();
  }
  if (!mended) term = 3;
  worker.join();
  return ExpectValue(scene.Value(), 4);
}

}  // namespace

const std::vector<ThreadMistake>& OrderMistakes() {
  static const auto* const all = new std::vector<ThreadMistake>{
      {"WaitBeforeTheRecord", "the value is", &WaitBeforeTheRecord},
      {"TwoThreadsOnOneStream", "the value is 8", &TwoThreadsOnOneStream, true},
      {"AnnouncedTooEarly", "the value is 8", &AnnouncedTooEarly},
      {"NotifiedTooEarly", "the value is 8", &NotifiedTooEarly},
      {"JoinsOneOfTwo", "the value is", &JoinsOneOfTwo},
      {"ALostNotification", "a notification that comes", &ALostNotification},
      {"NotifyOneForTwo", "waits for ever", &NotifyOneForTwo},
      {"SetAfterTheStart", "the value is 0", &SetAfterTheStart},
      {"FilledAgainTooEarly", "the value is 8", &FilledAgainTooEarly},
      {"QueryBeforeTheRecord", "the value is", &QueryBeforeTheRecord},
      {"ToldBeforeTheRecord", "the value is", &ToldBeforeTheRecord},
      {"DoneBeforeTheResult", "the value is 0", &DoneBeforeTheResult},
      {"GivenBackBeforeTheRecord", "the value is", &GivenBackBeforeTheRecord},
      {"StopsBeforeTheLastItem", "the value is", &StopsBeforeTheLastItem},
      {"IfInPlaceOfWhile", "the value is -1", &IfInPlaceOfWhile},
      {"ToldBeforeTheArgument", "the value is 1", &ToldBeforeTheArgument},
  };
  return *all;
}

}  // namespace devrt::testing
