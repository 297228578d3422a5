// SPDX-License-Identifier: Apache-2.0
//
// What check_test.py has checked.  The first argument says how the program ends
// or what it does; "mended" as the second adds the missing waits.

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "devrt/devrt.h"

namespace {

template <typename T>
T Must(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
  std::exit(99);
}
void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(99);
}

constexpr uint64_t kBytes = 4096;
bool g_mended = false;

struct Machine {
  devrt::Device device = Must(devrt::GetDevice("mtia:0"));
  devrt::Stream writer = Must(devrt::Stream::Create(device));
  devrt::Stream reader = Must(devrt::Stream::Create(device));
  void* memory = Must(devrt::Allocate(device, kBytes));
  void* result = Must(devrt::Allocate(device, kBytes));
  ~Machine() {
    Must(device.Synchronize());
    Must(devrt::Free(device, memory));
    Must(devrt::Free(device, result));
  }
};

// The wait of the reader is for an event that was recorded too early.
void Race(int times) {
  Machine m;
  for (int i = 0; i < times; ++i) {
    devrt::Event filled = Must(devrt::Event::Create(m.device));
    if (!g_mended) Must(filled.Record(m.writer));
    Must(devrt::FillAsync(m.writer, m.memory, 1, kBytes));  // the fill
    if (g_mended) Must(filled.Record(m.writer));
    Must(m.reader.Wait(filled));
    Must(devrt::CopyAsync(m.reader, m.result, m.memory, kBytes));  // the copy
    Must(m.device.Synchronize());
  }
}

// The reader waits for a third stream, which does something else.
void OtherStream() {
  Machine m;
  devrt::Stream third = Must(devrt::Stream::Create(m.device));
  devrt::Event done = Must(devrt::Event::Create(m.device));
  Must(devrt::FillAsync(m.writer, m.memory, 1, kBytes));
  Must(done.Record(g_mended ? m.writer : third));
  Must(m.reader.Wait(done));
  Must(devrt::FillAsync(m.reader, m.memory, 2, kBytes));
  Must(m.device.Synchronize());
}

// A kernel without peer access: no wait mends it.
void OtherDevice() {
  Machine m;
  const devrt::Device other = Must(devrt::GetDevice("mtia:1"));
  const devrt::Stream stream =
      Must(devrt::Stream::Create(g_mended ? m.device : other));
  Must(devrt::Launch(stream, {devrt::Read(m.memory, kBytes)},
                     [](const devrt::LaunchContext&) {}));
  Must(stream.Synchronize());
}

// What these kernels use is not known.
void Undeclared() {
  const Machine m;
  for (int i = 0; i < 2; ++i) {
    Must(devrt::Launch(m.writer, {},  // the launch
                       [](const devrt::LaunchContext&) {}));
  }
}

void Both() {
  Race(1);
  OtherStream();
}

void Once() { Race(1); }
void ThreeTimes() { Race(3); }

// The processes write one file of findings at one time.
void Children() {
  constexpr int kChildren = 4;
  for (int i = 0; i < kChildren; ++i) {
    if (fork() != 0) continue;
    Race(1);
    std::exit(0);
  }
  for (int i = 0; i < kChildren; ++i) wait(nullptr);
}

void Fail() {
  Race(1);
  std::exit(7);
}
void Crash() {
  Race(1);
  raise(SIGKILL);
}
void Nothing() {}

// The file of findings gets full in the middle of a line.
void Full() {
  const Machine m;
  constexpr rlimit kSmall = {1024, 1024};
  if (signal(SIGXFSZ, SIG_IGN) == SIG_ERR) std::exit(99);
  if (setrlimit(RLIMIT_FSIZE, &kSmall) != 0) std::exit(99);
  Race(1);
}

void Leak() {
  const devrt::Device device = Must(devrt::GetDevice("mtia:0"));
  void* const block = Must(devrt::Allocate(device, kBytes));  // the leak
  if (g_mended) Must(devrt::Free(device, block));
}

void Deadlock() {
  Machine m;
  const devrt::Flag flag = Must(devrt::Flag::Create(m.device));
  if (g_mended) Must(flag.Set());
  Must(flag.WaitOn(m.writer));        // the held kernel
  (void)m.writer.Synchronize().ok();  // the wait
  Must(flag.Set());
}

const std::map<std::string, std::function<void()>> kActions = {
    {"both", Both},
    {"children", Children},
    {"crash", Crash},
    {"deadlock", Deadlock},
    {"fail", Fail},
    {"full", Full},
    {"leak", Leak},
    {"nothing", Nothing},
    {"once", Once},
    {"other_device", OtherDevice},
    {"three_times", ThreeTimes},
    {"undeclared", Undeclared},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || kActions.count(argv[1]) == 0) return 2;
  g_mended = argc > 2 && std::string(argv[2]) == "mended";
  kActions.at(argv[1])();
  return 0;
}
