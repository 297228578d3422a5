// SPDX-License-Identifier: Apache-2.0
//
//   kernels_bench PLUGIN.so [VARIANTS.fatbin...]
//
// What the plugin's elementwise operations and reductions reach on tensors of
// 256 MiB, beside a copy by the driver, and what a launch costs the host.  With
// variants also which of those (kernel_variants.cu) is the fastest for some.
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "bench/kernel_variants.h"
#include "bench/kernels_support.h"

namespace {

using bench::Plugin;
using bench::Raw;
using bench::Timer;
using bench::View;

const int64_t kBytes = bench::Bytes();
const int64_t kRoom = 2 * kBytes + (1 << 20);

int64_t SizeOf(uint32_t dtype) { return (dtype & 0xff) / 8; }

class Bench {
 public:
  explicit Bench(const char* plugin) : plugin_(plugin) {
    for (CUdeviceptr& block : blocks_) {
      Raw(DRIVER(cuMemAlloc)(&block, kRoom));
      Raw(DRIVER(cuMemsetD8Async)(block, 0x3c, kRoom, plugin_.stream));
    }
    timer_ = std::make_unique<Timer>(plugin_.stream, blocks_[3],
                                     blocks_[3] + kBytes, kBytes / 2);
  }

  void Run(const std::vector<const char*>& variants) {
    const double copy = timer_->Median([&] {
      Raw(DRIVER(cuMemcpyDtoDAsync)(blocks_[0], blocks_[1], kBytes,
                                    plugin_.stream));
    });
    copy_rate_ = 2 * kBytes / copy;
    Row("raw copy by the driver", static_cast<double>(2 * kBytes), copy);
    Elementwise();
    Casts();
    Reductions();
    HostCosts();
    for (const char* const path : variants) {
      bench::RunVariants(path, plugin_.stream, *timer_, blocks_, copy_rate_);
    }
  }

 private:
  void* Block(int i) const { return reinterpret_cast<void*>(blocks_[i]); }
  View Whole(int block, uint32_t dtype) const {
    return {Block(block), dtype, {kBytes / SizeOf(dtype)}, {}};
  }
  // kBytes in rows of `columns`.
  View Matrix(int block, uint32_t dtype, int64_t columns) const {
    return {
        Block(block), dtype, {kBytes / SizeOf(dtype) / columns, columns}, {}};
  }

  void Row(const char* name, double bytes, double seconds) const {
    const double rate = bytes / seconds;
    std::printf("%-44s %8.1f us %7.0f GB/s %5.1f %%\n", name, seconds * 1e6,
                rate * 1e-9, 100 * rate / copy_rate_);
    std::fflush(stdout);
  }

  void Time(const char* name, double bytes, uint32_t op, const View& out,
            const std::vector<View>& inputs) const {
    std::vector<devrt_tensor_v0> all;
    for (const View& input : inputs) all.push_back(input.Describe());
    const devrt_tensor_v0 to = out.Describe();
    Row(name, bytes, timer_->Median([&] {
      plugin_.Apply(op, to, all.data(), static_cast<uint32_t>(all.size()));
    }));
  }

  void Elementwise() const {
    const double all = kBytes;
    for (const uint32_t dtype : {DEVRT_FLOAT32, DEVRT_FLOAT64, DEVRT_FLOAT16,
                                 DEVRT_INT8, DEVRT_INT32}) {
      const std::string name =
          "add, contiguous, " + std::to_string(SizeOf(dtype)) + " bytes";
      Time(name.c_str(), 3 * all, DEVRT_OP_ADD, Whole(2, dtype),
           {Whole(0, dtype), Whole(1, dtype)});
    }
    const View out = Matrix(2, DEVRT_FLOAT32, 8192);
    View row = Matrix(1, DEVRT_FLOAT32, 8192), column = row, one = row;
    row.strides = {0, 4};
    column.strides = {4, 0};
    one.strides = {0, 0};
    const View in = Matrix(0, DEVRT_FLOAT32, 8192);
    Time("add of a row", 2 * all, DEVRT_OP_ADD, out, {in, row});
    Time("add of a column", 2 * all, DEVRT_OP_ADD, out, {in, column});
    Time("add of one number", 2 * all, DEVRT_OP_ADD, out, {in, one});
    View odd = Matrix(0, DEVRT_FLOAT32, 8191), odd_row = odd, odd_out = odd;
    odd_out.data = Block(2);
    odd_row.data = Block(1);
    odd_row.strides = {0, 4};
    Time("add of a row, 8191 columns", 2 * all, DEVRT_OP_ADD, odd_out,
         {odd, odd_row});
    Time("compare", 2.25 * all, DEVRT_OP_LT,
         {Block(2), DEVRT_BOOL, {kBytes / 4}, {}},
         {Whole(0, DEVRT_FLOAT32), Whole(1, DEVRT_FLOAT32)});
    Time("copy, contiguous", 2 * all, DEVRT_OP_COPY, Whole(2, DEVRT_FLOAT32),
         {Whole(0, DEVRT_FLOAT32)});
    Copies(all);
    const float value = 1;
    Row("fill", all,
        timer_->Median([&] { plugin_.Fill(Whole(2, DEVRT_FLOAT32), &value); }));
  }

  void Copies(double all) const {
    // Of every second column: whole lines are read.
    View even = Matrix(0, DEVRT_FLOAT32, 8192);
    even.strides = {8192 * 8, 8};
    Time("copy of [:, ::2], read lines counted", 3 * all, DEVRT_OP_COPY,
         Matrix(2, DEVRT_FLOAT32, 8192), {even});
    Time("copy of [:, ::2], elements counted", 2 * all, DEVRT_OP_COPY,
         Matrix(2, DEVRT_FLOAT32, 8192), {even});
    View window = Matrix(0, DEVRT_FLOAT32, 4096);
    window.strides = {6000 * 4, 4};
    Time("copy of a window", 2 * all, DEVRT_OP_COPY,
         Matrix(2, DEVRT_FLOAT32, 4096), {window});
    window.data = static_cast<char*>(window.data) + 4;
    Time("copy of a window, not at 16 bytes", 2 * all, DEVRT_OP_COPY,
         Matrix(2, DEVRT_FLOAT32, 4096), {window});
    for (const uint32_t dtype : {DEVRT_FLOAT32, DEVRT_FLOAT64, DEVRT_UINT8,
                                 DEVRT_FLOAT16, DEVRT_COMPLEX128}) {
      const View out = Matrix(2, dtype, 8192);
      View turned = out;
      turned.data = Block(0);
      turned.strides = {SizeOf(dtype), SizeOf(dtype) * out.shape[0]};
      const std::string name =
          "transpose copy, " + std::to_string(SizeOf(dtype)) + " bytes";
      Time(name.c_str(), 2 * all, DEVRT_OP_COPY, out, {turned});
    }
    const int64_t rows = kBytes / 16384 - 1;
    const View odd = {Block(2), DEVRT_UINT8, {rows, 16381}, {}};
    const View turned = {Block(0), DEVRT_UINT8, {rows, 16381}, {1, rows}};
    Time("transpose copy, 1 byte, odd extents",
         static_cast<double>(2 * rows * 16381), DEVRT_OP_COPY, odd, {turned});
    const View batch = {
        Block(2), DEVRT_FLOAT32, {kBytes >> 22, 1024, 1024}, {}};
    View swapped = batch;
    swapped.data = Block(0);
    swapped.strides = {1 << 22, 4, 4096};
    Time("transpose copy, 64 matrices", 2 * all, DEVRT_OP_COPY, batch,
         {swapped});
  }

  void Cast(const char* name, uint32_t from, uint32_t to) const {
    const int64_t count = kBytes / std::max(SizeOf(from), SizeOf(to));
    Time(name, static_cast<double>(count * (SizeOf(from) + SizeOf(to))),
         DEVRT_OP_COPY, {Block(2), to, {count}, {}},
         {{Block(0), from, {count}, {}}});
  }
  void Casts() const {
    Cast("cast float32 to float16", DEVRT_FLOAT32, DEVRT_FLOAT16);
    Cast("cast float16 to float32", DEVRT_FLOAT16, DEVRT_FLOAT32);
    Cast("cast float32 to int32", DEVRT_FLOAT32, DEVRT_INT32);
    Cast("cast uint8 to float32", DEVRT_UINT8, DEVRT_FLOAT32);
    Cast("cast float64 to float32", DEVRT_FLOAT64, DEVRT_FLOAT32);
    Cast("cast float32 to bfloat16", DEVRT_FLOAT32, DEVRT_BFLOAT16);
    Cast("cast float64 to float16", DEVRT_FLOAT64, DEVRT_FLOAT16);
    Cast("cast int64 to int8", DEVRT_INT64, DEVRT_INT8);
  }

  void Reductions() const {
    struct Of {
      const char* name;
      uint32_t dtype, sum;
    };
    for (const Of& of : {Of{"float32", DEVRT_FLOAT32, DEVRT_FLOAT32},
                         Of{"float16", DEVRT_FLOAT16, DEVRT_FLOAT16},
                         Of{"int32", DEVRT_INT32, DEVRT_INT64},
                         Of{"int8", DEVRT_INT8, DEVRT_INT64},
                         Of{"float64", DEVRT_FLOAT64, DEVRT_FLOAT64}}) {
      for (const int64_t columns : {8192, 8191, 1024, 64, 63}) {
        const View in = Matrix(0, of.dtype, columns);
        for (const uint32_t axes : {3u, 2u, 1u}) {
          if (axes == 3 && columns != 8192) continue;
          static const char* const kNames[] = {"", "columns", "rows", "all"};
          for (const bool is_max : {false, true}) {
            if (is_max && columns != 8192) continue;
            View out = {Block(2), is_max ? of.dtype : of.sum, in.shape, {}};
            if ((axes & 1) != 0) out.shape[0] = 1;
            if ((axes & 2) != 0) out.shape[1] = 1;
            const std::string name = std::string(is_max ? "max" : "sum") +
                                     " over " + kNames[axes] + ", " + of.name +
                                     ", " + std::to_string(columns) + " wide";
            const auto bytes =
                static_cast<double>(in.shape[0] * columns * SizeOf(of.dtype));
            Row(name.c_str(), bytes, timer_->Median([&] {
              plugin_.Reduce(is_max ? DEVRT_REDUCE_MAX : DEVRT_REDUCE_SUM, out,
                             in, axes);
            }));
          }
        }
      }
    }
  }

  // Per call: fewer in a row than the queue takes, and then many.
  template <typename Call>
  void HostCost(const char* name, const Call& call) const {
    using Clock = std::chrono::steady_clock;
    const auto once = [&](int count) {
      const auto begin = Clock::now();
      for (int i = 0; i < count; ++i) call();
      const std::chrono::duration<double, std::nano> time =
          Clock::now() - begin;
      Raw(DRIVER(cuStreamSynchronize)(plugin_.stream));
      return time.count() / count;
    };
    std::vector<double> few, many;
    for (int i = 0; i < 51; ++i) few.push_back(once(200));
    for (int i = 0; i < 7; ++i) many.push_back(once(20'000));
    std::sort(few.begin(), few.end());
    std::sort(many.begin(), many.end());
    std::printf("%-44s %8.0f ns, in a row of 20000 %8.0f ns\n", name, few[25],
                many[3]);
  }

  void HostCosts() const {
    std::printf("host cost of a launch, 1024 elements\n");
    static const char kPtx[] =
        ".version 8.0\n.target sm_70\n.address_size 64\n"
        ".visible .entry empty() { ret; }\n";
    CUmodule module = nullptr;
    CUfunction empty = nullptr;
    const auto launch = DRIVER(cuLaunchKernel);
    if (DRIVER(cuModuleLoadData)(&module, kPtx) == CUDA_SUCCESS) {
      Raw(DRIVER(cuModuleGetFunction)(&empty, module, "empty"));
      HostCost("  an empty kernel by the driver", [&] {
        launch(empty, 1, 1, 1, 1, 1, 1, 0, plugin_.stream, nullptr, nullptr);
      });
    }
    const View a = {Block(0), DEVRT_FLOAT32, {32, 32}, {}};
    View b = a, out = a;
    b.data = Block(1);
    out.data = Block(2);
    const devrt_tensor_v0 to = out.Describe();
    const devrt_tensor_v0 from[] = {a.Describe(), b.Describe()};
    HostCost("  add", [&] { plugin_.Apply(DEVRT_OP_ADD, to, from, 2); });
    HostCost("  copy", [&] { plugin_.Apply(DEVRT_OP_COPY, to, from, 1); });
    View turned = a;
    turned.strides = {4, 128};
    const devrt_tensor_v0 other = turned.Describe();
    HostCost("  transpose copy",
             [&] { plugin_.Apply(DEVRT_OP_COPY, to, &other, 1); });
    const float value = 2;
    HostCost("  fill", [&] { plugin_.Fill(out, &value); });
    View sum = out;
    sum.shape = {1, 1};
    HostCost("  sum", [&] { plugin_.Reduce(DEVRT_REDUCE_SUM, sum, a, 3); });
  }

  const Plugin plugin_;
  CUdeviceptr blocks_[4] = {};
  std::unique_ptr<Timer> timer_;
  double copy_rate_ = 1;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr,
                 "usage: kernels_bench PLUGIN.so [VARIANTS.fatbin...]\n");
    return 2;
  }
  Bench bench(argv[1]);
  bench.Run(std::vector<const char*>(argv + 2, argv + argc));
  return 0;
}
