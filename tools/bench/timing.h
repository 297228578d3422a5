// SPDX-License-Identifier: Apache-2.0
//
// Times of calls that take nanoseconds.
//
//   bench::AllocateFree pair(&memory, 512);
//   const double ns = TimeOf([&] { pair.RunOnce(); }, Effort());

#ifndef DEVRT_TOOLS_BENCH_TIMING_H_
#define DEVRT_TOOLS_BENCH_TIMING_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <thread>
#include <vector>

namespace devrt::tools {

// How long a row is measured: the number of rounds, whose median counts, and
// the length of one.
struct Effort {
  int rounds = 7;
  double round_ns = 20e6;
};

// The clock `id`: processor time of this thread, or real time.
inline double NanosecondsOf(clockid_t id) {
  timespec time = {};
  clock_gettime(id, &time);
  return static_cast<double>(time.tv_sec) * 1e9 +
         static_cast<double>(time.tv_nsec);
}

// The median of an odd number of values.
inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Nanoseconds of one call of `body`, in processor time, so that other programs
// disturb little.  `body` must not wait.  Some thousand calls warm up first.
template <typename Body>
double TimeOf(const Body& body, const Effort& effort) {
  const auto run = [&body](uint64_t times) {
    const double begin = NanosecondsOf(CLOCK_THREAD_CPUTIME_ID);
    for (uint64_t i = 0; i < times; ++i) body();
    return NanosecondsOf(CLOCK_THREAD_CPUTIME_ID) - begin;
  };
  uint64_t times = 1;
  for (double took = run(1); took < effort.round_ns / 4; took = run(times)) {
    times *= 2;
  }
  times *= 2;
  std::vector<double> rounds;
  for (int i = 0; i < effort.rounds; ++i) {
    rounds.push_back(run(times) / static_cast<double>(times));
  }
  return Median(rounds);
}

// Calls of all `bodies` together in a second of real time, with one thread for
// each body: the median of the rounds.
template <typename Body>
double RateOf(const std::vector<Body*>& bodies, const Effort& effort) {
  constexpr uint64_t kBatch = 64;
  std::vector<double> rounds;
  for (int round = 0; round < effort.rounds; ++round) {
    std::atomic<size_t> ready{0};
    std::atomic<bool> go{false}, stop{false};
    std::atomic<uint64_t> calls{0};
    std::vector<std::thread> threads;
    for (Body* body : bodies) {
      threads.emplace_back([&, body] {
        for (uint64_t i = 0; i < kBatch; ++i) body->RunOnce();
        ++ready;
        while (!go) std::this_thread::yield();
        uint64_t mine = 0;
        do {  // at least once, however late this thread starts
          for (uint64_t i = 0; i < kBatch; ++i) body->RunOnce();
          mine += kBatch;
        } while (!stop.load(std::memory_order_relaxed));
        calls += mine;
      });
    }
    while (ready < bodies.size()) std::this_thread::yield();
    const double begin = NanosecondsOf(CLOCK_MONOTONIC);
    go = true;
    std::this_thread::sleep_for(
        std::chrono::nanoseconds(static_cast<int64_t>(effort.round_ns)));
    stop = true;
    for (std::thread& thread : threads) thread.join();
    const double seconds = (NanosecondsOf(CLOCK_MONOTONIC) - begin) / 1e9;
    rounds.push_back(static_cast<double>(calls) / seconds);
  }
  return Median(rounds);
}

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_BENCH_TIMING_H_
