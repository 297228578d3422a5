// SPDX-License-Identifier: Apache-2.0
//
// What a submission of a collective costs on the host: operations of one rank,
// or of all ranks on one thread, over NCCL.  scripts/instruction-counts runs it
// over the fakes of tests/fakes, where NCCL's calls do nothing, so that what is
// counted is devrt's own.
//
//   DEVRT_BENCH_DEVICE   a device of cuda
#include <benchmark/benchmark.h>
#include <dlfcn.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "bench/bench_support.h"
#include "bench/counted.h"
#include "devrt/collectives/communicator.h"
#include "devrt/collectives/group.h"
#include "devrt/guards/device_guard.h"
#include "tests/fakes/nccl/knobs.h"

namespace bench {
namespace {

using devrt::Array;
using devrt::collectives::Communicator;
using devrt::collectives::Group;
using devrt::collectives::Operation;
using devrt::collectives::RawOperation;

constexpr int kMany = 16;

// The fake has a switch; NCCL itself has none.
void LetCallsDoNothing(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return;
  const auto set = reinterpret_cast<decltype(&fake_nccl_set)>(
      dlsym(library, "fake_nccl_set"));
  if (set == nullptr) return;
  fake_nccl_knobs knobs = {};
  knobs.does_nothing = 1;
  set(&knobs);
}

struct Rank {
  Communicator communicator;
  devrt::Stream stream;
  Array in, out;

  RawOperation Raw() const {
    RawOperation op;
    op.count = 256;
    op.src = in.data();
    op.dst = out.data();
    return op;
  }
};

// A communicator of `count` ranks, each with a device of its own.
std::vector<Rank> MakeRanks(size_t count) {
  std::vector<devrt::Device> devices = {BenchDevice()};
  if (count > 1) devices = Value(devrt::Devices(devices[0].backend().name()));
  if (devices.size() < count) {
    std::fprintf(stderr, "%zu ranks need devices of their own: there are %zu\n",
                 count, devices.size());
    std::exit(1);
  }
  devices.erase(devices.begin() + static_cast<std::ptrdiff_t>(count),
                devices.end());
  std::vector<Communicator> made = Value(Communicator::CreateAll(devices));
  LetCallsDoNothing(made[0].provider().path);
  std::vector<Rank> ranks;
  for (size_t i = 0; i < count; ++i) {
    devrt::Stream stream = Value(devrt::Stream::Create(devices[i]));
    Check(devrt::SetCurrentStream(stream));
    Array in = Value(Array::Full({256}, devrt::kFloat32, 1.0F, devices[i]));
    Array out = Value(Array::Zeros({256}, devrt::kFloat32, devices[i]));
    Check(stream.Synchronize());
    ranks.push_back(Rank{std::move(made[i]), std::move(stream), std::move(in),
                         std::move(out)});
  }
  return ranks;
}

Rank MakeRank() { return std::move(MakeRanks(1)[0]); }

void AllReducePointers(benchmark::State& state) {
  Rank rank = MakeRank();
  const devrt::DeviceGuard guard(rank.stream.device());
  const Operation op = rank.Raw();
  for (auto _ : state) {
    Check(rank.communicator.Submit({&op, 1}, rank.stream));
  }
}
BENCHMARK(AllReducePointers)->Apply(Counted);

// Measures a submission whose code and data the caches have lost, as behind a
// launch of NCCL's own.  The argument is how many KiB are read before.
void AllReduceBehindReads(benchmark::State& state) {
  using Clock = std::chrono::steady_clock;
  Rank rank = MakeRank();
  const devrt::DeviceGuard guard(rank.stream.device());
  const Operation op = rank.Raw();
  std::vector<char> other(static_cast<size_t>(state.range(0)) << 10);
  for (auto _ : state) {
    for (size_t i = 0; i < other.size(); i += 64) {
      benchmark::DoNotOptimize(other[i]);
    }
    const Clock::time_point begin = Clock::now();
    Check(rank.communicator.Submit({&op, 1}, rank.stream));
    const std::chrono::duration<double> took = Clock::now() - begin;
    state.SetIterationTime(took.count());
  }
}
BENCHMARK(AllReduceBehindReads)->Arg(0)->Arg(512)->UseManualTime();

void AllReduceArrays(benchmark::State& state) {
  Rank rank = MakeRank();
  const devrt::DeviceGuard guard(rank.stream.device());
  for (auto _ : state) {
    Check(rank.communicator.AllReduce(rank.out, rank.in));
  }
}
BENCHMARK(AllReduceArrays)->Apply(Counted);

void GroupOf16(benchmark::State& state) {
  Rank rank = MakeRank();
  const devrt::DeviceGuard guard(rank.stream.device());
  const Operation op = rank.Raw();
  for (auto _ : state) {
    Group group;
    for (int i = 0; i < kMany; ++i) {
      group.Add(rank.communicator, op, rank.stream);
    }
    Check(group.Submit());
  }
}
BENCHMARK(GroupOf16)->Apply(Counted);

// Submits an operation of each rank as one group, as a thread does that has all
// ranks.
void SubmitGroup(std::vector<Rank>* ranks, const std::vector<Operation>& ops) {
  Group group;
  for (size_t i = 0; i < ops.size(); ++i) {
    group.Add((*ranks)[i].communicator, ops[i], (*ranks)[i].stream);
  }
  Check(group.Submit());
}

std::vector<Operation> RawOf(const std::vector<Rank>& ranks) {
  std::vector<Operation> ops;
  for (const Rank& rank : ranks) ops.emplace_back(rank.Raw());
  return ops;
}

void RanksOnOneThread(benchmark::State& state, size_t count) {
  std::vector<Rank> ranks = MakeRanks(count);
  const devrt::DeviceGuard guard(ranks[0].stream.device());
  const std::vector<Operation> ops = RawOf(ranks);
  for (auto _ : state) SubmitGroup(&ranks, ops);
}

void TwoRanks(benchmark::State& state) { RanksOnOneThread(state, 2); }
BENCHMARK(TwoRanks)->Apply(Counted);

void SixteenRanks(benchmark::State& state) { RanksOnOneThread(state, kMany); }
BENCHMARK(SixteenRanks)->Apply(Counted);

void TwoRanksArrays(benchmark::State& state) {
  std::vector<Rank> ranks = MakeRanks(2);
  const devrt::DeviceGuard guard(ranks[0].stream.device());
  std::vector<Operation> ops;
  for (const Rank& rank : ranks) {
    ops.push_back(devrt::collectives::AllReduce(rank.out, rank.in));
  }
  for (auto _ : state) SubmitGroup(&ranks, ops);
}
BENCHMARK(TwoRanksArrays)->Apply(Counted);

// Two communicators of two ranks on two streams of each device.
void TwoRanksInTurns(benchmark::State& state) {
  std::vector<Rank> first = MakeRanks(2);
  std::vector<Rank> second = MakeRanks(2);
  const devrt::DeviceGuard guard(first[0].stream.device());
  const std::vector<Operation> a = RawOf(first);
  const std::vector<Operation> b = RawOf(second);
  for (auto _ : state) {
    SubmitGroup(&first, a);
    SubmitGroup(&second, b);
  }
}
BENCHMARK(TwoRanksInTurns)->Apply(Counted);

// Two communicators on two streams: each submission waits for the other's.
void TwoInTurns(benchmark::State& state) {
  Rank first = MakeRank();
  Rank second = MakeRank();
  const devrt::DeviceGuard guard(first.stream.device());
  const Operation a = first.Raw();
  const Operation b = second.Raw();
  for (auto _ : state) {
    Check(first.communicator.Submit({&a, 1}, first.stream));
    Check(second.communicator.Submit({&b, 1}, second.stream));
  }
}
BENCHMARK(TwoInTurns)->Apply(Counted);

}  // namespace
}  // namespace bench
