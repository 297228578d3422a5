// SPDX-License-Identifier: Apache-2.0
//
// Leaves in the way that its argument names, with everything alive: streams,
// events, memory and work in flight, in globals, thread-locals, another thread
// and on the stack.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "devrt/devrt.h"

namespace {

constexpr int kCode = 3;
constexpr uint64_t kOneHour = uint64_t{3600} * 1000 * 1000 * 1000;

template <typename T>
T Must(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
  std::_Exit(99);
}
void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::_Exit(99);
}

// A destructor that looks at devrt, and asks for the thread's stream.  It asks
// for no work: what the device still does is nobody's any more.
struct Looks {
  std::optional<devrt::Device> device;

  ~Looks() {
    if (!device.has_value()) return;
    auto own = devrt::PerThreadDefaultStream(*device);
    if (own.ok()) {
      own->Query().IgnoreError();
      devrt::SetCurrentStream(*own).IgnoreError();
    }
    devrt::StreamGuard guard(devrt::CurrentStream(*device));
    devrt::DefaultStream(*device).Query().IgnoreError();
    device->Properties().IgnoreError();
  }
};

// Destroyed after main, when devrt's own state must still be there.
struct Held {
  Looks looks;
  std::optional<devrt::Stream> stream;
  std::optional<devrt::Event> event;
  std::optional<devrt::Flag> flag;
  std::optional<devrt::StreamPool> pool;

  void Make(devrt::Device device) {
    looks.device = device;
    Must(devrt::PerThreadDefaultStream(device));
    stream = Must(devrt::Stream::Create(device));
    event = Must(devrt::Event::Create(device));
    flag = Must(devrt::Flag::Create(device));
    pool = Must(devrt::StreamPool::Create(device, 2));
    Must(devrt::Spin(*stream, 1000));
    Must(event->Record(*stream));
  }
};

Held global;  // made before devrt is first used
thread_local Held of_a_thread;
thread_local Looks first_of_a_thread;  // made before devrt sees the thread

// A user's exit handler that looks at devrt: allowed, and answered.
void AtExit() {
  for (devrt::Device device : devrt::AllDevices()) {
    device.Properties().IgnoreError();
    device.Health().IgnoreError();
  }
  devrt::LoadReportText();
}

// A thread that waits for what never happens, and one that runs work for ever.
void StartThreads(devrt::Device device) {
  std::thread([device] {
    first_of_a_thread.device = device;
    of_a_thread.Make(device);
    for (;;) devrt::Spin(*of_a_thread.stream, 1000).IgnoreError();
  }).detach();
  std::thread([device] {
    devrt::Stream stream = Must(devrt::Stream::Create(device));
    devrt::Flag flag = Must(devrt::Flag::Create(device));
    flag.WaitOn(stream, kOneHour).IgnoreError();
    stream.Synchronize().IgnoreError();
  }).detach();
}

int Leave(const std::string& way) {
  if (way == "return") return kCode;
  if (way == "exit") std::exit(kCode);
  if (way == "quick_exit") std::quick_exit(kCode);
  if (way == "underscore_exit") _Exit(kCode);
  if (way == "exception") throw std::runtime_error("nobody catches this");
  if (way == "abort") std::abort();
  if (way == "thread") {
    std::thread([] { std::exit(kCode); }).join();
  }
  return 98;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "";
  const bool threads = argc > 2 && std::strcmp(argv[2], "threads") == 0;
  std::atexit(&AtExit);
  std::at_quick_exit(&AtExit);
  first_of_a_thread.device.reset();  // made now
  const devrt::Device device = Must(devrt::GetDevice("mtia:0"));
  first_of_a_thread.device = device;
  // One that has ended.
  std::thread([device] {
    first_of_a_thread.device = device;
    Must(devrt::PerThreadDefaultStream(device));
  }).join();
  devrt::DeviceGuard on_device(device);
  global.Make(device);
  of_a_thread.Make(Must(devrt::GetDevice("mtia:1")));
  Held local;
  local.Make(device);
  Must(devrt::Allocate(device, 4096));
  Must(devrt::AllocateHost(device, 4096));
  Must(devrt::LaunchHostFunc(*local.stream, [](const absl::Status&) {}));
  devrt::StreamGuard on_stream(*local.stream);
  if (threads) StartThreads(device);
  std::printf("leaving\n");
  std::fflush(stdout);
  return Leave(way);
}
