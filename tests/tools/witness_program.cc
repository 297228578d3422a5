// SPDX-License-Identifier: Apache-2.0
//
// What check_witness_test.py runs under devrt check --witness.  A reader does
// not wait for the writer of its memory.  The first argument says what the
// program does with the value that the reader got.

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
constexpr int kOld = 1;  // in memory before the race
constexpr int kNew = 2;  // what the reader should get

// Returns what the reader got.
int Race(int written) {
  const devrt::Device device = Must(devrt::GetDevice("mtia:0"));
  const devrt::Stream writer = Must(devrt::Stream::Create(device));
  const devrt::Stream reader = Must(devrt::Stream::Create(device));
  void* const memory = Must(devrt::Allocate(device, kBytes));
  void* const result = Must(devrt::Allocate(device, kBytes));
  Must(devrt::FillAsync(writer, memory, kOld, kBytes));
  Must(writer.Synchronize());
  Must(devrt::FillAsync(writer, memory, static_cast<uint8_t>(written), kBytes));
  Must(devrt::CopyAsync(reader, result, memory, kBytes));
  Must(device.Synchronize());
  unsigned char value = 0;
  Must(devrt::Copy(reader, &value, result, 1));
  Must(devrt::Free(device, memory));
  Must(devrt::Free(device, result));
  return value;
}

// Ends in some way if the value is wrong.
void Check(const std::function<void()>& end) {
  if (Race(kNew) != kNew) end();
}

void Children() {
  constexpr int kChildren = 2;
  for (int i = 0; i < kChildren; ++i) {
    if (fork() != 0) continue;
    Race(kNew);
    std::exit(0);
  }
  for (int i = 0; i < kChildren; ++i) wait(nullptr);
}

void Restart() {
  Must(Must(devrt::Simulator::Get()).Reset());
  Race(kNew);
}

// The host reads by a pointer what a copy is writing.
void Touch() {
  const devrt::Device device = Must(devrt::GetDevice("mtia:0"));
  const devrt::Stream stream = Must(devrt::Stream::Create(device));
  void* const memory = Must(devrt::Allocate(device, kBytes));
  auto* const host =
      static_cast<char*>(Must(devrt::AllocateHost(device, kBytes)));
  Must(devrt::FillAsync(stream, memory, kNew, kBytes));
  Must(devrt::CopyAsync(stream, host, memory, kBytes));
  static_cast<void>(*static_cast<volatile char*>(host));
  Must(stream.Synchronize());
  Must(devrt::FreeHost(host));
  Must(devrt::Free(device, memory));
}

// Two runs have different values in host memory.
void Chance() {
  Race(kNew);
  const devrt::Device device = Must(devrt::GetDevice("mtia:0"));
  void* const memory = Must(devrt::Allocate(device, kBytes));
  const pid_t value = getpid();
  Must(devrt::Copy(devrt::DefaultStream(device), memory, &value, sizeof value));
  Must(devrt::Free(device, memory));
}

const std::map<std::string, std::function<void()>> kActions = {
    {"abort", [] { Check([] { std::abort(); }); }},
    {"chance", Chance},
    {"children", Children},
    {"equal", [] { Race(kOld); }},
    {"fail", [] { Check([] { std::exit(9); }); }},
    {"leave",
     [] {
       Race(kNew);
       _exit(0);
     }},
    {"print", [] { std::printf("%d\n", Race(kNew)); }},
    {"restart", Restart},
    {"touch", Touch},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || kActions.count(argv[1]) == 0) return 2;
  kActions.at(argv[1])();
  return 0;
}
