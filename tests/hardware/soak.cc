// SPDX-License-Identifier: Apache-2.0
//
// Works on all devices of a backend with many threads for a long time, checks
// all data, and measures at intervals what must not grow.
#include <getopt.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "devrt/devrt.h"
#include "tests/hardware/soak_operations.h"
#include "tests/hardware/soak_report.h"
#include "tests/hardware/soak_samples.h"

namespace devrt::soak {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kFailed = 1, kNothingThere = 77;

// Lets the threads work until somebody asks for silence between their rounds.
class Rounds {
 public:
  explicit Rounds(int threads) : working_(threads) {}

  // Between two rounds; false when it is over.
  bool Next() {
    std::unique_lock<std::mutex> lock(mutex_);
    ++done_;
    if (stop_ || !pause_) return Leave();
    --working_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return stop_ || !pause_; });
    ++working_;
    return Leave();
  }
  void Fail(const absl::Status& status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.ok()) failure_ = status;
    stop_ = true;
    changed_.notify_all();
  }
  // Until all threads are between two rounds, or it is over.
  void Pause() {
    std::unique_lock<std::mutex> lock(mutex_);
    pause_ = true;
    changed_.wait(lock, [&] { return stop_ || working_ == 0; });
  }
  void GoOn() {
    const std::lock_guard<std::mutex> lock(mutex_);
    pause_ = false;
    changed_.notify_all();
  }
  void Stop() {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  // True when it is over, at the latest at that time.
  bool StopsBefore(Clock::time_point time) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_until(lock, time, [&] { return stop_; });
  }
  uint64_t done() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return done_;
  }
  absl::Status failure() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return failure_;
  }

 private:
  bool Leave() const { return !stop_; }

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  int working_;
  uint64_t done_ = 0;
  bool pause_ = false;
  bool stop_ = false;
  absl::Status failure_;
};

void Work(Worker worker, int index, Rounds* rounds, OperationCounts* counts) {
  const std::vector<Operation>& operations = Operations();
  do {
    const size_t which = worker.Below(operations.size());
    const Operation& operation = operations[which];
    if (operation.needs_probe && !worker.has_probe) continue;
    const absl::Status status = operation.run(&worker);
    if (status.ok()) {
      ++(*counts)[which];
    } else if (!absl::IsUnimplemented(status)) {
      rounds->Fail(absl::Status(
          status.code(), absl::StrCat("thread ", index, ", ", operation.name,
                                      ": ", status.message())));
    }
  } while (rounds->Next());
}

// The call whose time is watched.
class Probe {
 public:
  static absl::StatusOr<Probe> Create(Device device) {
    DEVRT_ASSIGN_OR_RETURN(Stream stream, Stream::Create(device));
    DEVRT_ASSIGN_OR_RETURN(void* memory, Allocate(device, kBytes));
    return Probe(std::move(stream), memory);
  }
  absl::Status Run(std::vector<double>* times) const {
    const Clock::time_point begin = Clock::now();
    DEVRT_RETURN_IF_ERROR(FillAsync(stream_, memory_, 1, kBytes));
    DEVRT_RETURN_IF_ERROR(stream_.Synchronize());
    const std::chrono::duration<double, std::micro> time = Clock::now() - begin;
    times->push_back(time.count());
    return absl::OkStatus();
  }
  absl::Status Done() const { return Free(stream_.device(), memory_); }

 private:
  static constexpr uint64_t kBytes = 4096;
  Probe(Stream stream, void* memory)
      : stream_(std::move(stream)), memory_(memory) {}

  Stream stream_;
  void* memory_;
};

absl::Status TakeSample(const std::vector<Device>& devices,
                        const std::vector<double>& times, Sample* sample) {
  sample->median_us = Quantile(times, 0.5);
  sample->p99_us = Quantile(times, 0.99);
  ReadProcess(sample);
  for (const Device device : devices) {
    DEVRT_ASSIGN_OR_RETURN(const MemoryInfo memory, device.GetMemoryInfo());
    sample->device_bytes +=
        static_cast<double>(memory.total_bytes - memory.free_bytes);
  }
  return absl::OkStatus();
}

// Until the time is up or something fails.
absl::Status Watch(const Options& options, const std::vector<Device>& devices,
                   Rounds* rounds, std::vector<Sample>* samples) {
  std::vector<Probe> probes;
  for (const Device device : devices) {
    DEVRT_ASSIGN_OR_RETURN(Probe probe, Probe::Create(device));
    probes.push_back(std::move(probe));
  }
  const Clock::time_point begin = Clock::now();
  const auto at = [&](double seconds) {
    return begin + std::chrono::duration_cast<Clock::duration>(
                       std::chrono::duration<double>(seconds));
  };
  const double interval = options.seconds / options.samples;
  for (int i = 1; i <= options.samples; ++i) {
    std::vector<double> times;
    const Clock::time_point end = at(i * interval);
    for (size_t turn = 0; Clock::now() < end; ++turn) {
      const Probe& probe = probes[turn % probes.size()];
      DEVRT_RETURN_IF_ERROR(probe.Run(&times));
      const Clock::time_point soon =
          Clock::now() + std::chrono::milliseconds(1);
      if (rounds->StopsBefore(std::min(soon, end))) return rounds->failure();
    }
    rounds->Pause();
    Sample sample;
    sample.seconds =
        std::chrono::duration<double>(Clock::now() - begin).count();
    sample.rounds = static_cast<double>(rounds->done());
    absl::Status status = CheckBetweenRounds(devices, false);
    status.Update(TakeSample(devices, times, &sample));
    rounds->GoOn();
    DEVRT_RETURN_IF_ERROR(status);
    samples->push_back(sample);
  }
  for (const Probe& probe : probes) DEVRT_RETURN_IF_ERROR(probe.Done());
  return absl::OkStatus();
}

// Loads the kernels, and lets the devices reach each other.
absl::Status Prepare(const std::vector<Device>& devices, bool* has_probe) {
  for (const Device device : devices) {
    const absl::StatusOr<Flag> flag = Flag::Create(device);
    *has_probe = flag.ok();
    if (!flag.ok() && !absl::IsUnimplemented(flag.status())) {
      return flag.status();
    }
    for (const Device peer : devices) {
      DEVRT_ASSIGN_OR_RETURN(const bool can, CanAccessPeer(device, peer));
      if (can) DEVRT_RETURN_IF_ERROR(EnablePeerAccess(device, peer));
    }
  }
  return absl::OkStatus();
}

absl::Status Soak(const Options& options, const std::vector<Device>& devices,
                  Report* report) {
  bool has_probe = false;
  DEVRT_RETURN_IF_ERROR(Prepare(devices, &has_probe));
  Rounds rounds(options.threads);
  std::vector<OperationCounts> counts(static_cast<size_t>(options.threads),
                                      OperationCounts(Operations().size(), 0));
  std::vector<std::thread> threads;
  for (int i = 0; i < options.threads; ++i) {
    Worker worker{devices,
                  options.most_bytes,
                  has_probe,
                  std::mt19937_64(options.seed + static_cast<uint64_t>(i)),
                  {}};
    threads.emplace_back(&Work, std::move(worker), i, &rounds,
                         &counts[static_cast<size_t>(i)]);
  }
  const absl::Status watched =
      Watch(options, devices, &rounds, &report->samples);
  rounds.Stop();
  for (std::thread& thread : threads) thread.join();
  for (const OperationCounts& mine : counts) {
    for (size_t i = 0; i < mine.size(); ++i) report->counts[i] += mine[i];
  }
  report->rounds = rounds.done();
  DEVRT_RETURN_IF_ERROR(rounds.failure());
  DEVRT_RETURN_IF_ERROR(watched);
  DEVRT_RETURN_IF_ERROR(CheckBetweenRounds(devices, true));
  // Refused while anything is alive.
  return Shutdown();
}

int Run(const Options& options) {
  const absl::StatusOr<std::vector<Device>> devices = Devices(options.backend);
  if (!devices.ok()) {
    std::fprintf(stderr, "soak: %s\n", devices.status().ToString().c_str());
    const bool absent = absl::IsUnavailable(devices.status()) ||
                        absl::IsNotFound(devices.status());
    return absent ? kNothingThere : kFailed;
  }
  Report report;
  report.counts.resize(Operations().size());
  for (const Device device : *devices) {
    report.devices.push_back(device.name());
  }
  report.error = Soak(options, *devices, &report);
  report.verdicts = Judge(report.samples);
  Print(options, report);
  if (!WriteJson(options, report)) return kFailed;
  // After an error objects may be alive, and a device may be lost.
  if (!report.error.ok()) {
    std::fflush(nullptr);
    std::_Exit(kFailed);
  }
  return Passed(report) ? 0 : kFailed;
}

}  // namespace
}  // namespace devrt::soak

int main(int argc, char** argv) {
  devrt::soak::Options options;
  const int code = devrt::soak::ParseOptions(argc, argv, &options);
  if (code >= 0) return code;
  return devrt::soak::Run(options);
}
