// SPDX-License-Identifier: Apache-2.0
//
// Mistakes in the order of host threads, for the exact order.  In each program
// the run does the right thing, by an order that the layer does not see.

#include <future>
#include <mutex>
#include <vector>

#include "tests/layers/validate_corpus.h"

namespace devrt::testing {
namespace {

using sync::ConditionVariable;
using sync::Thread;
using Guard = std::lock_guard<sync::Mutex>;

// Lets one thread go on after another in this run, as luck would.
class Luck {
 public:
  void Now() { promise_.set_value(); }
  void Wait() { promise_.get_future().wait(); }

 private:
  std::promise<void> promise_;
};

// What a producer tells a consumer.
struct Signal {
  void Give() {
    const Guard lock(mutex);
    is_given = true;
    changed.notify_one();
  }
  void Take() {
    std::unique_lock<sync::Mutex> lock(mutex);
    changed.wait(lock, [this] { return is_given; });
  }

  sync::Mutex mutex;
  ConditionVariable changed;
  bool is_given = false;
};

std::vector<Mistake> Threads() {
  return {
      {"AResultIsReadBeforeTheJoin", "read-after-write",
       [](Program& p) {
         Luck done;
         Thread worker([&] {
           p.Write(p.a, p.x);
           p.Sync(p.a);
           done.Now();
         });
         p.Mend([&] { worker.join(); });
         done.Wait();
         p.Read(p.b, p.x);
       }},
      {"TheWrongOneOfTwoThreadsIsJoined", "read-after-write",
       [](Program& p) {
         Luck done;
         Thread first([&] { p.Sync(p.c); });
         Thread second([&] {
           p.Write(p.a, p.x);
           p.Sync(p.a);
           done.Now();
         });
         (p.mended() ? second : first).join();
         done.Wait();
         p.Read(p.b, p.x);
       }},
      // NVIDIA/nccl#1976
      {"TheDefaultStreamOfAThreadThatEnds", "read-after-write",
       [](Program& p) {
         Thread worker([&] {
           const StreamRef s = Must(PerThreadDefaultStream(p.d));
           p.Write(s, p.x);
           p.Mend([&] { p.Sync(s); });
         });
         worker.join();
         const StreamRef own = Must(PerThreadDefaultStream(p.d));
         p.Sync(own);
         p.Read(own, p.x);
       }},
      {"TwoThreadsWriteOneBlock", "write-after-write",
       [](Program& p) {
         Luck turn;
         Signal written;
         Thread other([&] {
           p.Mend([&] { written.Take(); });
           p.Fault([&] { turn.Wait(); });
           p.Write(p.b, p.x);
         });
         p.Write(p.a, p.x);
         p.Sync(p.a);
         turn.Now();
         written.Give();
       }},
      {"ABlockIsFreedWhileAnotherThreadUsesIt", "free-while-used",
       [](Program& p) {
         void* const block = Must(Allocate(p.d, kBlock));
         Luck enqueued;
         Thread worker([&] {
           p.KeepBusy(p.a);
           p.Read(p.a, block);
           enqueued.Now();
           p.Mend([&] { p.Sync(p.a); });
         });
         enqueued.Wait();
         p.Mend([&] { worker.join(); });
         EXPECT_OK(Free(p.d, block));
       }},
  };
}

std::vector<Mistake> Locks() {
  return {
      {"OneSideAloneLocks", "read-after-write",
       [](Program& p) {
         sync::Mutex mutex;
         Luck done;
         Thread worker([&] {
           const Guard lock(mutex);
           p.Write(p.a, p.x);
           p.Sync(p.a);
           done.Now();
         });
         done.Wait();
         p.Mend([&] { const Guard lock(mutex); });
         p.Read(p.b, p.x);
       }},
      {"EachSideHasItsOwnMutex", "read-after-write",
       [](Program& p) {
         sync::Mutex first;
         sync::Mutex second;
         Luck done;
         Thread worker([&] {
           const Guard lock(first);
           p.Write(p.a, p.x);
           p.Sync(p.a);
           done.Now();
         });
         done.Wait();
         const Guard lock(p.mended() ? first : second);
         p.Read(p.b, p.x);
       }},
      {"AFailedLockIsIgnored", "read-after-write",
       [](Program& p) {
         sync::Mutex mutex;
         Luck written;
         Luck read;
         Thread worker([&] {
           const Guard lock(mutex);
           p.Write(p.a, p.x);
           p.Sync(p.a);
           written.Now();
           p.Fault([&] { read.Wait(); });
         });
         written.Wait();
         bool is_locked = mutex.try_lock();
         while (p.mended() && !is_locked) is_locked = mutex.try_lock();
         p.Read(p.b, p.x);
         read.Now();
         if (is_locked) mutex.unlock();
       }},
      {"AnUnlockComesBeforeTheWait", "read-after-write",
       [](Program& p) {
         sync::Mutex mutex;
         Luck done;
         Thread worker([&] {
           std::unique_lock<sync::Mutex> lock(mutex);
           p.Write(p.a, p.x);
           p.Mend([&] { p.Sync(p.a); });
           lock.unlock();
           p.Sync(p.a);
           done.Now();
         });
         done.Wait();
         const Guard lock(mutex);
         p.Read(p.b, p.x);
       }},
  };
}

std::vector<Mistake> Signals() {
  return {
      {"ANotificationComesBeforeTheRecord", "read-after-write",
       [](Program& p) {
         Signal ready;
         Luck recorded;
         Event& done = p.NewEvent(p.d);
         Thread producer([&] {
           p.Fault([&] { ready.Give(); });
           p.Write(p.a, p.x);
           EXPECT_OK(done.Record(p.a));
           p.Mend([&] { ready.Give(); });
           recorded.Now();
         });
         ready.Take();
         recorded.Wait();
         p.Wait(p.b, done);
         p.Read(p.b, p.x);
       }},
      {"NothingTellsThatTheEventIsRecorded", "read-after-write",
       [](Program& p) {
         Signal ready;
         Luck recorded;
         Event& done = p.NewEvent(p.d);
         Thread producer([&] {
           p.Write(p.a, p.x);
           EXPECT_OK(done.Record(p.a));
           ready.Give();
           recorded.Now();
         });
         p.Mend([&] { ready.Take(); });
         recorded.Wait();
         p.Wait(p.b, done);
         p.Read(p.b, p.x);
       }},
      {"TheHostWaitsForAnEventThatMayNotBeRecorded", "read-after-write",
       [](Program& p) {
         Signal ready;
         Luck recorded;
         Event& done = p.NewEvent(p.d);
         Thread producer([&] {
           p.Write(p.a, p.x);
           EXPECT_OK(done.Record(p.a));
           ready.Give();
           recorded.Now();
         });
         p.Mend([&] { ready.Take(); });
         recorded.Wait();
         EXPECT_OK(done.Synchronize());
         p.Read(p.b, p.x);
       }},
      {"TheSignalIsThatOfTheRoundBefore", "read-after-write",
       [](Program& p) {
         std::vector<Signal> ready(2);
         std::vector<Luck> recorded(2);
         Event& done = p.NewEvent(p.d);
         Thread producer([&] {
           for (int round = 0; round < 2; ++round) {
             p.Write(p.a, round == 0 ? p.x : p.y);
             EXPECT_OK(done.Record(p.a));
             ready[round].Give();
             recorded[round].Now();
           }
         });
         ready[0].Take();
         p.Mend([&] { ready[1].Take(); });
         recorded[1].Wait();
         p.Wait(p.b, done);
         p.Read(p.b, p.x);  // of the first round: in order
         p.Read(p.b, p.y);
       }},
      {"AQueueIsFilledBeforeTheUpload", "read-after-write",
       [](Program& p) {
         char* item = nullptr;  // the queue
         Luck enqueued;
         Thread producer([&] {
           item = p.x;
           p.Fault([&] { sync::Release(&item); });
           p.Copy(p.a, p.x, p.NewPinned());
           p.Sync(p.a);
           p.Mend([&] { sync::Release(&item); });
           enqueued.Now();
         });
         enqueued.Wait();
         sync::Acquire(&item);
         p.Read(p.b, item);
       }},
  };
}

std::vector<Mistake> HostWork() {
  return {
      {"AStagingBufferIsFilledByAnotherThread", "host-access-in-flight",
       [](Program& p) {
         Signal filled;
         Luck done;
         std::vector<char> staging(kBlock);
         Thread filler([&] {
           EXPECT_OK(validate::UseOnHost({Write(staging.data(), kBlock)}));
           filled.Give();
           done.Now();
         });
         p.Mend([&] { filled.Take(); });
         done.Wait();
         EXPECT_OK(validate::UseOnHost({Read(staging.data(), kBlock)}));
       }},
      {"AnUploadStartsBeforeItsSourceIsFilled", "read-after-write",
       [](Program& p) {
         Signal filled;
         Luck done;
         char* const staging = p.NewPinned();
         Thread filler([&] {
           EXPECT_OK(validate::UseOnHost({Write(staging, kBlock)}));
           filled.Give();
           done.Now();
         });
         p.Mend([&] { filled.Take(); });
         done.Wait();
         p.Copy(p.a, p.x, staging);
       }},
      {"AHostFunctionSignalsBeforeTheDownload", "host-access-in-flight",
       [](Program& p) {
         char* const host = p.NewPinned();
         Event& signalled = p.NewEvent(p.d);
         Luck called;
         const auto signal = [&] {
           EXPECT_OK(LaunchHostFunc(p.a, [&](absl::Status) {
             sync::Release(host);
             called.Now();
           }));
           EXPECT_OK(signalled.Record(p.a));
         };
         p.Fault(signal);
         p.Copy(p.a, host, p.x);
         p.Mend(signal);
         // The simulator's time goes on while a thread waits.
         Thread waiter([&] { EXPECT_OK(signalled.Synchronize()); });
         called.Wait();
         sync::Acquire(host);
         EXPECT_OK(validate::UseOnHost({Read(host, kBlock)}));
         waiter.join();
         p.Sync(p.a);
       }},
  };
}

}  // namespace

std::vector<Mistake> ThreadMistakes() {
  std::vector<Mistake> all;
  for (const auto& some : {Threads(), Locks(), Signals(), HostWork()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace devrt::testing
