// SPDX-License-Identifier: Apache-2.0
//
// The seed's pinned_memory_use_background_threads: one pinned allocation in
// background mode, with work pending on it, and then the end that the argument
// names.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

#include "devrt/devrt.h"

namespace {

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

int Run(const std::string& way) {
  const devrt::Device device = Must(devrt::GetDevice("mtia:0"));
  void* block = Must(devrt::AllocatePinned(device, 4096));
  if (devrt::SetAllocatorSettings("pinned_use_background_threads:False")
          .code() != absl::StatusCode::kFailedPrecondition) {
    return 98;
  }
  static devrt::Stream* const s =
      new devrt::Stream(Must(devrt::Stream::Create(device)));
  static devrt::Flag* const flag =
      new devrt::Flag(Must(devrt::Flag::Create(device)));
  Must(flag->WaitOn(*s));
  Must(devrt::RecordPinnedUse(block, *s));
  Must(devrt::FreePinned(block));
  if (way == "reused") {
    // Only the thread looks: statistics ask nothing.
    Must(flag->Set());
    while (
        devrt::GetPinnedStatistics(device.backend()).active_requests.current !=
        0) {
      std::this_thread::yield();
    }
    return 0;
  }
  if (way == "shutdown") {
    Must(flag->Set());
    Must(s->Synchronize());
    delete s;
    delete flag;
    Must(devrt::Shutdown());
    return 0;
  }
  std::fflush(stdout);
  if (way == "exit") std::exit(0);
  if (way == "quick_exit") std::quick_exit(0);
  if (way == "underscore_exit") std::_Exit(0);
  if (way == "thread") std::thread([] { std::exit(0); }).join();
  if (way == "abort") std::abort();
  if (way == "exception") throw std::runtime_error("leaving");
  return 0;
}

}  // namespace

int main(int, char** argv) { return Run(argv[1]); }
