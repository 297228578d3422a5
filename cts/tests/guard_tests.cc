// SPDX-License-Identifier: Apache-2.0
//
// Guards (C96, C97), the device and streams that they make current (C1, C2,
// C107), and the shutdown of a backend with live objects (C98).
#include <algorithm>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/every_call.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace guard_tests {
namespace {

using Ops = devrt_ops_v0;

uint32_t Current(Test& t) {
  uint32_t device = UINT32_MAX;
  t.Require(t.machine().Call<&Ops::context_current>(&device),
            "context_current");
  return device;
}

void Enter(Test& t, uint32_t device, devrt_context* previous) {
  t.Require(t.machine().Call<&Ops::context_enter>(device, previous),
            "context_enter");
}
void Exit(Test& t, const devrt_context& previous) {
  t.Require(t.machine().Call<&Ops::context_exit>(&previous), "context_exit");
}

Stream NewStream(Test& t, size_t i = 0) {
  return t.Require(Stream::Create(t.cpp_device(i)), "stream");
}

struct Thrown {};

// ---- The slots below guards: P17

// Every sequence of three devices, left in the reverse order.
void ContextsAreRestored(Test& t) {
  for (const uint32_t a : t.devices()) {
    for (const uint32_t b : t.devices()) {
      for (const uint32_t c : t.devices()) {
        const uint32_t found = Current(t);
        devrt_context saved[3] = {};
        Enter(t, a, &saved[0]);
        t.Equal(Current(t), a, "the first device entered");
        Enter(t, b, &saved[1]);
        t.Equal(Current(t), b, "the second device entered");
        Enter(t, c, &saved[2]);
        t.Equal(Current(t), c, "the third device entered");
        Exit(t, saved[2]);
        t.Equal(Current(t), b, "the device after leaving the third");
        Exit(t, saved[1]);
        t.Equal(Current(t), a, "the device after leaving the second");
        Exit(t, saved[0]);
        t.Equal(Current(t), found, "the device that was found");
      }
    }
  }
}

// A context that a thread has saved concerns that thread only.
void ContextsAreOfTheThread(Test& t) {
  for (const uint32_t device : t.devices()) {
    devrt_context here = {};
    Enter(t, device, &here);
    Threads threads;
    threads.Start([&] {
      for (const uint32_t other : t.devices()) {
        devrt_context there = {};
        Enter(t, other, &there);
        Exit(t, there);
        t.Equal(Current(t), 0u, "a new thread's device after an exit");
      }
    });
    threads.Join();
    t.Equal(Current(t), device, "this thread's device");
    Exit(t, here);
  }
}

// Without memory for the saved context, only the current device changes.
void EnterWithoutSaving(Test& t) {
  const uint32_t found = Current(t);
  devrt_context outer = {};
  Enter(t, t.device(), &outer);
  for (const uint32_t device : t.devices()) {
    Enter(t, device, nullptr);
    t.Equal(Current(t), device, "the device entered");
  }
  Exit(t, outer);
  t.Equal(Current(t), found, "the device that was found");
}

// ---- C96: DeviceGuard

void DeviceGuardRestores(Test& t) {
  for (size_t i = 0; i < t.devices().size(); ++i) {
    devrt_context outer = {};
    Enter(t, t.device(i), &outer);
    for (size_t k = 0; k < t.devices().size(); ++k) {
      {
        const DeviceGuard guard(t.cpp_device(k));
        t.Ok(guard.status(), "DeviceGuard");
        t.Equal(Current(t), t.device(k), "the device in the scope");
        const DeviceGuard inner(t.cpp_device(i));
        t.Equal(Current(t), t.device(i), "the device in an inner scope");
        const DeviceGuard again(t.cpp_device(i));
      }
      t.Equal(Current(t), t.device(i), "the device behind the scope");
      try {
        const DeviceGuard guard(t.cpp_device(k));
        throw Thrown{};
      } catch (const Thrown&) {
      }
      t.Equal(Current(t), t.device(i), "the device behind an exception");
    }
    Exit(t, outer);
  }
}

void GuardWaitsForNothing(Test& t) {
  for (size_t i = 0; i < t.devices().size(); ++i) {
    const Stream stream = NewStream(t, i);
    const RawStream busy(t, t.device(i));
    const RawStream legacy = Legacy(t, t.device(i));
    Gate gate(t);
    gate.Hold(busy);
    gate.Hold(legacy);
    for (int k = 0; k < 3; ++k) {
      const DeviceGuard on_device(t.cpp_device(i));
      t.Equal(Current(t), t.device(i), "the native device, at once");
      const StreamGuard on_stream(stream);
      const MultiStreamGuard on_streams({stream});
    }
    t.Expect(!busy.Query() && !legacy.Query(), "guards wait for no work");
  }
}

// ---- C96: StreamGuard

void StreamGuardRestores(Test& t) {
  const size_t last = t.devices().size() - 1;
  const Stream here = NewStream(t), there = NewStream(t, last);
  const Stream other = NewStream(t, last);
  const uint32_t found = Current(t);
  const StreamRef found_here = CurrentStream(t.cpp_device());
  const StreamRef found_there = CurrentStream(t.cpp_device(last));
  const auto check_restored = [&] {
    t.Equal(Current(t), found, "the device behind the scope");
    t.Expect(CurrentStream(t.cpp_device()) == found_here &&
                 CurrentStream(t.cpp_device(last)) == found_there,
             "the streams behind the scope");
  };
  {
    const StreamGuard guard(there);
    t.Ok(guard.status(), "StreamGuard");
    t.Equal(Current(t), t.device(last), "the device in the scope");
    t.Expect(CurrentStream(t.cpp_device(last)) == there.ref(),
             "the stream in the scope");
    {
      const StreamGuard inner(other);
      t.Expect(CurrentStream(t.cpp_device(last)) == other.ref(),
               "the stream in an inner scope");
      const StreamGuard innermost(here);
      t.Equal(Current(t), t.device(), "the device in the innermost scope");
    }
    t.Expect(CurrentStream(t.cpp_device(last)) == there.ref(),
             "the stream behind the inner scopes");
    t.Equal(Current(t), t.device(last), "the device behind the inner scopes");
  }
  check_restored();
  try {
    const StreamGuard guard(there);
    const StreamGuard inner(here);
    throw Thrown{};
  } catch (const Thrown&) {
  }
  check_restored();
}

// Switching devices does not change the current streams of both devices.
void DevicesKeepTheirStreams(Test& t) {
  const Stream a = NewStream(t, 0), b = NewStream(t, 1);
  const StreamGuard on_a(a);
  t.Expect(CurrentStream(t.cpp_device(1)) == DefaultStream(t.cpp_device(1)),
           "a guard for one device leaves the other's stream alone");
  {
    const DeviceGuard guard(t.cpp_device(1));
    t.Expect(CurrentStream(t.cpp_device(0)) == a.ref(),
             "a DeviceGuard leaves the first device's stream alone");
    const StreamGuard on_b(b);
    t.Expect(CurrentStream(t.cpp_device(0)) == a.ref(),
             "a StreamGuard leaves the first device's stream alone");
  }
  t.Expect(CurrentStream(t.cpp_device(0)) == a.ref(),
           "the first device's stream is as before");
}

// ---- C96: MultiStreamGuard

void MultiStreamGuardRestores(Test& t) {
  const Device device = t.cpp_device();
  const Stream a = NewStream(t), b = NewStream(t), c = NewStream(t);
  const StreamGuard outer(c);
  {
    // Two streams of one device (F1).
    const MultiStreamGuard guard({a, b});
    t.Ok(guard.status(), "MultiStreamGuard");
    t.Expect(CurrentStream(device) == b.ref(), "the last one is current");
    t.Equal(Current(t), t.device(), "the current device");
  }
  t.Expect(CurrentStream(device) == c.ref(), "what was current before is so");
  try {
    const MultiStreamGuard guard({b, a, b});
    throw Thrown{};
  } catch (const Thrown&) {
  }
  t.Expect(CurrentStream(device) == c.ref(), "also behind an exception");
  const MultiStreamGuard none(std::vector<StreamRef>{});
  t.Expect(CurrentStream(device) == c.ref(), "no streams change nothing");
}

void MultiStreamGuardOfSeveralDevices(Test& t) {
  const uint32_t found = Current(t);
  const Stream a = NewStream(t, 0), b = NewStream(t, 1), c = NewStream(t, 1);
  {
    const MultiStreamGuard guard({a, b, c});
    t.Expect(CurrentStream(t.cpp_device(0)) == a.ref() &&
                 CurrentStream(t.cpp_device(1)) == c.ref(),
             "each device has its stream");
    t.Equal(Current(t), found, "the current device");
  }
  for (const size_t i : {size_t{0}, size_t{1}}) {
    t.Expect(CurrentStream(t.cpp_device(i)) == DefaultStream(t.cpp_device(i)),
             "each device has what it had");
  }
  t.Equal(Current(t), found, "the current device");
}

// A guard that fails changes nothing and destroys nothing.
void FailedGuardsChangeNothing(Test& t) {
  const Device device = t.cpp_device();
  const Stream a = NewStream(t);
  std::optional<Stream> owner = NewStream(t);
  const StreamRef gone = *owner;
  owner.reset();
  const StreamGuard outer(a);
  {
    const StreamGuard guard(gone);
    t.Code(guard.status(), DEVRT_INVALID_ARGUMENT, "a guard of a destroyed one",
           "destroyed");
    t.Expect(CurrentStream(device) == a.ref(), "the stream stays");
    const Stream b = NewStream(t);
    const MultiStreamGuard several({b, gone});
    t.Code(several.status(), DEVRT_INVALID_ARGUMENT,
           "a guard of which one is destroyed", "destroyed");
    t.Expect(CurrentStream(device) == a.ref(), "not even the first is set");
  }
  t.Expect(CurrentStream(device) == a.ref(), "the stream stays behind them");
  t.Equal(Current(t), t.device(), "the device stays");
}

// ---- C97

// Random nested guards of a thread, compared with a model.
class Nest {
 public:
  Nest(Test& t, uint64_t seed) : t_(t), random_(seed) {
    for (size_t i = 0; i < t.devices().size(); ++i) {
      streams_.push_back(NewStream(t, i));
      current_.push_back(DefaultStream(t.cpp_device(i)));
    }
    device_ = Current(t);
  }

  void Run(int depth) {
    Check();
    if (depth == 0) return;
    for (int round = 0; round < 2; ++round) {
      const size_t i = random_() % streams_.size();
      const uint32_t device = device_;
      const StreamRef stream = current_[i];
      switch (random_() % 3) {
        case 0: {
          const DeviceGuard guard(t_.cpp_device(i));
          device_ = t_.device(i);
          Run(depth - 1);
          break;
        }
        case 1: {
          const StreamGuard guard(streams_[i]);
          device_ = t_.device(i);
          current_[i] = streams_[i];
          Run(depth - 1);
          break;
        }
        default: {
          const MultiStreamGuard guard({streams_[i]});
          current_[i] = streams_[i];
          Run(depth - 1);
        }
      }
      device_ = device;
      current_[i] = stream;
      Check();
    }
  }

 private:
  void Check() {
    t_.Require(Current(t_) == device_, "this thread's device is its own");
    for (size_t i = 0; i < current_.size(); ++i) {
      t_.Require(CurrentStream(t_.cpp_device(i)) == current_[i],
                 "this thread's streams are its own");
    }
  }

  Test& t_;
  std::mt19937_64 random_;
  std::vector<Stream> streams_;
  std::vector<StreamRef> current_;
  uint32_t device_ = 0;
};

void ThreadsDoNotTalk(Test& t) {
  constexpr int kThreads = 4, kDepth = 5;
  Threads threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.Start(
        [&, i] { Nest(t, t.seed() + static_cast<uint64_t>(i)).Run(kDepth); });
  }
  threads.Join();
}

// ---- C98

bool IsMapped(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(path) != std::string::npos) return true;
  }
  return false;
}

void Refused(Test& t, const char* count) {
  t.Code(Shutdown(), DEVRT_FAILED_PRECONDITION, "Shutdown with something alive",
         count);
  const DeviceBlock x(t, t.device(), 64);
  const RawStream s(t, t.device());
  s.Fill(x.ptr(), 1, 64);
  s.Sync();
  t.Expect(x.Holds(1), "after a refusal the backend works on");
}

void ShutdownIsRefused(Test& t) {
  const Device device = t.cpp_device();
  const std::string path = device.backend().path();
  {
    const Stream one = NewStream(t);
    Refused(t, "1 stream");
    const Stream two = NewStream(t);
    Refused(t, "2 streams");
  }
  {
    const Stream s = NewStream(t);
    const Event event = t.Require(Event::Create(device), "event");
    t.Ok(event.Record(s), "record");
    t.Ok(s.Synchronize(), "synchronise");
    Refused(t, "1 event");
  }
  void* const block = t.Require(Allocate(device, 4096), "allocation");
  Refused(t, "1 allocation");
  t.Ok(Free(device, block), "free");
  if (t.machine().Has(DEVRT_CAP_PINNED_HOST)) {
    void* const pinned = t.Require(AllocateHost(device, 4096), "allocation");
    Refused(t, "1 allocation");
    t.Ok(FreeHost(pinned), "free of pinned memory");
  }
  if (t.machine().Has(DEVRT_CAP_HOST_REGISTER)) {
    std::vector<uint8_t> host(4096);
    t.Ok(RegisterHost(device, host.data(), host.size()), "registration");
    Refused(t, "1 allocation");
    t.Ok(UnregisterHost(device, host.data()), "end of a registration");
  }
  t.Require(IsMapped(path), "the library is mapped");
  t.Ok(Shutdown(), "Shutdown with nothing alive");
  // Nothing calls the table after this.
  t.Expect(IsMapped(path), "the library stays mapped");
  t.Code(Stream::Create(device).status(), DEVRT_FAILED_PRECONDITION,
         "a stream after Shutdown");
  t.Code(device.Synchronize(), DEVRT_FAILED_PRECONDITION,
         "a synchronisation after Shutdown");
  t.Code(GetBackend(device.backend().name()).status(),
         DEVRT_FAILED_PRECONDITION, "the backend after Shutdown");
}

constexpr TestCase kTests[] = {
    {"guard.contexts_are_restored", "C96 C107",
     "context_exit restores exactly the context that context_enter found.",
     &ContextsAreRestored},
    {"guard.contexts_are_of_the_thread", "C97 C1",
     "context_enter changes the context of its own thread only.",
     &ContextsAreOfTheThread},
    {"guard.enter_without_saving", "C2",
     "context_enter without a place to save makes the device current.",
     &EnterWithoutSaving},
    {"guard.device_guard_restores", "C96 C1",
     "A device guard makes its device current and restores the former one, "
     "also after exceptions.",
     &DeviceGuardRestores},
    {"guard.waits_for_nothing", "C2",
     "Entering a guard takes effect natively at once and waits for no work.",
     &GuardWaitsForNothing, 0, kNeedsGate},
    {"guard.stream_guard_restores", "C96",
     "A stream guard restores the device and the stream that it changed.",
     &StreamGuardRestores},
    {"guard.devices_keep_their_streams", "C96",
     "Switching from one device to another leaves the streams of both alone.",
     &DevicesKeepTheirStreams, 0, kTwoDevices},
    {"guard.multi_stream_guard_restores", "C96",
     "A guard of several streams restores in the reverse order.",
     &MultiStreamGuardRestores},
    {"guard.multi_stream_guard_of_several_devices", "C96",
     "A guard of several streams sets each device's and changes no device.",
     &MultiStreamGuardOfSeveralDevices, 0, kTwoDevices},
    {"guard.failed_guards_change_nothing", "C96",
     "A guard that cannot be made changes nothing.",
     &FailedGuardsChangeNothing},
    {"guard.threads_do_not_talk", "C97",
     "The current device and the current streams are per thread.",
     &ThreadsDoNotTalk},
    {"guard.shutdown_is_refused", "C98",
     "Shutdown with live objects is FAILED_PRECONDITION with their counts; a "
     "library is never unmapped.",
     &ShutdownIsRefused, 0, kOwnProcess},
};

}  // namespace
}  // namespace guard_tests

absl::Span<const TestCase> GuardTests() { return guard_tests::kTests; }

}  // namespace devrt::cts
