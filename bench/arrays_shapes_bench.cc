// SPDX-License-Identifier: Apache-2.0
//
// Operations on arrays by dtype and shape: sums over each axis, of long, short
// and odd rows, and copies and additions that move small elements or begin
// anywhere.  peers/arrays_peers.py has rows of these names for other libraries,
// and arrays_gpu_bench.cc the rows of single operations.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/arrays_support.h"
#include "bench/bench_support.h"
#include "devrt/devrt.h"

namespace {

using bench::ArrayBytes;
using bench::Check;
using bench::NewArray;
using bench::OnStream;
using bench::Value;
using devrt::Array;
using devrt::DType;

struct Named {
  const char* name;
  DType dtype;
  int64_t size;
};
const Named kDTypes[] = {{"float32", devrt::kFloat32, 4},
                         {"float16", devrt::kFloat16, 2},
                         {"int32", devrt::kInt32, 4},
                         {"int8", devrt::kInt8, 1},
                         {"float64", devrt::kFloat64, 8}};

template <typename Row>
void Register(const std::string& name, const Row& row) {
  benchmark::RegisterBenchmark(name.c_str(), row)
      ->Iterations(10)
      ->UseManualTime();
}

int64_t RowsOf(int64_t columns, int64_t size) {
  return std::max<int64_t>(ArrayBytes() / size / columns, 1);
}

void Sum(benchmark::State& state, const Named& of, int64_t columns,
         const std::vector<int>& axes) {
  const OnStream on;
  const Array x =
      NewArray({RowsOf(columns, of.size), columns}, of.dtype, on.device);
  devrt::ReduceOptions options;
  options.axes = axes;
  on.TimeDevice(state, static_cast<double>(x.nbytes()),
                [&] { Value(devrt::Sum(x, options)); });
}

void Add(benchmark::State& state, const Named& of) {
  const OnStream on;
  const Array a = NewArray({ArrayBytes() / of.size}, of.dtype, on.device);
  const Array b = NewArray({ArrayBytes() / of.size}, of.dtype, on.device);
  const Array out = NewArray({ArrayBytes() / of.size}, of.dtype, on.device);
  on.TimeDevice(state, 3 * static_cast<double>(out.nbytes()),
                [&] { Check(devrt::AddInto(out, a, b)); });
}

void Copy(benchmark::State& state, const OnStream& on, const Array& to,
          const Array& from) {
  on.TimeDevice(state, 2 * static_cast<double>(to.nbytes()),
                [&] { Check(devrt::CopyArray(to, from)); });
}

void Transpose(benchmark::State& state, const Named& of, int64_t columns) {
  const OnStream on;
  const int64_t rows = RowsOf(columns, of.size) | (columns & 1);
  Copy(state, on, NewArray({rows, columns}, of.dtype, on.device),
       NewArray({columns, rows}, of.dtype, on.device).Transpose());
}

// Columns from the second on, of rows that are longer by `more`.
void Window(benchmark::State& state, const Named& of, int64_t columns,
            int64_t more) {
  const OnStream on;
  const int64_t rows = RowsOf(columns, of.size);
  const Array whole = NewArray({rows, columns + more}, of.dtype, on.device);
  Copy(state, on, NewArray({rows, columns}, of.dtype, on.device),
       Value(whole.SliceAxis(1, {1, 1 + columns})));
}

bool RegisterAll() {
  for (const Named& of : kDTypes) {
    const std::string sum = std::string("Sum_") + of.name;
    const auto add_sum = [&](const std::string& name, int64_t columns,
                             const std::vector<int>& axes) {
      Register(sum + name, [&of, columns, axes](benchmark::State& state) {
        Sum(state, of, columns, axes);
      });
    };
    add_sum("_all", 8192, {0, 1});
    for (const int64_t columns : {8192, 8191, 1024, 64, 63}) {
      const std::string wide = "_" + std::to_string(columns);
      add_sum("_rows" + wide, columns, {0});
      add_sum("_columns" + wide, columns, {1});
    }
    Register(std::string("Add_") + of.name,
             [&of](benchmark::State& state) { Add(state, of); });
    for (const int64_t columns : {8192, 8191}) {
      const std::string name =
          std::string(of.name) + "_" + std::to_string(columns);
      Register("Transpose_" + name, [&of, columns](benchmark::State& state) {
        Transpose(state, of, columns);
      });
      Register("Window_" + name, [&of, columns](benchmark::State& state) {
        Window(state, of, columns, 64);
      });
    }
  }
  return true;
}
[[maybe_unused]] const bool kRegistered = RegisterAll();

}  // namespace
