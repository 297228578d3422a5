// SPDX-License-Identifier: Apache-2.0
//
// The calling thread's current device, and the device that objects belong to.
#include <climits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/every_call.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace device_tests {
namespace {

using Ops = devrt_ops_v0;

constexpr uint64_t kSize = 4096;

uint32_t Current(Test& t) {
  uint32_t device = UINT32_MAX;
  t.Require(t.machine().Call<&Ops::context_current>(&device),
            "context_current");
  return device;
}

// Calls context_enter of the table, and context_exit in the destructor.
class Entered {
 public:
  Entered(Test& t, uint32_t device) : t_(t) {
    t.Require(t.machine().Call<&Ops::context_enter>(device, &previous_),
              "context_enter");
  }
  Entered(const Entered&) = delete;
  ~Entered() {
    t_.Ok(t_.machine().Call<&Ops::context_exit>(
              static_cast<const devrt_context*>(&previous_)),
          "context_exit");
  }

 private:
  Test& t_;
  devrt_context previous_ = {};
};

// ---- C1

void BeginsWithDevice0(Test& t) {
  const Backend backend = t.cpp_device().backend();
  const auto look = [&] {
    t.Equal(Current(t), 0u, "a thread's first current device");
    const auto device = CurrentDevice(backend);
    if (t.Ok(device.status(), "CurrentDevice")) {
      t.Equal(device->index(), 0, "the current device in the C++ API");
    }
  };
  for (const uint32_t device : t.devices()) {
    const Entered here(t, device);
    Threads threads;
    threads.Start(look);
    threads.Join();
  }
}

void IsOfTheThread(Test& t) {
  const Entered here(t, t.device(1));
  Threads threads;
  threads.Start([&] {
    const Entered there(t, t.device(0));
    t.Equal(Current(t), t.device(0), "the other thread's device");
    t.Ok(SetCurrentDevice(t.cpp_device(0)), "SetCurrentDevice");
  });
  threads.Join();
  t.Equal(Current(t), t.device(1), "the device that this thread had set");
}

// The C++ API and the table have one current device.
void IsOneTruth(Test& t) {
  for (size_t i = 0; i < t.devices().size(); ++i) {
    const Entered found(t, t.device());
    t.Ok(SetCurrentDevice(t.cpp_device(i)), "SetCurrentDevice");
    t.Equal(Current(t), t.device(i), "the plugin's current device");
    const auto device = GetDevice(t.cpp_device().backend().name());
    if (t.Ok(device.status(), "the device without an index")) {
      t.Expect(*device == t.cpp_device(i), "a name without an index means it");
    }
  }
}

// ---- C2

void SettingWaitsForNothing(Test& t) {
  for (size_t i = 0; i < t.devices().size(); ++i) {
    const RawStream s(t, t.device(i));
    Gate gate(t);
    gate.Hold(s);
    {
      const Entered here(t, t.device(i));
      t.Equal(Current(t), t.device(i), "the current device at once");
      const Entered again(t, t.device());
      t.Ok(SetCurrentDevice(t.cpp_device(i)), "SetCurrentDevice");
    }
    t.Expect(!s.Query(), "the call did not wait for the work of the device");
  }
}

// ---- C3

void BadOrdinalsChangeNothing(Test& t) {
  Machine& m = t.machine();
  const uint32_t count = NoSuchDevice(t);
  for (const uint32_t device : t.devices()) {
    const Entered here(t, device);
    for (const uint32_t none :
         {count, count + 1, uint32_t{INT_MAX}, UINT32_MAX}) {
      devrt_context previous = {{77, 78}};
      t.Code(m.Call<&Ops::context_enter>(none, &previous),
             DEVRT_INVALID_ARGUMENT, "entering a device that does not exist");
      t.Expect(previous.state[0] == 77 && previous.state[1] == 78,
               "nothing is saved");
      t.Equal(Current(t), device, "the current device");
    }
  }
}

void BadOrdinalsAreNamed(Test& t) {
  const Backend backend = t.cpp_device().backend();
  const int64_t count = backend.device_count();
  for (const uint32_t device : t.devices()) {
    const Entered here(t, device);
    for (const int64_t none : {int64_t{-1}, count, int64_t{INT_MAX}}) {
      t.Code(GetDevice(backend.name(), none).status(), DEVRT_INVALID_ARGUMENT,
             "a device that does not exist",
             absl::StrCat("Device index value ", none,
                          " is out of index range [0, ", count, ")"));
    }
    t.Code(GetDevice(absl::StrCat(backend.name(), ":", count)).status(),
           DEVRT_INVALID_ARGUMENT, "a name of a device that does not exist",
           "is out of index range");
    t.Code(GetDevice(absl::StrCat(backend.name(), ":-1")).status(),
           DEVRT_INVALID_ARGUMENT, "a name with a negative index",
           "Invalid device string");
    t.Equal(Current(t), device, "the current device");
  }
}

// ---- C4

void ObjectsBelongToTheirDevice(Test& t) {
  for (size_t i = 0; i < t.devices().size(); ++i) {
    for (const uint32_t current : t.devices()) {
      const Entered here(t, current);
      const Device device = t.cpp_device(i);
      const Stream stream = t.Require(Stream::Create(device), "stream");
      t.Expect(stream.device() == device, "a stream is of its device");
      const Event event = t.Require(Event::Create(device), "event");
      t.Expect(event.device() == device, "an event is of its device");
      t.Ok(event.Record(stream), "record");
      t.Ok(event.Synchronize(), "synchronise");
      t.Expect(DefaultStream(device).device() == device,
               "a default stream is of its device");
      t.Equal(Current(t), current, "the current device");
    }
  }
}

void MemoryBelongsToItsDevice(Test& t) {
  for (const uint32_t device : t.devices()) {
    for (const uint32_t current : t.devices()) {
      const Entered here(t, current);
      const DeviceBlock block(t, device, kSize);
      devrt_pointer_info_v0 info = {};
      info.struct_size = sizeof info;
      t.Require(t.machine().Call<&Ops::pointer_info>(
                    static_cast<const void*>(block.ptr()), &info),
                "pointer_info");
      t.Equal(info.kind, DEVRT_POINTER_DEVICE, "the memory's kind");
      t.Equal(info.device, static_cast<int32_t>(device), "the memory's device");
      t.Equal(Current(t), current, "the current device");
    }
  }
}

// An allocation takes memory from the device that the call names.
void MemoryIsTakenFromItsDevice(Test& t) {
  Machine& m = t.machine();
  const auto free = [&](uint32_t device) {
    uint64_t bytes = 0, total = 0;
    t.Require(m.Call<&Ops::mem_info>(device, &bytes, &total), "mem_info");
    return bytes;
  };
  const uint64_t size = free(t.device(1)) / 4;
  const Entered here(t, t.device(0));
  const uint64_t before = free(t.device(0)), before1 = free(t.device(1));
  void* ptr = nullptr;
  t.Require(m.Call<&Ops::alloc>(t.device(1), size, uint64_t{0}, &ptr),
            "allocation");
  t.Equal(free(t.device(0)), before, "free memory of the current device");
  t.Expect(free(t.device(1)) + size <= before1,
           "the memory is the named device's");
  t.Ok(m.Call<&Ops::dealloc>(t.device(1), ptr, size), "deallocation");
  t.Equal(free(t.device(1)), before1, "free memory of the named device");
}

// ---- R1, C15, C16

void CallsLeaveTheCurrentDevice(Test& t) {
  for (const uint32_t current : t.devices()) {
    const Entered here(t, current);
    for (const uint32_t device : t.devices()) {
      CallEverything(t, device, [&](const char* call) {
        t.Require(Current(t) == current,
                  absl::StrCat(call, " for device ", device, " leaves device ",
                               current, " current, not ", Current(t)));
      });
    }
  }
}

// Also in a thread that has never entered a device.
void CallsNeedNoCurrentDevice(Test& t) {
  Threads threads;
  for (const uint32_t device : t.devices()) {
    threads.Start([&t, device] {
      CallEverything(t, device, [&](const char* call) {
        t.Require(Current(t) == 0, absl::StrCat(call, " sets no device"));
      });
    });
    threads.Join();
  }
}

void WorkRunsOnTheStreamsDevice(Test& t) {
  for (const uint32_t device : t.devices()) {
    for (const uint32_t current : t.devices()) {
      if (current == device) continue;
      t.InEverySchedule([&] {
        const Entered here(t, current);
        const DeviceBlock x(t, device, kSize), y(t, device, kSize);
        const HostBlock in(t, device, kSize), out(t, device, kSize);
        std::fill_n(in.ptr(), kSize, uint8_t{4});
        const RawStream s(t, device), other(t, device);
        const RawEvent e(t, device);
        s.Fill(x.ptr(), 3, kSize);
        s.Copy(y.ptr(), x.ptr(), kSize, DEVRT_COPY_D2D);
        s.Copy(x.ptr(), in.ptr(), kSize, DEVRT_COPY_H2D);
        e.Record(s);
        other.Wait(e);
        other.Copy(out.ptr(), y.ptr(), kSize, DEVRT_COPY_D2H);
        other.Sync();
        t.Expect(s.Query() && e.Query(), "all is complete");
        t.Expect(out.Holds(3) && x.Holds(4), "fills and copies have happened");
        t.Equal(Current(t), current, "the current device");
      });
    }
  }
}

void KernelsRunOnTheStreamsDevice(Test& t) {
  Machine& m = t.machine();
  for (const uint32_t device : t.devices()) {
    for (const uint32_t current : t.devices()) {
      if (current == device) continue;
      const Entered here(t, current);
      const RawStream s(t, device);
      const RawEvent e(t, device);
      Gate gate(t);
      gate.Hold(s);
      t.Require(m.CallExtension(&devrt_probe_v0::spin, m.probe(),
                                m.probe_self(), s.handle(), uint64_t{1000}),
                "a kernel");
      e.Record(s);
      // If the work ran on the wrong device, this would wait for it.
      t.Ok(m.Call<&Ops::device_sync>(current), "sync of the current device");
      t.Expect(!e.Query(), "the kernel is the stream's device's");
      gate.Open();
      t.Ok(m.Call<&Ops::device_sync>(device), "sync of the stream's device");
      t.Expect(e.Query(), "the kernel has run on the stream's device");
      t.Equal(Current(t), current, "the current device");
    }
  }
}

constexpr TestCase kTests[] = {
    {"device.begins_with_0", "C1",
     "A thread's current device is 0 at first, although other threads have set "
     "another one.",
     &BeginsWithDevice0},
    {"device.is_of_the_thread", "C1", "Each thread has its own current device.",
     &IsOfTheThread, 0, kTwoDevices},
    {"device.is_one_truth", "C1 C2 C107",
     "The current device of devrt's API is the plugin's, and set at once.",
     &IsOneTruth},
    {"device.setting_waits_for_nothing", "C2",
     "Setting the current device waits for no work.", &SettingWaitsForNothing,
     0, kNeedsGate},
    {"device.bad_ordinals_change_nothing", "C3",
     "An ordinal that does not exist is INVALID_ARGUMENT; the current device "
     "stays.",
     &BadOrdinalsChangeNothing},
    {"device.bad_ordinals_are_named", "C3",
     "The text for a bad index is \"Device index value N is out of index range "
     "[0, M)\".",
     &BadOrdinalsAreNamed},
    {"device.objects_belong_to_their_device", "C4",
     "Streams and events belong to the device of the call, and not to the "
     "current device.",
     &ObjectsBelongToTheirDevice},
    {"device.memory_belongs_to_its_device", "C4",
     "Memory belongs to the device of the call, and not to the current device.",
     &MemoryBelongsToItsDevice, DEVRT_CAP_POINTER_INFO},
    {"device.memory_is_taken_from_its_device", "C4",
     "An allocation takes memory of the device that was named and of no other.",
     &MemoryIsTakenFromItsDevice, 0, kTwoDevices | kNeedsSim},
    {"device.calls_leave_the_current_device", "C4 C15 C16 C103",
     "No call but setting it changes the current device, failing ones "
     "included.",
     &CallsLeaveTheCurrentDevice},
    {"device.calls_need_no_current_device", "C15 C16 C103",
     "No call needs that its device is current, and none changes a fresh "
     "thread's current device.",
     &CallsNeedNoCurrentDevice},
    {"device.work_runs_on_the_streams_device", "C16",
     "Copies, fills, records and waits run on the stream's device, with any "
     "current device.",
     &WorkRunsOnTheStreamsDevice, 0, kTwoDevices},
    {"device.kernels_run_on_the_streams_device", "C15",
     "A launch runs on the stream's device, with any current device.",
     &KernelsRunOnTheStreamsDevice, 0, kTwoDevices | kNeedsProbe},
};

}  // namespace
}  // namespace device_tests

absl::Span<const TestCase> DeviceTests() { return device_tests::kTests; }

}  // namespace devrt::cts
