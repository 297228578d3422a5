// SPDX-License-Identifier: Apache-2.0
//
// The validate layer with exact order of host threads: mistakes in the order of
// threads, programs without one, and the programs of the corpus.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tests/layers/validate_corpus.h"
#include "tests/layers/validate_findings.h"

namespace devrt::testing {
namespace {

using sync::Thread;
using ::testing::Contains;
using ::testing::HasSubstr;

void ChooseExact() { setenv("DEVRT_RACE_HOST_ORDER", "exact", 1); }

// ---- Mistakes ---------------------------------------------------------------

class ThreadCorpus : public ::testing::TestWithParam<Mistake> {};

TEST_P(ThreadCorpus, ExactOrderShowsTheMistake) {
  const FindingsFile file;
  const ProcessResult result = file.RunInChild([] {
    ChooseExact();
    Program program(false);
    GetParam().body(program);
  });
  EXPECT_THAT(file.Kinds(), Contains(GetParam().kind)) << result;
}

TEST_P(ThreadCorpus, TheMendedProgramHasNoFinding) {
  const FindingsFile file;
  const ProcessResult result = file.RunInChild([] {
    ChooseExact();
    Program program(true);
    GetParam().body(program);
  });
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(file.Text(), "");
}

TEST_P(ThreadCorpus, TheMendedProgramHasNoFindingInObservedOrder) {
  const FindingsFile file;
  const ProcessResult result = file.RunInChild([] {
    Program program(true);
    GetParam().body(program);
  });
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(file.Text(), "");
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadCorpus,
                         ::testing::ValuesIn(ThreadMistakes()),
                         NameOf<Mistake>);

// ---- Programs of one thread -------------------------------------------------

class ExactCorpus : public ::testing::TestWithParam<Mistake> {};

TEST_P(ExactCorpus, TheMistakeIsFound) {
  const FindingsFile file;
  const ProcessResult result = file.RunInChild([] {
    ChooseExact();
    Program program(false);
    GetParam().body(program);
  });
  EXPECT_THAT(file.Kinds(), Contains(GetParam().kind)) << result;
}

TEST_P(ExactCorpus, TheMendedProgramHasNoFinding) {
  // Its std::thread counts as one that comes after nothing.
  if (GetParam().name == std::string("TheDefaultStreamOfAnotherThread")) return;
  const FindingsFile file;
  const ProcessResult result = file.RunInChild([] {
    ChooseExact();
    Program program(true);
    GetParam().body(program);
  });
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(file.Text(), "");
}

INSTANTIATE_TEST_SUITE_P(All, ExactCorpus, ::testing::ValuesIn(AllMistakes()),
                         NameOf<Mistake>);

// ---- Right programs ---------------------------------------------------------

// A wait of `later` for the work of `earlier`.  Program::Record is for one
// thread.
void Order(StreamRef earlier, StreamRef later) {
  const Event event = Must(Event::Create(earlier.device()));
  EXPECT_OK(event.Record(earlier));
  EXPECT_OK(later.Wait(event));
}

// Runs `work` on two threads at once, on different streams.
void OnTwoThreads(Program& p, const std::function<void(StreamRef)>& work) {
  Thread other([&] { work(p.b); });
  work(p.a);
}

constexpr int kRounds = 20;

std::vector<RightProgram> ProgramsOfDevrt() {
  return {
      // devrt orders the uses of an array.
      {"ThreadsShareAnArray",
       [](Program& p) {
         const Array array = Must(Array::Zeros({64}, kFloat32, p.d));
         OnTwoThreads(p, [&](StreamRef s) {
           const StreamGuard on(s);
           for (int i = 0; i < kRounds; ++i) {
             EXPECT_OK(array.Fill(Scalar(i)));
             if (i % 3 == 0) p.Sync(s);
           }
         });
       }},
      {"AThreadUsesAnArrayThatAnotherWaitedFor",
       [](Program& p) {
         const Array array = Must(Array::Zeros({64}, kFloat32, p.d));
         std::promise<void> done;
         Thread writer([&] {
           const StreamGuard on(p.a);
           EXPECT_OK(array.Fill(Scalar(1)));
           p.Sync(p.a);
           done.set_value();
         });
         done.get_future().wait();
         const StreamGuard on(p.b);
         EXPECT_OK(array.Fill(Scalar(2)));
         EXPECT_OK(array.To(Place::Host()));
       }},
      // The allocators' locks order what becomes of a block.
      {"BlocksGoFromThreadToThread",
       [](Program& p) {
         OnTwoThreads(p, [&](StreamRef s) {
           for (int i = 0; i < kRounds; ++i) {
             void* const block = Must(AllocateMemory(s, kBlock));
             p.Write(s, block);
             if (i % 3 == 0) p.Sync(s);
             EXPECT_OK(FreeMemory(block));
             void* const pinned = Must(AllocatePinned(p.d, kBlock));
             p.Copy(s, pinned, p.x);
             EXPECT_OK(FreePinned(pinned));
           }
         });
       }},
      {"ABlockIsUsedOnTwoStreamsAndFreed",
       [](Program& p) {
         const Stream third = Must(Stream::Create(p.d));
         OnTwoThreads(p, [&](StreamRef s) {
           for (int i = 0; i < kRounds; ++i) {
             Buffer buffer = Must(Buffer::Allocate(s, kBlock));
             p.Write(s, buffer.data());
             Order(s, third);
             EXPECT_OK(RecordStream(buffer.data(), third));
             p.Read(third, buffer.data());
           }
         });
       }},
      // Which of them comes first is left to chance.
      {"TwoThreadsUseOneStream",
       [](Program& p) {
         OnTwoThreads(p, [&](StreamRef) { p.Write(p.c, p.x); });
       }},
  };
}

std::vector<RightProgram> ProgramsOfThreads() {
  return {
      {"AThreadComesAfterItsStarter",
       [](Program& p) {
         p.Write(p.a, p.x);
         p.Sync(p.a);
         Thread reader([&] { p.Update(p.b, p.x); });
         reader.join();
         Order(p.b, p.c);
         p.Read(p.c, p.x);
       }},
      // Each record covers those before it, so it does not matter which record
      // the wait gets.
      {"AnEventIsRecordedAgain",
       [](Program& p) {
         Event& done = p.NewEvent(p.d);
         sync::Mutex mutex;
         int rounds = 0;
         Thread producer([&] {
           for (int i = 0; i < kRounds; ++i) {
             p.Write(p.a, i == 0 ? p.x : p.y);
             EXPECT_OK(done.Record(p.a));
             const std::lock_guard<sync::Mutex> lock(mutex);
             ++rounds;
           }
         });
         for (bool is_first_done = false; !is_first_done;) {
           const std::lock_guard<sync::Mutex> lock(mutex);
           is_first_done = rounds > 0;
         }
         p.Wait(p.b, done);
         p.Read(p.b, p.x);
       }},
      {"APinnedBufferGoesToAThread",
       [](Program& p) {
         volatile char* const host = p.NewPinned();
         sync::ConditionVariable changed;
         sync::Mutex mutex;
         bool is_full = false;
         Thread reader([&] {
           std::unique_lock<sync::Mutex> lock(mutex);
           changed.wait(lock, [&] { return is_full; });
           host[0] = host[1];
           lock.unlock();
           p.Copy(p.b, p.y, const_cast<char*>(host));
         });
         p.Copy(p.a, const_cast<char*>(host), p.x);
         p.Sync(p.a);
         const std::lock_guard<sync::Mutex> lock(mutex);
         is_full = true;
         changed.notify_all();
       }},
      // Host functions run on threads of the backend.
      {"AHostFunctionTellsAThread",
       [](Program& p) {
         char* const host = p.NewPinned();
         p.Copy(p.a, host, p.x);
         std::promise<void> called;
         EXPECT_OK(LaunchHostFunc(p.a, [&](absl::Status) {
           sync::Release(host);
           called.set_value();
         }));
         p.Sync(p.a);
         Thread reader([&] {
           called.get_future().wait();
           sync::Acquire(host);
           EXPECT_OK(validate::UseOnHost({Write(host, kBlock)}));
         });
       }},
      {"ManyThreadsInTurn",
       [](Program& p) {
         for (int i = 0; i < 50; ++i) {
           const StreamRef s = i % 2 == 0 ? p.a : p.b;
           Thread one([&] {
             p.Update(s, p.x);
             p.Sync(s);
           });
           one.join();
         }
       }},
      {"AMovedThreadIsJoined",
       [](Program& p) {
         Thread first([&] {
           p.Write(p.a, p.x);
           p.Sync(p.a);
         });
         Thread second(std::move(first));
         EXPECT_FALSE(first.joinable());
         first = std::move(second);
         first.join();
         EXPECT_FALSE(first.joinable());
         p.Read(p.b, p.x);
       }},
  };
}

class ThreadPrograms : public ::testing::TestWithParam<RightProgram> {};

TEST_P(ThreadPrograms, NoFinding) {
  const FindingsFile file;
  const ProcessResult result = file.RunInChild([] {
    ChooseExact();
    Program program(true);
    GetParam().body(program);
  });
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(file.Text(), "");
}

INSTANTIATE_TEST_SUITE_P(Devrt, ThreadPrograms,
                         ::testing::ValuesIn(ProgramsOfDevrt()),
                         NameOf<RightProgram>);
INSTANTIATE_TEST_SUITE_P(Threads, ThreadPrograms,
                         ::testing::ValuesIn(ProgramsOfThreads()),
                         NameOf<RightProgram>);

// ---- Reports and the setting ------------------------------------------------

// A record that another thread may make too late.
void RunLuckyWait(Program& p) {
  Event& done = p.NewEvent(p.d);
  std::promise<void> recorded;
  Thread producer([&] {
    pthread_setname_np(pthread_self(), "producer");
    p.Write(p.a, p.x);
    EXPECT_OK(done.Record(p.a));
    recorded.set_value();
  });
  recorded.get_future().wait();
  p.Wait(p.b, done);
  p.Read(p.b, p.x);
}

TEST(ExactHostOrder, AFindingNamesTheThreads) {
  const FindingsFile file;
  file.RunInChild([] {
    ChooseExact();
    Program program(false);
    RunLuckyWait(program);
  });
  ASSERT_EQ(file.Count(), 1U);
  const nlohmann::json finding = file.Findings()[0];
  EXPECT_EQ(finding["earlier"]["thread"], "host thread 2 (producer)");
  EXPECT_EQ(finding["later"]["thread"], "host thread 1");
  ASSERT_EQ(finding["near_misses"].size(), 1U);
  EXPECT_EQ(finding["near_misses"][0]["kind"], "may-be-early");
  const std::string text = finding["text"];
  EXPECT_THAT(text, HasSubstr(" by host thread 2 (producer)"));
  EXPECT_THAT(text, HasSubstr("nothing orders the record before the call"));
  EXPECT_THAT(text, HasSubstr("to mend it: let the wait at "));
}

TEST(ExactHostOrder, ObservedOrderNamesNoThread) {
  const FindingsFile file;
  file.RunInChild([] {
    Program program(false);
    program.Write(program.a, program.x);
    program.Read(program.b, program.x);
  });
  ASSERT_EQ(file.Count(), 1U);
  EXPECT_FALSE(file.Findings()[0]["later"].contains("thread"));
}

TEST(ExactHostOrder, ObservedOrderMissesWhatLuckOrders) {
  const FindingsFile file;
  file.RunInChild([] {
    Program program(false);
    RunLuckyWait(program);
  });
  EXPECT_EQ(file.Text(), "");
}

TEST(ExactHostOrder, AProgramChoosesTheOrderOfAPart) {
  const FindingsFile file;
  const ProcessResult result = file.RunInChild([&] {
    Program program(false);
    RunLuckyWait(program);
    program.Sync(program.b);
    EXPECT_EQ(file.Text(), "");
    EXPECT_OK(sync::SetHostOrder(sync::HostOrder::kExact));
    RunLuckyWait(program);
    program.Sync(program.b);
    EXPECT_EQ(file.Count(), 1U);
    EXPECT_OK(sync::SetHostOrder(sync::HostOrder::kObserved));
    RunLuckyWait(program);
    EXPECT_EQ(file.Count(), 1U);
  });
  EXPECT_EQ(result.exit_code, 0) << result;
}

// Work before the change counts as ordered as it was enqueued and waited for.
TEST(ExactHostOrder, TheChangeKeepsWhatWasKnown) {
  const FindingsFile file;
  const ProcessResult result = file.RunInChild([&] {
    Program program(false);
    std::thread writer([&] {
      program.Write(program.a, program.x);
      program.Sync(program.a);
    });
    writer.join();
    EXPECT_OK(sync::SetHostOrder(sync::HostOrder::kExact));
    program.Read(program.b, program.x);
    EXPECT_EQ(file.Text(), "");
    program.Write(program.c, program.x);
    EXPECT_EQ(file.Count(), 1U);
  });
  EXPECT_EQ(result.exit_code, 0) << result;
}

// ---- The types of devrt::sync -----------------------------------------------

TEST(Sync, WaitsEndInTime) {
  sync::Mutex mutex;
  sync::ConditionVariable never;
  std::unique_lock<sync::Mutex> lock(mutex);
  const auto now = std::chrono::system_clock::now();
  EXPECT_EQ(never.wait_until(lock, now), std::cv_status::timeout);
  EXPECT_FALSE(never.wait_until(lock, now, [] { return false; }));
  EXPECT_EQ(never.wait_for(lock, std::chrono::milliseconds(1)),
            std::cv_status::timeout);
  EXPECT_FALSE(
      never.wait_for(lock, std::chrono::nanoseconds(1), [] { return false; }));
  EXPECT_TRUE(
      never.wait_for(lock, std::chrono::hours::max(), [] { return true; }));
  EXPECT_TRUE(lock.owns_lock());
}

TEST(Sync, ALockedMutexIsNotLockedAgain) {
  sync::Mutex mutex;
  ASSERT_TRUE(mutex.try_lock());
  Thread other([&] { EXPECT_FALSE(mutex.try_lock()); });
  other.join();
  mutex.unlock();
}

TEST(Sync, AWaiterIsWoken) {
  sync::Mutex mutex;
  sync::ConditionVariable changed;
  int turn = 0;
  Thread other([&] {
    for (int mine = 1; mine < 100; mine += 2) {
      std::unique_lock<sync::Mutex> lock(mutex);
      changed.wait(lock, [&] { return turn == mine; });
      ++turn;
      changed.notify_all();
    }
  });
  for (int mine = 0; mine < 100; mine += 2) {
    std::unique_lock<sync::Mutex> lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::hours::max(),
                                 [&] { return turn == mine; }));
    ++turn;
    changed.notify_one();
  }
  other.join();
  EXPECT_EQ(turn, 100);
}

TEST(Sync, AThreadThatWasJoinedCannotBeJoined) {
  Thread none;
  EXPECT_FALSE(none.joinable());
  EXPECT_THROW(none.join(), std::system_error);
  Thread one([] {});
  one.join();
  EXPECT_THROW(one.join(), std::system_error);
}

}  // namespace
}  // namespace devrt::testing
