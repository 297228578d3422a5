// SPDX-License-Identifier: Apache-2.0
//
// Host functions that are unordered, that wait forever, or that lose their
// device.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cts/catalog.h"
#include "cts/lost_device.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace hostfunc_fault_tests {
namespace {

using Ops = devrt_ops_v0;
constexpr uint64_t kFlagTimeout = 10'000'000'000;

// ---- C43, C44

// The begins and ends of two functions, for example "AaBb": one after the
// other, or both at once if there are threads for them.
struct Spans {
  std::mutex mutex;
  std::string order;
  std::thread::id thread;  // the thread of the latest begin

  bool Begin(char name) {
    const std::lock_guard<std::mutex> lock(mutex);
    const bool nested =
        order.size() == 1 && thread == std::this_thread::get_id();
    thread = std::this_thread::get_id();
    order += name;
    return !nested;
  }
  void End(char name) {
    const std::lock_guard<std::mutex> lock(mutex);
    order += name;
  }
};

void UnorderedFunctions(Test& t) {
  t.Reaches({"A first", "B first"}, [&]() -> std::string {
    const auto spans = std::make_shared<Spans>();
    const auto wrong = std::make_shared<std::atomic<bool>>(false);
    const auto note = [spans, wrong](char begin, char end) {
      return [spans, wrong, begin, end](devrt_code) {
        if (!spans->Begin(begin)) *wrong = true;
        std::this_thread::yield();
        spans->End(end);
      };
    };
    const RawStream a(t, t.device()), b(t, t.device());
    a.HostFunc(note('A', 'a'));
    b.HostFunc(note('B', 'b'));
    a.Sync();
    b.Sync();
    const std::lock_guard<std::mutex> lock(spans->mutex);
    if (*wrong) return "one inside the other, in one thread";
    std::string all = spans->order;
    std::sort(all.begin(), all.end());
    if (all != "ABab") return spans->order + ", not each once";
    return spans->order[0] + std::string(" first");
  });
}

// A door that a host function waits for, without devrt.
struct Door {
  std::mutex mutex;
  std::condition_variable opened;
  bool open = false;

  void Wait() {
    std::unique_lock<std::mutex> lock(mutex);
    opened.wait(lock, [this] { return open; });
  }
  void Open() {
    const std::lock_guard<std::mutex> lock(mutex);
    open = true;
    opened.notify_all();
  }
};

using Doors = std::vector<std::shared_ptr<Door>>;

// A function that opens one door and then waits for another; nullptr means no
// door.  If a plugin calls it at the submission, a check must fail instead of a
// hang.
void OpenThenWait(const RawStream& stream, const std::shared_ptr<Door>& open,
                  const std::shared_ptr<Door>& wait) {
  stream.HostFunc([open, wait, me = std::this_thread::get_id()](devrt_code) {
    if (open != nullptr) open->Open();
    if (wait != nullptr && std::this_thread::get_id() != me) wait->Wait();
  });
}

// The submitted work can never run.  The simulator reports that and ends the
// wait.
void IsReported(Test& t, const Doors& doors) {
  Machine& m = t.machine();
  t.Code(m.Call<&Ops::device_sync>(t.device()), DEVRT_FAILED_PRECONDITION,
         "a wait for a host function that waits forever", "deadlock");
  for (const auto& door : doors) door->Open();
  t.Require(m.Call<&Ops::device_sync>(t.device()), "the wait, once opened");
}

void WaitForLaterWorkIsReported(Test& t) {
  t.Require(t.machine().Reset("watchdog=20ms"), "reset of the simulator");
  {
    const RawStream a(t, t.device());
    const auto door = std::make_shared<Door>();
    OpenThenWait(a, nullptr, door);
    OpenThenWait(a, door, nullptr);
    IsReported(t, {door});
  }
  t.Require(t.machine().Reset(""), "reset of the simulator");
}

// The two functions end only if they run at once.
void WaitForEachOtherIsReported(Test& t) {
  t.Require(t.machine().Reset("watchdog=20ms"), "reset of the simulator");
  {
    const RawStream a(t, t.device()), b(t, t.device());
    const Doors doors = {std::make_shared<Door>(), std::make_shared<Door>()};
    OpenThenWait(a, doors[0], doors[1]);
    OpenThenWait(b, doors[1], doors[0]);
    IsReported(t, doors);
  }
  t.Require(t.machine().Reset(""), "reset of the simulator");
}

// ---- C45

// The test does not destroy streams and flags, because their device is lost.
class LostDevice {
 public:
  explicit LostDevice(Test& t) : t_(t), device_(t.device()) {
    Machine& m = t.machine();
    t.Require(m.CallExtension(&devrt_probe_v0::flag_create, m.probe(),
                              m.probe_self(), device_, &flag_),
              "flag creation");
  }
  devrt_stream NewStream() {
    devrt_stream_desc_v0 desc = {};
    desc.struct_size = sizeof desc;
    devrt_stream stream = nullptr;
    t_.Require(
        t_.machine().Call<&Ops::stream_create>(
            device_, static_cast<const devrt_stream_desc_v0*>(&desc), &stream),
        "stream creation");
    return stream;
  }
  void Hold(devrt_stream stream) {
    Machine& m = t_.machine();
    t_.Require(m.CallExtension(&devrt_probe_v0::flag_wait, m.probe(),
                               m.probe_self(), stream, flag_, kFlagTimeout),
               "wait for a flag");
  }
  void Fault(devrt_stream stream) {
    Machine& m = t_.machine();
    t_.Require(m.CallExtension(&devrt_probe_v0::fault, m.probe(),
                               m.probe_self(), stream, DEVRT_FAULT_TRAP),
               "fault");
  }
  void Open() {
    Machine& m = t_.machine();
    t_.Require(m.CallExtension(&devrt_probe_v0::flag_set, m.probe(),
                               m.probe_self(), flag_, 1u),
               "flag set");
  }

 private:
  Test& t_;
  const uint32_t device_;
  devrt_flag flag_ = nullptr;
};

struct Calls {
  std::atomic<int> count{0};
  std::atomic<int> code{DEVRT_OK};
};

// A host function of the C table.  Its argument is never freed, because a late
// call may use it; the process ends anyway.
std::shared_ptr<Calls> HostFunc(Test& t, devrt_stream stream) {
  struct Closure {
    Machine* machine;
    std::shared_ptr<Calls> calls;
  };
  auto calls = std::make_shared<Calls>();
  static auto* const closures = new std::deque<Closure>();
  Closure* const closure =
      &closures->emplace_back(Closure{&t.machine(), calls});
  void (*const call)(void*, devrt_status) = [](void* arg, devrt_status error) {
    const auto* const c = static_cast<const Closure*>(arg);
    c->calls->code = c->machine->ToResult(error).code;
    ++c->calls->count;
  };
  t.Require(t.machine().Call<&Ops::host_func>(stream, call,
                                              static_cast<void*>(closure)),
            "host function");
  return calls;
}

void CalledOnceWithTheError(Test& t) {
  Machine& m = t.machine();
  if (m.props(t.device()).fault_delivery == DEVRT_FAULT_DELIVERY_ABORT) {
    t.MayDie();
  }
  LostDevice lost(t);
  devrt_stream a = lost.NewStream(), b = lost.NewStream();
  std::vector<std::shared_ptr<Calls>> all;
  const auto before = HostFunc(t, a);
  lost.Hold(a);
  lost.Fault(a);
  all.push_back(HostFunc(t, a));
  all.push_back(HostFunc(t, a));
  lost.Hold(b);
  // The function of another stream is behind work that may end normally.
  const auto elsewhere = HostFunc(t, b);
  lost.Open();
  const auto called = [&] {
    uint32_t done = 0;
    (void)m.Call<&Ops::stream_query>(a, &done);
    return std::all_of(all.begin(), all.end(),
                       [](const auto& calls) { return calls->count > 0; }) &&
           elsewhere->count > 0;
  };
  t.Expect(t.Eventually(called), "functions of a lost device are called");
  const Result error = m.Call<&Ops::device_sync>(t.device());
  t.Expect(!error.ok(), "a synchronisation of a lost device fails");
  t.Settle();
  t.Equal(before->count.load(), 1, "calls of a function before the fault");
  t.Equal(before->code.load(), DEVRT_OK, "the status that it was given");
  for (const auto& calls : all) {
    t.Equal(calls->count.load(), 1, "calls of a function behind the fault");
    t.Equal(calls->code.load(), error.code, "the code that it was given");
  }
  t.Equal(elsewhere->count.load(), 1, "calls of another stream's function");
}

// Streams of the device with work that cannot end before the fault.
void CalledOnceOnEveryStream(Test& t) {
  Machine& m = t.machine();
  if (m.props(t.device()).fault_delivery == DEVRT_FAULT_DELIVERY_ABORT) {
    t.MayDie();
  }
  LostDevice lost(t);
  devrt_stream a = lost.NewStream();
  devrt_event e = nullptr;
  t.Require(m.Call<&Ops::event_create>(t.device(), 0u, &e), "event creation");
  lost.Hold(a);
  lost.Fault(a);
  t.Require(m.Call<&Ops::event_record>(e, a), "record");
  std::vector<std::shared_ptr<Calls>> all;
  for (int i = 0; i < 5; ++i) {
    devrt_stream s = lost.NewStream();
    t.Require(m.Call<&Ops::stream_wait_event>(s, e), "wait");
    all.push_back(HostFunc(t, s));
  }
  lost.Open();
  t.Expect(t.Eventually([&] {
    uint32_t done = 0;
    (void)m.Call<&Ops::stream_query>(a, &done);
    return std::all_of(all.begin(), all.end(),
                       [](const auto& calls) { return calls->count > 0; });
  }),
           "functions on all streams of a lost device are called");
  const Result error = m.Call<&Ops::device_sync>(t.device());
  t.Expect(!error.ok(), "a synchronisation of a lost device fails");
  t.Settle();
  for (const auto& calls : all) {
    t.Equal(calls->count.load(), 1, "calls of a function");
    t.Equal(calls->code.load(), error.code, "the code that it was given");
  }
}

// Work that waits for a lost device does not run.  One call that waits for this
// work reports the error, although its own device is healthy.
void CalledOnceOnAWaitingDevice(Test& t) {
  const RawStream& bad = NeverDestroyed<RawStream>(t, t.device(0));
  const RawStream& waits = NeverDestroyed<RawStream>(t, t.device(1));
  const RawEvent& e = NeverDestroyed<RawEvent>(t, t.device(0));
  Gate& gate = NeverDestroyed<Gate>(t);
  gate.Hold(bad);
  CommitFault(t, bad);
  e.Record(bad);
  waits.Wait(e);
  const auto calls = HostFunc(t, waits.handle());
  gate.Open();
  const Result first = SyncOf(t, bad);
  t.Expect(!first.ok(), "the stream that faulted");
  t.Expect(t.Eventually([&] {
    (void)SyncOf(t, waits);
    return calls->count > 0;
  }),
           "a function that waits for a lost device is called");
  t.Settle();
  t.Equal(calls->count.load(), 1, "its calls");
  t.Equal(calls->code.load(), first.code, "the code that it was given");
  if (FaultsStayWithTheirDevice(t)) {
    ExpectWorks(t, t.device(1), "the device that waited is healthy");
  }
}

// Through the C++ API: every closure is called, with the error of the device.
void ClosuresAreNeverLost(Test& t) {
  if (t.machine().props(t.device()).fault_delivery ==
      DEVRT_FAULT_DELIVERY_ABORT) {
    t.MayDie();
  }
  const Device device = t.cpp_device();
  const Stream s = t.Require(Stream::Create(device), "a stream");
  const Flag flag = t.Require(Flag::Create(device), "a flag");
  const auto calls = std::make_shared<Calls>();
  const auto alive = std::make_shared<int>(0);
  t.Ok(flag.WaitOn(s, kFlagTimeout), "wait for a flag");
  t.Ok(CommitFault(s, FaultForm::kTrap), "fault");
  t.Ok(LaunchHostFunc(s,
                      [calls, alive](absl::Status status) {
                        calls->code = static_cast<int>(status.code());
                        ++calls->count;
                      }),
       "LaunchHostFunc");
  t.Ok(flag.Set(), "flag set");
  const absl::Status error = s.Synchronize();
  t.Expect(!error.ok(), "synchronising the stream returns the fault");
  t.Expect(t.Eventually([&] {
    (void)s.Synchronize();
    return calls->count > 0 && alive.use_count() == 1;
  }),
           "the closure is called and given up");
  t.Equal(calls->count.load(), 1, "calls of the closure");
  t.Equal(calls->code.load(), static_cast<int>(error.code()),
          "the code that it was given");
}

constexpr uint64_t kCap = DEVRT_CAP_HOST_FUNC;
constexpr uint32_t kFaults = kNeedsProbe | kOwnProcess;
constexpr TestCase kTests[] = {
    {"hostfunc.unordered_functions", "C44",
     "Host functions of unordered streams run in any order.",
     &UnorderedFunctions, kCap},
    {"hostfunc.wait_for_later_work_is_reported", "C43",
     "A host function that waits for work that is not ordered before it is the "
     "caller's error; the simulator reports the wait.",
     &WaitForLaterWorkIsReported, kCap, kNeedsSim},
    {"hostfunc.wait_for_each_other_is_reported", "C44 C43",
     "Of unordered host functions none may wait for another: two that do "
     "deadlock in the serialised schedule.",
     &WaitForEachOtherIsReported, kCap, kNeedsSim},
    {"hostfunc.called_once_with_the_error", "C45",
     "Host functions pending when their device is lost are called exactly "
     "once with its error.",
     &CalledOnceWithTheError, kCap, kFaults},
    {"hostfunc.called_once_on_every_stream", "C45",
     "Host functions of other streams that wait for the lost work are called "
     "exactly once, with the error.",
     &CalledOnceOnEveryStream, kCap, kFaults},
    {"hostfunc.called_once_on_a_waiting_device", "C45 C95",
     "Host functions of another device's stream that waits for the lost work "
     "are called exactly once, with the error; their device stays healthy.",
     &CalledOnceOnAWaitingDevice, kCap, kFaults | kTwoDevices},
    {"hostfunc.closures_are_never_lost", "C45",
     "A closure pending when its device is lost is called exactly once with "
     "the device's error, and given up.",
     &ClosuresAreNeverLost, kCap, kFaults},
};

}  // namespace
}  // namespace hostfunc_fault_tests

absl::Span<const TestCase> HostFuncFaultTests() {
  return hostfunc_fault_tests::kTests;
}

}  // namespace devrt::cts
