// SPDX-License-Identifier: Apache-2.0
//
// One way to lose a device, in a process of its own: what every call answers
// then, what other backends still do, and that the process ends as it should.
//
//   fault_program FORM ORDINAL    null_write misaligned assert trap
//
// Prints a line for each expectation that was not met; exit code 0: none, 1:
// some, 77: there is no such device.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "devrt/devrt.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kSize = 1 << 16;
constexpr int kNothingThere = 77;
// Until the driver tells; docs/reference/semantics.md 2.4 says 0.1 to 0.2 s.
constexpr auto kMostDelay = std::chrono::seconds(20);

std::atomic<int> failures{0};

void Expect(bool condition, const char* what, const absl::Status& status) {
  if (condition) return;
  ++failures;
  std::printf("FAILED: %s: %s\n", what, status.ToString().c_str());
}
void ExpectOk(const char* what, const absl::Status& status) {
  Expect(status.ok(), what, status);
}

template <typename T>
T Must(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  std::printf("FAILED: %s\n", result.status().ToString().c_str());
  std::fflush(nullptr);
  std::_Exit(1);
}

struct Form {
  const char* name;
  devrt::FaultForm form;
  int64_t code;  // CUDA's
};
constexpr Form kForms[] = {
    {"null_write", devrt::FaultForm::kNullWrite, 700},
    {"misaligned", devrt::FaultForm::kMisaligned, 716},
    {"assert", devrt::FaultForm::kAssert, 710},
    {"trap", devrt::FaultForm::kTrap, 719},
};

// The error of the fault, by whichever call.
void ExpectFault(const char* what, const absl::Status& status, int64_t code) {
  const std::optional<devrt::ErrorInfo> info = devrt::GetErrorInfo(status);
  Expect(absl::IsInternal(status) && info.has_value() && info->sticky &&
             info->native_code == code && info->backend == "cuda",
         what, status);
}

void ExpectQuarantined(const char* what, const absl::Status& status,
                       int64_t code) {
  ExpectFault(what, status, code);
  Expect(status.message().find("is quarantined") != absl::string_view::npos,
         what, status);
}

// The simulator, in the same process and thread: a whole round trip.
void UseMtia(const char* when) {
  const devrt::Device device = Must(devrt::GetDevice("mtia:0"));
  const devrt::DeviceGuard guard(device);
  ExpectOk(when, guard.status());
  const devrt::Stream stream = Must(devrt::Stream::Create(device));
  void* const memory = Must(devrt::Allocate(device, kSize));
  std::vector<char> host(kSize);
  ExpectOk(when, devrt::FillAsync(stream, memory, 7, kSize));
  ExpectOk(when, devrt::Copy(stream, host.data(), memory, kSize));
  Expect(host.back() == 7, when, absl::DataLossError("wrong data"));
  ExpectOk(when, devrt::Free(device, memory));
}

// All that a device had when it was lost.
struct Objects {
  explicit Objects(devrt::Device on)
      : device(on),
        faulty(Must(devrt::Stream::Create(on))),
        idle(Must(devrt::Stream::Create(on))),
        waiter(Must(devrt::Stream::Create(on))),
        recorded(Must(devrt::Event::Create(on))),
        fresh(Must(devrt::Event::Create(on))),
        memory(Must(devrt::Allocate(on, kSize))),
        pinned(Must(devrt::AllocateHost(on, kSize))) {}

  devrt::Device device;
  devrt::Stream faulty, idle, waiter;
  devrt::Event recorded, fresh;
  void* memory;
  void* pinned;
};

// Until a query tells of the fault.
absl::Status PollUntilKnown(devrt::StreamRef stream) {
  const Clock::time_point end = Clock::now() + kMostDelay;
  while (Clock::now() < end) {
    const absl::StatusOr<bool> done = stream.Query();
    if (!done.ok()) return done.status();
    if (*done) return absl::OkStatus();
  }
  return absl::DeadlineExceededError("the query did not tell of the fault");
}

void ExpectEverythingRefused(Objects* objects, int64_t code) {
  const auto refused = [&](const char* what, const absl::Status& status) {
    ExpectQuarantined(what, status, code);
  };
  refused("Fill", devrt::FillAsync(objects->idle, objects->memory, 1, kSize));
  refused("Copy", devrt::CopyAsync(objects->idle, objects->pinned,
                                   objects->memory, kSize));
  refused("Spin", devrt::Spin(objects->idle, 1000));
  refused("Record", objects->fresh.Record(objects->idle));
  refused("Wait", objects->idle.Wait(objects->recorded));
  refused("Query of a stream", objects->idle.Query().status());
  refused("Synchronize of a stream", objects->idle.Synchronize());
  refused("Query of an event", objects->recorded.Query().status());
  refused("Synchronize of an event", objects->recorded.Synchronize());
  refused("Synchronize of the device", objects->device.Synchronize());
  refused("Allocate", devrt::Allocate(objects->device, 8).status());
  refused("AllocateHost", devrt::AllocateHost(objects->device, 8).status());
  refused("Create of a stream",
          devrt::Stream::Create(objects->device).status());
  refused("GetMemoryInfo", objects->device.GetMemoryInfo().status());
  refused("Health", objects->device.Health());
  refused("LaunchHostFunc",
          devrt::LaunchHostFunc(objects->idle, [](absl::Status) {}));
  const devrt::DeviceGuard guard(objects->device);
  refused("DeviceGuard", guard.status());
}

void ExpectStillAnswered(const Objects& objects) {
  ExpectOk("Properties", objects.device.Properties().status());
  ExpectOk("CurrentDevice", devrt::CurrentDevice("cuda").status());
  ExpectOk("GetPointerInfo", devrt::GetPointerInfo(objects.memory).status());
}

// The fault, a host function behind it, and on every device a stream that waits
// for it and a thread that waits for the stream.
void Lose(Objects* objects, const std::vector<Objects>& all, const Form& form) {
  static std::atomic<int> calls{0}, errors{0};
  ExpectOk("Fill before",
           devrt::FillAsync(objects->faulty, objects->memory, 1, kSize));
  devrt::Flag gate = Must(devrt::Flag::Create(objects->device));
  ExpectOk("WaitOn", gate.WaitOn(objects->faulty));
  ExpectOk("CommitFault", devrt::CommitFault(objects->faulty, form.form));
  ExpectOk("LaunchHostFunc",
           devrt::LaunchHostFunc(objects->faulty, [](absl::Status status) {
             ++calls;
             errors += status.ok() ? 0 : 1;
           }));
  ExpectOk("Record", objects->recorded.Record(objects->faulty));
  std::vector<std::thread> blocked;
  for (const Objects& other : all) {
    ExpectOk("Wait", other.waiter.Wait(objects->recorded));
    blocked.emplace_back([&] {
      ExpectFault("a thread that waits", other.waiter.Synchronize(), form.code);
    });
  }
  ExpectOk("Set", gate.Set());
  ExpectFault("query", PollUntilKnown(objects->faulty), form.code);
  for (std::thread& thread : blocked) thread.join();
  ExpectFault("Synchronize", objects->faulty.Synchronize(), form.code);
  const Clock::time_point end = Clock::now() + kMostDelay;
  while (calls == 0 && Clock::now() < end) std::this_thread::yield();
  Expect(calls == 1 && errors == 1, "the host function ran once, with an error",
         absl::InternalError(std::to_string(calls) + " calls, " +
                             std::to_string(errors) + " with an error"));
}

int Run(const Form& form, int ordinal) {
  const auto devices = devrt::Devices("cuda");
  if (!devices.ok()) {
    std::printf("%s\n", devices.status().ToString().c_str());
    return absl::IsUnavailable(devices.status()) ? kNothingThere : 1;
  }
  if (ordinal >= static_cast<int>(devices->size())) {
    std::printf("there is no cuda:%d\n", ordinal);
    return kNothingThere;
  }
  UseMtia("mtia before");
  {
    std::vector<Objects> all;
    for (const devrt::Device device : *devices) all.emplace_back(device);
    Objects& lost = all[static_cast<size_t>(ordinal)];
    Lose(&lost, all, form);
    // A fault takes every device of the process with it (C95).
    for (Objects& objects : all) ExpectEverythingRefused(&objects, form.code);
    for (const Objects& objects : all) ExpectStillAnswered(objects);
    UseMtia("mtia after");
    for (const Objects& objects : all) {
      ExpectOk("Free", devrt::Free(objects.device, objects.memory));
      ExpectOk("FreeHost", devrt::FreeHost(objects.pinned));
    }
  }
  UseMtia("mtia after all was destroyed");
  ExpectOk("Shutdown", devrt::Shutdown());
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  for (const Form& form : kForms) {
    if (argc == 3 && std::strcmp(argv[1], form.name) == 0) {
      return Run(form, std::atoi(argv[2]));
    }
  }
  std::fprintf(stderr, "usage: fault_program FORM ORDINAL\n");
  return 2;
}
