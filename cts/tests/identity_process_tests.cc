// SPDX-License-Identifier: Apache-2.0
//
// Forks (C105) and ends (C106) of processes that used a backend.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/objects.h"
#include "cts/recorder.h"

namespace devrt::cts {
namespace identity_process_tests {
namespace {

constexpr uint64_t kSize = 4096;
constexpr uint64_t kForEver = 0;  // a timeout of flag_wait

// ---- C105

// A call of a child, and a check of its result.
struct Question {
  const char* name;
  std::function<absl::Status()> ask;
};

// Runs the calls in a child, which exits with the number of the wrong one.
void ExpectRefusedInChild(Test& t, const std::vector<Question>& questions) {
  const pid_t child = fork();
  t.Require(child >= 0, "a process can be forked");
  if (child == 0) {
    alarm(20);  // ends a child that hangs
    for (size_t i = 0; i < questions.size(); ++i) {
      const absl::Status status = questions[i].ask();
      if (status.code() != absl::StatusCode::kFailedPrecondition) {
        _exit(static_cast<int>(i) + 1);
      }
    }
    _exit(0);
  }
  int status = 0;
  t.Require(waitpid(child, &status, 0) == child, "the child can be awaited");
  if (!WIFEXITED(status)) {
    t.Fail(absl::StrCat("the child ended by signal ", WTERMSIG(status)));
  } else if (const int code = WEXITSTATUS(status)) {
    t.Fail(absl::StrCat("a forked child's ", questions[code - 1].name,
                        " is not FAILED_PRECONDITION"));
  }
}

void ChildrenAreRefused(Test& t) {
  const Device device = t.cpp_device();
  const Backend backend = device.backend();
  const Stream stream = t.Require(Stream::Create(device), "stream");
  const Event event = t.Require(Event::Create(device), "event");
  t.Ok(event.Record(stream), "record");
  t.Ok(stream.Synchronize(), "synchronise");
  const DeviceBlock x(t, t.device(), kSize);
  void* const block = t.Require(Allocate(device, kSize), "allocation");
  ExpectRefusedInChild(
      t,
      {
          {"GetBackend", [&] { return GetBackend(backend.name()).status(); }},
          {"GetDevice", [&] { return GetDevice(device.name()).status(); }},
          {"Devices", [&] { return Devices(backend.name()).status(); }},
          {"Properties", [&] { return device.Properties().status(); }},
          {"GetMemoryInfo", [&] { return device.GetMemoryInfo().status(); }},
          {"Device::Synchronize", [&] { return device.Synchronize(); }},
          {"Health", [&] { return device.Health(); }},
          {"CurrentDevice", [&] { return CurrentDevice(backend).status(); }},
          {"SetCurrentDevice", [&] { return SetCurrentDevice(device); }},
          {"DeviceGuard", [&] { return DeviceGuard(device).status(); }},
          {"Stream::Create", [&] { return Stream::Create(device).status(); }},
          {"Stream::Query", [&] { return stream.Query().status(); }},
          {"Stream::Synchronize", [&] { return stream.Synchronize(); }},
          {"Stream::Wait", [&] { return stream.Wait(event); }},
          {"Event::Create", [&] { return Event::Create(device).status(); }},
          {"Event::Record", [&] { return event.Record(stream); }},
          {"Event::Query", [&] { return event.Query().status(); }},
          {"Event::Synchronize", [&] { return event.Synchronize(); }},
          {"FillAsync", [&] { return FillAsync(stream, x.ptr(), 1, kSize); }},
          {"DefaultStream",
           [&] { return DefaultStream(device).Query().status(); }},
          {"PerThreadDefaultStream",
           [&] { return PerThreadDefaultStream(device).status(); }},
          {"Allocate", [&] { return Allocate(device, kSize).status(); }},
          {"Free", [&] { return Free(device, block); }},
          {"Shutdown", [&] { return Shutdown(); }},
      });
  t.Ok(Free(device, block), "free");
  const RawStream s(t, t.device());
  s.Fill(x.ptr(), 1, kSize);
  s.Sync();
  t.Expect(x.Holds(1), "the parent is none the worse for it");
}

// Copies, host memory, and calls that need a capability.
void ChildrenMoveNothing(Test& t) {
  const Device device = t.cpp_device();
  const Stream stream = t.Require(Stream::Create(device), "stream");
  const DeviceBlock x(t, t.device(), kSize), y(t, t.device(), kSize);
  std::vector<uint8_t> host(kSize);
  void* pinned = nullptr;
  if (t.machine().Has(DEVRT_CAP_PINNED_HOST)) {
    pinned = t.Require(AllocateHost(device, kSize), "pinned allocation");
  }
  std::vector<Question> questions = {
      {"CopyAsync", [&] { return CopyAsync(stream, y.ptr(), x.ptr(), kSize); }},
      {"Copy", [&] { return Copy(stream, host.data(), x.ptr(), kSize); }},
      {"GetPointerInfo", [&] { return GetPointerInfo(x.ptr()).status(); }},
      {"AllocateHost", [&] { return AllocateHost(device, kSize).status(); }},
      {"RegisterHost",
       [&] { return RegisterHost(device, host.data(), kSize); }},
      {"UnregisterHost", [&] { return UnregisterHost(device, host.data()); }},
  };
  if (pinned != nullptr) {
    questions.push_back({"FreeHost", [&] { return FreeHost(pinned); }});
  }
  ExpectRefusedInChild(t, questions);
  if (pinned != nullptr) t.Ok(FreeHost(pinned), "free of pinned memory");
}

void ChildrenSwitchNothing(Test& t) {
  const Device device = t.cpp_device();
  const Device peer = t.cpp_device(t.devices().size() - 1);
  const Stream stream = t.Require(Stream::Create(device), "stream");
  const Event event = t.Require(Event::Create(device), "event");
  t.Ok(event.Record(stream), "record");
  t.Ok(stream.Synchronize(), "synchronise");
  ExpectRefusedInChild(
      t,
      {
          {"LaunchHostFunc",
           [&] { return LaunchHostFunc(stream, [](absl::Status) {}); }},
          {"CanAccessPeer",
           [&] { return CanAccessPeer(device, peer).status(); }},
          {"EnablePeerAccess", [&] { return EnablePeerAccess(device, peer); }},
          {"DisablePeerAccess",
           [&] { return DisablePeerAccess(device, peer); }},
          {"SetCurrentStream", [&] { return SetCurrentStream(stream); }},
          {"StreamGuard", [&] { return StreamGuard(stream).status(); }},
          {"MultiStreamGuard",
           [&] { return MultiStreamGuard({stream.ref()}).status(); }},
          {"ElapsedMilliseconds",
           [&] { return ElapsedMilliseconds(event, event).status(); }},
          {"Stream::Native", [&] { return stream.Native().status(); }},
          {"Event::Native", [&] { return event.Native().status(); }},
          {"Stream::FromNative",
           [&] { return Stream::FromNative(device, nullptr).status(); }},
          {"GetExtension",
           [&] {
             return device.backend()
                 .GetExtension(DEVRT_PROBE_EXTENSION, sizeof(devrt_probe_v0))
                 .status();
           }},
      });
  t.Ok(stream.Synchronize(), "the parent's stream works");
}

// A child can destroy the inherited objects without a crash.
void ChildrenMayGiveUp(Test& t) {
  std::optional<Stream> stream =
      t.Require(Stream::Create(t.cpp_device()), "stream");
  std::optional<Event> event =
      t.Require(Event::Create(t.cpp_device()), "event");
  t.Ok(event->Record(*stream), "record");
  const RawStream busy(t, t.device());
  busy.Delay(1'000'000);
  const pid_t child = fork();
  t.Require(child >= 0, "a process can be forked");
  if (child == 0) {
    alarm(20);
    WatchCalls([](const char*) { _exit(1); });
    event.reset();
    stream.reset();
    // Exit handlers and destructors run, and none of them calls the backend.
    std::exit(0);
  }
  int status = 0;
  t.Require(waitpid(child, &status, 0) == child, "the child can be awaited");
  t.Expect(WIFEXITED(status) && WEXITSTATUS(status) == 0,
           "a child gives up what it inherited, and ends");
  busy.Sync();
  t.Ok(stream->Synchronize(), "the parent's stream works");
  t.Ok(event->Synchronize(), "the parent's event works");
}

// ---- C106

// All kinds of objects that a program can leave behind, with running work.
struct Leftovers {
  std::vector<Stream> streams;
  std::vector<Event> events;
  std::vector<RawStream> raw;
  std::optional<DeviceBlock> block;
};

// Lives as long as the process, and is never destroyed.
Leftovers* LeaveBehind(Test& t) {
  Machine& m = t.machine();
  auto* const all = new Leftovers;
  for (size_t i = 0; i < t.devices().size(); ++i) {
    const Device device = t.cpp_device(i);
    all->streams.push_back(t.Require(Stream::Create(device), "stream"));
    all->events.push_back(t.Require(Event::Create(device), "event"));
    t.Ok(all->events.back().Record(all->streams.back()), "record");
    t.Require(Allocate(device, kSize), "allocation");
    if (m.Has(DEVRT_CAP_PINNED_HOST)) {
      t.Require(AllocateHost(device, kSize), "pinned allocation");
    }
    t.Require(PerThreadDefaultStream(device), "per-thread stream");
    all->raw.emplace_back(t, t.device(i));
    if (m.Has(DEVRT_CAP_HOST_FUNC)) {
      all->raw.back().HostFunc([](devrt_code) {});
    }
    all->raw.back().Delay(1'000'000'000);
  }
  all->block.emplace(t, t.device(), kSize);
  all->raw.front().Fill(all->block->ptr(), 1, 1);
  return all;
}

// One thread waits for a stream forever, and another queries it without end.
void StartThreads(Test& t, const Leftovers* all) {
  Machine& m = t.machine();
  const devrt_stream held = all->raw.front().handle();
  if (m.probe() != nullptr) {
    devrt_flag flag = nullptr;
    t.Require(m.CallExtension(&devrt_probe_v0::flag_create, m.probe(),
                              m.probe_self(), t.device(), &flag),
              "flag creation");
    t.Require(m.CallExtension(&devrt_probe_v0::flag_wait, m.probe(),
                              m.probe_self(), held, flag, kForEver),
              "wait for a flag");
  }
  std::atomic<int> running{0};
  std::thread([&m, &running, held] {
    ++running;
    m.Call<&devrt_ops_v0::stream_sync>(held);
  }).detach();
  std::thread([&m, &running, held] {
    ++running;
    for (uint32_t done = 0;;) m.Call<&devrt_ops_v0::stream_query>(held, &done);
  }).detach();
  t.Eventually([&] { return running == 2; });
}

// After this, exit handlers and destructors run, and none of them may call the
// backend.  exit does not return to the test.
int EndQuietly(Test& t) {
  static Test* ending;
  ending = &t;
  WatchCalls([](const char* call) {
    ending->Fail(absl::StrCat("the end of the process called ", call));
  });
  return t.failures() == 0 ? 0 : 1;
}

void Returns(Test& t) {
  LeaveBehind(t);
  // Like a return from main, which is how the worker itself ends.
  std::exit(EndQuietly(t));
}

void QuickExit(Test& t) {
  LeaveBehind(t);
  std::quick_exit(EndQuietly(t));
}

void ExitsInAThread(Test& t) {
  LeaveBehind(t);
  std::thread([&t] { std::exit(EndQuietly(t)); }).join();
}

void ExitsWhileThreadsWork(Test& t) {
  StartThreads(t, LeaveBehind(t));
  std::exit(t.failures() == 0 ? 0 : 1);
}

void QuickExitWhileThreadsWork(Test& t) {
  StartThreads(t, LeaveBehind(t));
  std::quick_exit(t.failures() == 0 ? 0 : 1);
}

// The exception ends the process by SIGABRT.  Here a handler ends the process
// instead, which shows that the signal arrives.
void UncaughtException(Test& t) {
  LeaveBehind(t);
  if (t.failures() > 0) return;
  std::signal(SIGABRT, [](int) { _exit(0); });
  std::thread([] { throw 1; }).join();
}

// A static or thread-local object that calls devrt in its destructor.
class QueriesAtTheEnd {
 public:
  QueriesAtTheEnd(Test& t, int* answered)
      : t_(t), answered_(answered), name_(t.cpp_device().name()) {}
  QueriesAtTheEnd(const QueriesAtTheEnd&) = delete;
  QueriesAtTheEnd& operator=(const QueriesAtTheEnd&) = delete;
  ~QueriesAtTheEnd() {
    const Device device = t_.cpp_device();
    const auto properties = device.Properties();
    const absl::Status health = device.Health();
    const auto memory = device.GetMemoryInfo();
    const auto done = DefaultStream(device).Query();
    t_.Expect(device.name() == name_, "the name of the device is what it was");
    ++*answered_;
    // If the driver has ended already, any result is right.
    if (!t_.machine().simulator().has_value()) return;
    t_.Ok(properties.status(), "the properties at the end of the process");
    t_.Ok(health, "the health at the end of the process");
    t_.Ok(memory.status(), "free memory at the end of the process");
    t_.Ok(done.status(), "a query at the end of the process");
  }

 private:
  Test& t_;
  int* const answered_;
  const std::string name_;
};

void QueriesAtTheEndWork(Test& t) {
  LeaveBehind(t);
  static Test* ending;
  static int answered = 0;
  ending = &t;
  // Runs after the destructors of objects that are made later.
  std::atexit([] {
    ending->Equal(answered, 2, "objects that were answered at the end");
    if (ending->failures() > 0) _exit(1);
  });
  static std::optional<QueriesAtTheEnd> of_the_program;
  of_the_program.emplace(t, &answered);
  thread_local std::optional<QueriesAtTheEnd> of_the_thread;
  of_the_thread.emplace(t, &answered);
  std::exit(t.failures() == 0 ? 0 : 1);
}

// A thread ends while its objects are alive, and the process goes on.
void ThreadsEnd(Test& t) {
  for (int i = 0; i < 4; ++i) {
    Threads threads;
    threads.Start([&] {
      thread_local std::optional<Stream> stream;
      thread_local std::optional<Event> event;
      stream = t.Require(Stream::Create(t.cpp_device()), "stream");
      event = t.Require(Event::Create(t.cpp_device()), "event");
      t.Ok(event->Record(*stream), "record");
      PerThread(t).Delay(1000);
    });
    threads.Join();
  }
  t.Ok(t.cpp_device().Synchronize(), "the device works on");
}

constexpr TestCase kTests[] = {
    {"identity.children_are_refused", "C105",
     "A forked child of a process that opened a backend gets "
     "FAILED_PRECONDITION from every call on it.",
     &ChildrenAreRefused, 0, kOwnProcess},
    {"identity.children_move_nothing", "C105",
     "In a forked child every copy, and every call about host memory, is "
     "FAILED_PRECONDITION.",
     &ChildrenMoveNothing, 0, kOwnProcess},
    {"identity.children_switch_nothing", "C105",
     "In a forked child calls about host functions, peers, current streams, "
     "guards, elapsed time, native handles and extensions are "
     "FAILED_PRECONDITION.",
     &ChildrenSwitchNothing, 0, kOwnProcess},
    {"identity.children_may_give_up", "C105 C106",
     "A forked child destroys the inherited objects and ends, without a call "
     "of the backend.",
     &ChildrenMayGiveUp, 0, kOwnProcess},
    {"identity.threads_end", "C106",
     "A thread may end with objects in its thread-local storage.", &ThreadsEnd},
    {"identity.returns_with_live_objects", "C106",
     "A process may return with objects and work alive; that calls no backend.",
     &Returns, 0, kEndsProcess},
    {"identity.quick_exit_with_live_objects", "C106",
     "A process may leave by quick_exit with objects and work alive; that "
     "calls no backend.",
     &QuickExit, 0, kEndsProcess},
    {"identity.exits_in_a_thread", "C106",
     "A process may be ended by any of its threads; that calls no backend.",
     &ExitsInAThread, 0, kEndsProcess},
    {"identity.exits_while_threads_work", "C106",
     "Threads that wait for the device or ask it delay no exit.",
     &ExitsWhileThreadsWork, 0, kEndsProcess},
    {"identity.quick_exit_while_threads_work", "C106",
     "Threads that wait for the device or ask it delay no quick_exit.",
     &QuickExitWhileThreadsWork, 0, kEndsProcess},
    {"identity.uncaught_exception", "C106",
     "An uncaught exception ends a process with objects alive.",
     &UncaughtException, 0, kEndsProcess},
    {"identity.asked_at_the_end", "C106",
     "Static objects and thread-local ones may ask devrt while the process "
     "ends, and are answered.",
     &QueriesAtTheEndWork, 0, kEndsProcess},
};

}  // namespace
}  // namespace identity_process_tests

absl::Span<const TestCase> IdentityProcessTests() {
  return identity_process_tests::kTests;
}

}  // namespace devrt::cts
