// SPDX-License-Identifier: Apache-2.0
//
// What the detector of the validation layer adds to a step of a program: a
// stream waits for an event of another stream, launches a kernel, and records
// an event.  No backend takes part.
//
//   InTurn        each stream waits for the stream before it, and the kernel
//                 reads the block of that stream and writes its own block
//   AtRandom      each step is of a random stream that waits for a random
//                 stream, and the kernel reads half of its own block and
//                 writes the other half
//   Views         as AtRandom, but the kernel writes the whole block
//   SharedInput   as AtRandom, and all kernels read one more block
//   OfEight       10^6 steps on 8 devices with 32 streams each
//   ShortStreams  each stream is made for one step, and destroyed
//   Memory        resident memory after 10^6 and after 10^7 steps

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <random>
#include <vector>

#include "layers/validate/detector.h"

namespace {

using devrt::race::Actor;
using devrt::race::Call;
using devrt::race::Detector;
using devrt::race::Finding;
using devrt::race::Mark;
using devrt::race::MemoryAccess;
using devrt::race::MemoryKind;
using devrt::race::Mode;
using devrt::race::StreamKind;

constexpr uint64_t kBase = 1 << 20;
constexpr uint64_t kBytes = 1 << 20;  // of a block
constexpr uint64_t kHalf = kBytes / 2;
constexpr uint64_t kSharedInput = 0x1000;
// Uses that the host knows are forgotten so often, as the layer does.
constexpr uint64_t kForgetAfter = 1 << 14;
constexpr size_t kChoices = 1 << 12;  // a power of two

// Streams with a block and an event each, on one host thread.
class Program {
 public:
  Program(uint32_t devices, uint32_t streams_of_device) {
    host_ = detector_.order().AddThread();
    detector_.Allocate(At(1), kSharedInput, kHalf, MemoryKind::kDevice, 0);
    for (uint32_t device = 0; device < devices; ++device) {
      for (uint32_t i = 0; i < streams_of_device; ++i) {
        streams_.push_back(NewStream(device));
        detector_.Allocate(At(1), BlockOf(streams_.size() - 1), kBytes,
                           MemoryKind::kDevice, device);
      }
    }
    marks_.resize(streams_.size());
    for (size_t i = 0; i < streams_.size(); ++i) {
      marks_[i] = detector_.Record(At(2), streams_[i], i);
    }
    std::mt19937 random(1);
    for (size_t i = 0; i < kChoices; ++i) {
      choices_.push_back(random() % streams_.size());
    }
  }

  uint64_t findings() const { return findings_; }

  void InTurn() {
    const size_t other = last_;
    last_ = last_ + 1 == streams_.size() ? 0 : last_ + 1;
    accesses_.clear();
    accesses_.push_back({BlockOf(other), kBytes, Mode::kRead});
    accesses_.push_back({BlockOf(last_), kBytes, Mode::kWrite});
    Step(last_, other);
  }
  void AtRandom() {
    const size_t stream = Begin();
    accesses_.push_back({BlockOf(stream), kHalf, Mode::kRead});
    accesses_.push_back({BlockOf(stream) + kHalf, kHalf, Mode::kWrite});
    Step(stream, Choice());
  }
  void Views() {
    const size_t stream = Begin();
    accesses_.push_back({BlockOf(stream), kHalf, Mode::kRead});
    accesses_.push_back({BlockOf(stream), kBytes, Mode::kWrite});
    Step(stream, Choice());
  }
  void SharedInput() {
    const size_t stream = Begin();
    accesses_.push_back({kSharedInput, kHalf, Mode::kRead});
    accesses_.push_back({BlockOf(stream), kHalf, Mode::kRead});
    accesses_.push_back({BlockOf(stream) + kHalf, kHalf, Mode::kWrite});
    Step(stream, Choice());
  }
  // The stream at one place is replaced, after the host has waited for it.
  void ShortStream() {
    const size_t stream = Choice();
    detector_.order().HostWait(host_, marks_[stream]);
    detector_.order().RemoveStream(streams_[stream]);
    streams_[stream] = NewStream(0);
    AtRandom();
  }

 private:
  Actor NewStream(uint32_t device) {
    return detector_.order().AddStream(host_,
                                       {device, StreamKind::kNonBlocking});
  }
  Call At(uint32_t site) const { return {host_, 1, site}; }
  static uint64_t BlockOf(size_t i) { return kBase + i * kBytes; }
  size_t Begin() {
    accesses_.clear();
    return Choice();
  }
  size_t Choice() { return choices_[next_++ % kChoices]; }

  void Step(size_t stream, size_t other) {
    detector_.Wait(At(3), streams_[stream], other, &marks_[other]);
    detector_.Enqueue(At(4), streams_[stream], accesses_);
    marks_[stream] = detector_.Record(At(2), streams_[stream], stream);
    if (++steps_ % kForgetAfter == 0) {
      detector_.memory().Forget(detector_.order().ClockOf(host_));
    }
  }

  uint64_t findings_ = 0;
  Detector detector_{[this](const Finding&) { ++findings_; }};
  Actor host_ = 0;
  std::vector<Actor> streams_;
  std::vector<Mark> marks_;
  std::vector<MemoryAccess> accesses_;
  std::vector<size_t> choices_;
  size_t next_ = 0;
  size_t last_ = 0;
  uint64_t steps_ = 0;
};

uint32_t Streams(const benchmark::State& state) {
  return static_cast<uint32_t>(state.range(0));
}

// The programs have no race: reports are not measured.
void ExpectNone(benchmark::State& state, const Program& program) {
  if (program.findings() != 0) state.SkipWithError("the program has a race");
}

void InTurn(benchmark::State& state) {
  Program program(1, Streams(state));
  for (auto _ : state) program.InTurn();
  ExpectNone(state, program);
}
BENCHMARK(InTurn)->Arg(4)->Arg(16)->Arg(64)->Arg(256);

void AtRandom(benchmark::State& state) {
  Program program(1, Streams(state));
  for (auto _ : state) program.AtRandom();
  ExpectNone(state, program);
}
BENCHMARK(AtRandom)->Arg(4)->Arg(16)->Arg(64)->Arg(256);

void Views(benchmark::State& state) {
  Program program(1, Streams(state));
  for (auto _ : state) program.Views();
  ExpectNone(state, program);
}
BENCHMARK(Views)->Arg(16)->Arg(64);

void SharedInput(benchmark::State& state) {
  Program program(1, Streams(state));
  for (auto _ : state) program.SharedInput();
  ExpectNone(state, program);
}
BENCHMARK(SharedInput)->Arg(4)->Arg(16)->Arg(64)->Arg(256);

void OfEight(benchmark::State& state) {
  for (auto _ : state) {
    Program program(8, 32);
    for (int i = 0; i < 1'000'000; ++i) program.AtRandom();
    ExpectNone(state, program);
  }
}
BENCHMARK(OfEight)->Unit(benchmark::kSecond)->Iterations(1);

void ShortStreams(benchmark::State& state) {
  Program program(1, Streams(state));
  for (auto _ : state) program.ShortStream();
  ExpectNone(state, program);
}
BENCHMARK(ShortStreams)->Arg(16)->Arg(64);

double ResidentMiB() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return static_cast<double>(pages) *
         static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

void Memory(benchmark::State& state) {
  for (auto _ : state) {
    Program program(1, 64);
    for (int i = 1; i <= 10'000'000; ++i) {
      i % 2 == 0 ? program.SharedInput() : program.Views();
      if (i == 1'000'000) state.counters["MiB_at_1e6"] = ResidentMiB();
    }
    state.counters["MiB_at_1e7"] = ResidentMiB();
    ExpectNone(state, program);
  }
}
BENCHMARK(Memory)->Unit(benchmark::kSecond)->Iterations(1);

}  // namespace
