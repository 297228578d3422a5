// SPDX-License-Identifier: Apache-2.0
//
// The program that trace_test.py traces. Its arguments are the operation, the
// number of repetitions and the device.

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "devrt/devrt.h"
#include "devrt/runtime/simulator.h"

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

constexpr uint64_t kBytes = 1 << 12;
const char* g_device = "mtia:0";

struct Machine {
  devrt::Device device = Must(devrt::GetDevice(g_device));
  devrt::Stream first = Must(devrt::Stream::Create(device));
  devrt::Stream second = Must(devrt::Stream::Create(device));
  void* memory = Must(devrt::Allocate(device, kBytes));
  ~Machine() { Must(devrt::Free(device, memory)); }

  void Fill(devrt::StreamRef stream, int times) {
    for (int i = 0; i < times; ++i) {
      Must(devrt::FillAsync(stream, memory, 1, kBytes));
    }
  }
};

// The first stream does nothing while the second has work for the device.
void Idle(int times) {
  Machine machine;
  for (const bool idle : {false, true}) {
    if (idle) machine.Fill(machine.second, times);
    Must(machine.second.Synchronize());
    machine.Fill(machine.first, 1);
    Must(machine.first.Synchronize());
  }
}

// As many threads, each when the one before has ended.
void Threads(int times) {
  Machine machine;
  for (int i = 0; i < times; ++i) {
    std::thread([&] { machine.Fill(machine.first, 1); }).join();
  }
  Must(machine.first.Synchronize());
}

// All fills are under way at once.
void UnderWay(int times) {
  Machine machine;
  std::mutex mutex;
  std::unique_lock<std::mutex> lock(mutex);
  Must(devrt::LaunchHostFunc(machine.first, [&](absl::Status) {
    const std::lock_guard<std::mutex> until_released(mutex);
  }));
  machine.Fill(machine.first, times);
  lock.unlock();
  Must(machine.first.Synchronize());
}

// One fill in a stream of each kind; the second waits for the first.
void Streams(int) {
  Machine machine;
  devrt::Event filled = Must(devrt::Event::Create(machine.device));
  machine.Fill(machine.first, 1);
  Must(filled.Record(machine.first));
  Must(machine.second.Wait(filled));
  machine.Fill(machine.second, 1);
  machine.Fill(devrt::DefaultStream(machine.device), 1);
  for (int i = 0; i < 2; ++i) {
    std::thread([&] {
      const devrt::StreamRef mine =
          Must(devrt::PerThreadDefaultStream(machine.device));
      machine.Fill(mine, 1);
      Must(mine.Synchronize());
    }).join();
  }
  const devrt::Stream adopted = Must(
      devrt::Stream::FromNative(machine.device, Must(machine.second.Native())));
  machine.Fill(adopted, 1);
  Must(machine.device.Synchronize());
}

// The simulator begins anew, its clock and its numbers too.
void Reset(int times) {
  const devrt::Backend backend = Must(devrt::GetBackend("mtia"));
  const char* const given = std::getenv("DEVRT_MTIA");
  const std::string config = given == nullptr ? "" : given;
  for (int i = 0; i < times; ++i) {
    if (i > 0) Must(Must(devrt::Simulator::Get(backend)).Reset(config));
    Machine machine;
    machine.Fill(machine.first, 20);
    Must(machine.first.Synchronize());
  }
}

// A block that another stream uses when it is freed: the allocator asks whether
// a capture is under way.
void Cached(int times) {
  Machine machine;
  for (int i = 0; i < times; ++i) {
    void* const block = Must(devrt::AllocateMemory(machine.first, kBytes));
    Must(devrt::FillAsync(machine.second, block, 1, kBytes));
    Must(devrt::RecordStream(block, machine.second));
    Must(devrt::FreeMemory(block));
  }
  Must(machine.second.Synchronize());
}

// Ends without leaving.
void Crash(int times) {
  Machine machine;
  machine.Fill(machine.first, times);
  Must(machine.first.Synchronize());
  std::abort();
}

// Until a signal ends it.
void Wait(int times) {
  Machine machine;
  machine.Fill(machine.first, times);
  Must(machine.first.Synchronize());
  std::printf("%d\n", getpid());
  std::fflush(stdout);
  alarm(20);  // should nobody care
  pause();
}

const std::map<std::string, std::function<void(int)>> kActions = {
    {"cached", Cached},      {"crash", Crash},     {"idle", Idle},
    {"reset", Reset},        {"streams", Streams}, {"threads", Threads},
    {"under_way", UnderWay}, {"wait", Wait},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || kActions.count(argv[1]) == 0) return 2;
  if (argc > 3) g_device = argv[3];
  kActions.at(argv[1])(argc > 2 ? std::atoi(argv[2]) : 1);
  return 0;
}
