// SPDX-License-Identifier: Apache-2.0
//
// A fixed number of iterations, for benchmarks whose instructions are counted.

#ifndef DEVRT_BENCH_COUNTED_H_
#define DEVRT_BENCH_COUNTED_H_

#include <benchmark/benchmark.h>

#include <cstdlib>

namespace bench {

// For BENCHMARK(...)->Apply: DEVRT_BENCH_ITERATIONS sets the number of
// iterations. scripts/instruction-counts subtracts two runs that differ in this
// number alone.
inline void Counted(benchmark::internal::Benchmark* of) {
  const char* const iterations = std::getenv("DEVRT_BENCH_ITERATIONS");
  if (iterations != nullptr) of->Iterations(std::atoll(iterations));
}

}  // namespace bench

#endif  // DEVRT_BENCH_COUNTED_H_
