// SPDX-License-Identifier: Apache-2.0
//
// The Validator without a backend: events that other processes share, which the
// simulator does not have, and its lock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "layers/validate/validator.h"

namespace devrt::race {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;

constexpr uint64_t kSize = 64;

template <typename Handle>
Handle HandleOf(uintptr_t number) {
  return reinterpret_cast<Handle>(number);
}

struct Processes {
  std::vector<std::string> texts;
  Findings findings{[this](const std::string& text) { texts.push_back(text); }};
  Validator validator{&findings, false, {}};
  DeviceKey device = validator.AddBackend("fake", false);
  devrt_stream a = NewStream(16), b = NewStream(32);
  devrt_event exported = NewEvent(48, true), opened = NewEvent(64, true);
  char block[kSize] = {};

  devrt_stream NewStream(uintptr_t number) {
    const auto stream = HandleOf<devrt_stream>(number);
    validator.AddStream(device, stream, StreamKind::kNonBlocking,
                        HandleOf<void*>(number), false);
    return stream;
  }
  devrt_event NewEvent(uintptr_t number, bool shared) {
    const auto event = HandleOf<devrt_event>(number);
    validator.AddEvent(device, event, shared);
    return event;
  }
  void Use(devrt_stream stream, Mode mode) {
    Caller caller;
    caller.name = "work";
    validator.Enqueue(caller, stream,
                      {{reinterpret_cast<uint64_t>(block), kSize, mode}});
  }
  void Record(devrt_stream stream, devrt_event event) {
    validator.Record({}, stream, event);
  }
};

TEST(ValidateSharedEvents, AnotherProcessMayHaveWaitedForARecordHere) {
  Processes p;
  p.Use(p.a, Mode::kWrite);
  p.Record(p.a, p.exported);
  p.validator.Wait({}, p.b, p.opened);
  p.Use(p.b, Mode::kRead);
  EXPECT_THAT(p.texts, IsEmpty());
}

TEST(ValidateSharedEvents, AnotherProcessKnowsNoWorkAfterTheRecord) {
  Processes p;
  p.Record(p.a, p.exported);
  p.Use(p.a, Mode::kWrite);
  p.validator.Wait({}, p.b, p.opened);
  p.Use(p.b, Mode::kRead);
  ASSERT_THAT(p.texts, SizeIs(1));
  EXPECT_THAT(p.texts[0], HasSubstr("[read-after-write]"));
  EXPECT_THAT(p.texts[0], Not(HasSubstr("never recorded")));
}

TEST(ValidateSharedEvents, TheHostMayWaitForThem) {
  Processes p;
  p.Use(p.a, Mode::kWrite);
  p.Record(p.a, p.exported);
  p.validator.EndHostWait(p.validator.WorkOfEvent(p.opened));
  p.Use(p.b, Mode::kWrite);
  EXPECT_THAT(p.texts, IsEmpty());
}

TEST(ValidateSharedEvents, AnEventOfThisProcessAloneOrdersAsBefore) {
  Processes p;
  const devrt_event own = p.NewEvent(80, false);
  p.Use(p.a, Mode::kWrite);
  p.Record(p.a, p.exported);
  p.Record(p.b, own);
  const devrt_stream c = p.NewStream(96);
  p.validator.Wait({}, c, own);
  p.Use(c, Mode::kRead);
  EXPECT_THAT(p.texts, SizeIs(1));
}

TEST(ValidateOperationNames, AnOldUseKeepsItsNameOfTheSimulator) {
  Processes p;
  const devrt_stream c = p.NewStream(96);
  char other[kSize] = {};
  Caller caller;
  const auto write = [&](devrt_stream stream, const char* at, uint64_t index) {
    caller.op = {OpId::Kind::kOwn, 0, index};
    p.validator.Enqueue(
        caller, stream,
        {{reinterpret_cast<uint64_t>(at), kSize, Mode::kWrite}});
  };
  constexpr uint64_t kMany = 40000;
  write(p.a, p.block, 0);
  for (uint64_t i = 1; i < kMany; ++i) write(c, other, i);
  write(p.b, p.block, kMany);
  ASSERT_THAT(p.findings.made(), SizeIs(1));
  EXPECT_EQ(p.findings.made().begin()->second.hold, "0.0");
  EXPECT_EQ(p.findings.made().begin()->second.until, "0.40000");
}

TEST(ValidateReports, OnHardwareTheCommandForTheSimulatorIsNamed) {
  Processes p;
  p.Use(p.a, Mode::kWrite);
  p.Use(p.b, Mode::kWrite);
  ASSERT_THAT(p.texts, SizeIs(1));
  EXPECT_THAT(p.texts[0],
              MatchesRegex("(.|\n)*\n  to repeat it: DEVRT_BACKENDS=mtia devrt "
                           "check --witness -- [^\n]*/layers_validate[^\n]*"));
  p.device = p.validator.AddBackend("simulator", true);
  const devrt_stream a = p.NewStream(112);
  const devrt_stream b = p.NewStream(128);
  Caller caller;
  caller.name = "other work";
  for (const devrt_stream stream : {a, b}) {
    p.validator.Enqueue(caller, stream, {{1 << 20, kSize, Mode::kWrite}});
  }
  ASSERT_THAT(p.texts, SizeIs(2));
  EXPECT_THAT(p.texts[1], Not(HasSubstr("to repeat it")));
}

// Memory that went back to a backend, which asks with the lock free who has its
// addresses now.
struct FreedMemory : Processes {
  bool is_there = false;  // another library has memory at the addresses
  int questions = 0;
  std::function<void()> meanwhile;  // what another thread does during one
  DeviceKey pinned =
      validator.AddBackend("asked", false, [this](const void* ptr) {
        validator.BlockAt(ptr);  // takes the lock
        ++questions;
        if (meanwhile != nullptr) std::exchange(meanwhile, {})();
        return is_there;
      });

  void AllocateAndFree(const void* ptr) {
    validator.Allocate({}, pinned, ptr, kSize, MemoryKind::kPinned);
    EXPECT_NE(validator.Free({}, ptr), 0U);
  }
};

TEST(ValidateFreedMemory, AnotherLibraryHasItsAddresses) {
  FreedMemory m;
  m.is_there = true;
  m.AllocateAndFree(m.block);
  m.Use(m.a, Mode::kWrite);
  EXPECT_THAT(m.texts, IsEmpty());
  EXPECT_EQ(m.questions, 1);
  m.Use(m.b, Mode::kWrite);  // that use is noted
  ASSERT_THAT(m.texts, SizeIs(1));
  EXPECT_THAT(m.texts[0], HasSubstr("[write-after-write]"));
  EXPECT_EQ(m.questions, 1);
}

TEST(ValidateFreedMemory, ADeviceUsesWhatTheBackendDoesNotHave) {
  FreedMemory m;
  m.AllocateAndFree(m.block);
  const std::string text = m.validator.Enqueue(
      {}, m.a, {{reinterpret_cast<uint64_t>(m.block), kSize, Mode::kRead}});
  EXPECT_THAT(text, HasSubstr("[use-after-free]"));
  EXPECT_THAT(m.texts, ElementsAre(text));
}

TEST(ValidateFreedMemory, ACallDuringTheQuestionHasItsOwnFinding) {
  FreedMemory m;
  char other[kSize] = {};
  const auto use = [&m](devrt_stream stream, const char* memory) {
    return m.validator.Enqueue(
        {}, stream,
        {{reinterpret_cast<uint64_t>(memory), kSize, Mode::kWrite}});
  };
  m.AllocateAndFree(m.block);
  EXPECT_EQ(use(m.a, other), "");
  std::string inner;
  m.meanwhile = [&] { inner = use(m.b, other); };
  EXPECT_THAT(use(m.a, m.block), HasSubstr("[use-after-free]"));
  EXPECT_THAT(inner, HasSubstr("[write-after-write]"));
}

TEST(ValidateFreedMemory, TheThreadOfTheFreeIsNamed) {
  FreedMemory m;
  m.validator.SetExactHostOrder(true);
  m.AllocateAndFree(m.block);
  m.Use(m.a, Mode::kRead);
  ASSERT_THAT(m.texts, SizeIs(1));
  EXPECT_THAT(m.texts[0],
              HasSubstr("freed in host thread 1 at an unknown line"));
}

TEST(ValidateFreedMemory, APartOfAnAllocatorsBlockIsStillTheAllocators) {
  FreedMemory m;
  m.is_there = true;
  m.validator.Allocate({}, m.pinned, m.block, kSize, MemoryKind::kPinned);
  m.validator.HandOutPinned({}, m.pinned, m.block, kSize);
  m.validator.TakeBackPinned({}, m.block);
  m.Use(m.a, Mode::kRead);
  ASSERT_THAT(m.texts, SizeIs(1));
  EXPECT_THAT(m.texts[0], HasSubstr("[use-after-free]"));
  EXPECT_EQ(m.questions, 0);
}

TEST(ValidateFreedMemory, TheHostAndASimulatorUseWhatTheProcessHasMapped) {
  FreedMemory m;
  auto* const page = static_cast<char*>(
      mmap(nullptr, kSize, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const auto use = [&] {
    m.validator.UseByHost(
        {}, {{reinterpret_cast<uint64_t>(page), kSize, Mode::kRead}});
  };
  m.AllocateAndFree(page);
  use();
  m.AllocateAndFree(page);
  m.device = m.validator.AddBackend("simulator", true);
  const devrt_stream simulated = m.NewStream(112);
  m.validator.Enqueue({}, simulated,
                      {{reinterpret_cast<uint64_t>(page), kSize, Mode::kRead}});
  EXPECT_THAT(m.texts, IsEmpty());
  m.AllocateAndFree(page);
  ASSERT_EQ(munmap(page, kSize), 0);
  use();
  EXPECT_THAT(m.texts, SizeIs(1));
  EXPECT_EQ(m.questions, 0);
}

// The stream `number`, which another library has made.
void Adopt(Processes* p, uintptr_t number) {
  p->validator.AddStream(p->device, HandleOf<devrt_stream>(number),
                         StreamKind::kNonBlocking, HandleOf<void*>(number),
                         true);
}

TEST(ValidateAdoptedStreams, TheFirstPairThatIsLeftOutIsLogged) {
  Processes p;
  Adopt(&p, 96);
  p.Use(p.a, Mode::kWrite);
  p.Use(p.b, Mode::kWrite);
  p.Use(p.a, Mode::kWrite);
  EXPECT_THAT(p.findings.made(), IsEmpty());
  ASSERT_THAT(p.texts, SizeIs(1));
  EXPECT_THAT(p.texts[0], HasSubstr("DEVRT_RACE_FOREIGN"));
  EXPECT_THAT(p.findings.Summary(), HasSubstr("2 unordered pairs left out"));
}

TEST(ValidateAdoptedStreams, TheStreamsOfASimulatorAreJudgedAllTheSame) {
  Processes p;
  Adopt(&p, 96);
  p.device = p.validator.AddBackend("simulator", true);
  const devrt_stream a = p.NewStream(112);
  const devrt_stream b = p.NewStream(128);
  p.Use(a, Mode::kWrite);
  p.Use(b, Mode::kWrite);
  EXPECT_THAT(p.findings.made(), SizeIs(1));
  void* const block = HandleOf<void*>(1 << 20);
  p.validator.Allocate({}, p.device, block, kSize, MemoryKind::kDevice);
  for (const devrt_stream stream : {a, b}) {
    p.validator.Enqueue({}, stream, {{1 << 20, kSize, Mode::kRead}});
    p.validator.Enqueue({}, stream, {{1 << 20, kSize, Mode::kWrite}});
  }
  EXPECT_GT(p.findings.made().size(), 1U);
}

// Calls function(number) in several threads at once.
template <typename Function>
void InThreads(Function function) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([=] { function(i); });
  for (std::thread& thread : threads) thread.join();
}

TEST(ValidateLock, OneThreadAtATimeHoldsIt) {
  constexpr int kTimes = 20'000;
  std::atomic<int> texts{0};
  FindingsMutex mutex([&](const std::string& /*text*/) { ++texts; });
  int held = 0;
  InThreads([&](int /*thread*/) {
    for (int i = 0; i < kTimes; ++i) {
      const std::lock_guard<FindingsMutex> lock(mutex);
      ++held;
      if (i % 10 == 0) mutex.LogLater("a text");
    }
  });
  EXPECT_EQ(held, 4 * kTimes);
  EXPECT_EQ(texts, 4 * kTimes / 10);
}

TEST(ValidateLock, AWaitEndsNoCancelledThread) {
  FindingsMutex mutex({});
  std::atomic<bool> begins{false};
  bool had_it = false;
  mutex.lock();
  std::thread thread([&] {
    pthread_cancel(pthread_self());
    begins = true;
    const std::lock_guard<FindingsMutex> lock(mutex);
    had_it = true;
  });
  while (!begins) std::this_thread::yield();
  // Longer than the thread spins.
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  mutex.unlock();
  thread.join();
  EXPECT_TRUE(had_it);
}

TEST(ValidateLock, ATryFailsWhileItIsHeld) {
  FindingsMutex mutex({});
  mutex.lock();
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

// The clocks of waits share parts with those of streams and events, without a
// lock of their own.  A count of uses that two threads changed at once frees a
// part that a clock still has, or none.
TEST(ValidateWaits, WorkThatIsWaitedForEndsOnAnyThread) {
  constexpr int kTimes = 2'000;
  Processes p;
  const devrt_event event = p.NewEvent(96, false);
  InThreads([&](int thread) {
    const devrt_stream stream = thread % 2 == 0 ? p.a : p.b;
    for (int i = 0; i < kTimes; ++i) {
      p.Record(stream, event);
      p.validator.Wait({}, stream, event);
      Validator::WaitedWork dropped = p.validator.WorkOfStream(stream);
      Validator::WaitedWork waited = p.validator.WorkOfEvent(event);
      if (i % 8 == 0) p.validator.EndHostWait(std::move(waited));
    }
  });
  p.Use(p.a, Mode::kWrite);
  p.Record(p.a, event);
  p.validator.Wait({}, p.b, event);
  p.Use(p.b, Mode::kWrite);
  EXPECT_THAT(p.texts, IsEmpty());
}

TEST(ValidateLeaks, EachDeviceHasFindingsOfItsOwn) {
  Processes p;
  Caller caller;
  caller.file = "a.cc";
  caller.line = 1;
  int events[3];
  p.validator.NoteMade(caller, p.device, &events[0], "event");
  p.validator.NoteMade(caller, p.device, &events[1], "event");
  p.validator.NoteMade(caller, p.device + 1, &events[2], "event");
  p.validator.AddLeaks();
  ASSERT_THAT(p.texts, SizeIs(2));
  EXPECT_THAT(p.texts[0], HasSubstr("2 events of fake:0 are alive"));
  EXPECT_THAT(p.texts[1], HasSubstr("1 event of fake:1 is alive"));
}

// Locks have no place, so the simulator tells the last call before them.
TEST(ValidatorDeadlock, TheCallBeforeALockIsNoPlace) {
  Processes p;
  p.validator.AddDeadlock(
      "deadlock: host#0 stream_sync {s1, 1} (a.cc:8) -> s1 op 1 host function "
      "\"f\" (a.cc:7) -> lock#1, held by host#1 (after b.cc:12) -> host#1 "
      "devrt::sync (after b.cc:12) waits for a notification. No host thread "
      "and "
      "no stream can go on.");
  ASSERT_THAT(p.findings.made(), SizeIs(1));
  const auto found =
      nlohmann::json::parse(p.findings.made().begin()->second.json);
  std::vector<std::string> sites;
  for (const auto& part : found.at("participants")) {
    sites.push_back(part.at("site"));
  }
  EXPECT_THAT(sites, ElementsAre("a.cc:8", "a.cc:7", "", ""));
  EXPECT_THAT(p.texts[0], HasSubstr("\n  lock#1, held by host#1 (after b.cc:12)"
                                    "\n"));
}

}  // namespace
}  // namespace devrt::race
