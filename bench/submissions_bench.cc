// SPDX-License-Identifier: Apache-2.0
//
// What a submission of a collective costs on the host: operations of one rank
// over NCCL.  scripts/instruction-counts runs it over the fakes of tests/fakes,
// where NCCL's calls do nothing, so that what is counted is devrt's own.
//
//   DEVRT_BENCH_DEVICE   a device of cuda
#include <benchmark/benchmark.h>
#include <dlfcn.h>

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

Rank MakeRank() {
  const devrt::Device device = BenchDevice();
  std::vector<Communicator> made = Value(Communicator::CreateAll({device}));
  LetCallsDoNothing(made[0].provider().path);
  devrt::Stream stream = Value(devrt::Stream::Create(device));
  Check(devrt::SetCurrentStream(stream));
  Array in = Value(Array::Full({256}, devrt::kFloat32, 1.0F, device));
  Array out = Value(Array::Zeros({256}, devrt::kFloat32, device));
  Check(stream.Synchronize());
  return {std::move(made[0]), std::move(stream), std::move(in), std::move(out)};
}

void AllReducePointers(benchmark::State& state) {
  Rank rank = MakeRank();
  const devrt::DeviceGuard guard(rank.stream.device());
  const Operation op = rank.Raw();
  for (auto _ : state) {
    Check(rank.communicator.Submit({&op, 1}, rank.stream));
  }
}
BENCHMARK(AllReducePointers)->Apply(Counted);

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
