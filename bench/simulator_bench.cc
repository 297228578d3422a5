// SPDX-License-Identifier: Apache-2.0
//
// Whole runs of the simulator in virtual mode: reset, a program of N
// operations on 4 streams ordered by events, synchronise.  Exploration runs
// thousands of such programs.

#include <benchmark/benchmark.h>

#include <optional>
#include <string>
#include <vector>

#include "bench/bench_support.h"
#include "devrt/devrt.h"

namespace {

using bench::Check;
using bench::Gpu;
using bench::Value;

// Kernels in turn on four streams; every fourth is followed by a record that
// the next stream waits for.  Kernels, records and waits all count.
void Program(devrt::Device gpu, int operations) {
  std::vector<devrt::Stream> streams;
  for (int i = 0; i < 4; ++i) {
    streams.push_back(Value(devrt::Stream::Create(gpu)));
  }
  devrt::Event event = Value(devrt::Event::Create(gpu));
  for (int done = 0; done < operations;) {
    const size_t s = static_cast<size_t>(done) % 4;
    Check(devrt::Launch(streams[s], {}, [](const devrt::LaunchContext&) {}));
    ++done;
    if (done % 4 == 0 && done + 2 <= operations) {
      Check(event.Record(streams[s]));
      Check(streams[(s + 1) % 4].Wait(event));
      done += 2;
    }
  }
  Check(gpu.Synchronize());
}

void Run(benchmark::State& state, const std::string& config) {
  devrt::Device gpu = Gpu(0);
  devrt::Simulator simulator = Value(devrt::Simulator::Get("mtia"));
  const int operations = static_cast<int>(state.range(0));
  int64_t seed = 0;
  for (auto _ : state) {
    Check(simulator.Reset(config + ",seed=" + std::to_string(seed++)));
    Program(gpu, operations);
  }
  state.SetItemsProcessed(state.iterations());
}

void RunsHardware(benchmark::State& state) {
  Run(state, "mode=virtual,strategy=hw");
}
BENCHMARK(RunsHardware)->Arg(16)->Arg(64);

void RunsRandom(benchmark::State& state) {
  Run(state, "mode=virtual,strategy=random");
}
BENCHMARK(RunsRandom)->Arg(16)->Arg(64);

// The runs of RunsRandom, each by its token, which is made before.
void ReplaysRandom(benchmark::State& state) {
  constexpr int64_t kTokens = 64;
  devrt::Device gpu = Gpu(0);
  devrt::Simulator simulator = Value(devrt::Simulator::Get("mtia"));
  const int operations = static_cast<int>(state.range(0));
  std::vector<std::string> tokens;
  for (int64_t seed = 0; seed < kTokens; ++seed) {
    Check(simulator.Reset("mode=virtual,strategy=random,seed=" +
                          std::to_string(seed)));
    Program(gpu, operations);
    tokens.push_back(Value(simulator.Token()));
  }
  size_t next = 0;
  for (auto _ : state) {
    Check(simulator.Replay(tokens[next++ % tokens.size()]));
    Program(gpu, operations);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(ReplaysRandom)->Arg(16)->Arg(64);

void RunsLifo(benchmark::State& state) {
  Run(state, "mode=virtual,strategy=lifo");
}
BENCHMARK(RunsLifo)->Arg(16)->Arg(64);

}  // namespace
