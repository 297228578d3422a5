// SPDX-License-Identifier: Apache-2.0
#include "bench/kernel_variants.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "backends/gpu/pack.h"
#include "backends/gpu/rows_kernel.h"
#include "backends/gpu/turn_kernel.h"
#include "backends/tensor/tensor.h"

namespace bench {
namespace {

using devrt::gpu::FastApply;
using devrt::gpu::kThreads;
using devrt::gpu::ReduceArgs;
using devrt::gpu::ReduceTuning;
using devrt::tensor::Tensor;

const int64_t kBytes = bench::Bytes();

Tensor Copy(const View& view) {
  Tensor tensor;
  std::string error;
  if (!devrt::tensor::CopyTensor(view.Describe(), "tensor", &tensor, &error)) {
    std::fprintf(stderr, "%s\n", error.c_str());
    std::exit(1);
  }
  return tensor;
}

class Variants {
 public:
  Variants(const char* path, CUstream stream, const Timer& timer,
           const CUdeviceptr* blocks, double copy_rate)
      : stream_(stream), timer_(timer), blocks_(blocks), copy_(copy_rate) {
    std::ifstream file(path, std::ios::binary);
    std::string image((std::istreambuf_iterator<char>(file)),
                      std::istreambuf_iterator<char>());
    Raw(DRIVER(cuModuleLoadData)(&module_, image.data()));
    std::printf("variants of %s\n", path);
  }

  void Casts() {
    struct Of {
      const char* name;
      uint32_t from, to;
      int64_t from_size, to_size;
    };
    for (const Of& of :
         {Of{"float32_float16", DEVRT_FLOAT32, DEVRT_FLOAT16, 4, 2},
          Of{"float16_float32", DEVRT_FLOAT16, DEVRT_FLOAT32, 2, 4},
          Of{"float32_int32", DEVRT_FLOAT32, DEVRT_INT32, 4, 4},
          Of{"uint8_float32", DEVRT_UINT8, DEVRT_FLOAT32, 1, 4},
          Of{"float64_float32", DEVRT_FLOAT64, DEVRT_FLOAT32, 8, 4}}) {
      const int64_t count = kBytes / std::max(of.from_size, of.to_size);
      const FastApply fast =
          Choose(DEVRT_OP_COPY, Copy({Block(2), of.to, {count}, {}}),
                 {Copy({Block(0), of.from, {count}, {}})});
      Begin(std::string("cast ") + of.name);
      for (const unsigned packs : {1u, 2u, 4u}) {
        const unsigned per_block = packs * kThreads;
        Try(std::string("cast_") + of.name + "_" + std::to_string(packs),
            static_cast<double>(count * (of.from_size + of.to_size)),
            (fast.rows.units + per_block - 1) / per_block, &fast.rows);
      }
      End();
    }
  }

  void Tiles() {
    struct Of {
      uint32_t dtype;
      int64_t item;
    };
    // Kernels for rows of the output that begin anywhere take others as well.
    struct Shape {
      const char* rows;
      uint32_t y;
      const char* blocks;
    };
    for (const Of& of : {Of{DEVRT_UINT8, 1}, Of{DEVRT_FLOAT16, 2},
                         Of{DEVRT_FLOAT32, 4}, Of{DEVRT_FLOAT64, 8}}) {
      const auto item = static_cast<uint32_t>(of.item);
      const uint32_t word = std::max(item, 4u);
      for (const int odd : {0, 1, 2, 3}) {
        const FastApply fast = Turned(of.dtype, of.item, odd);
        const std::string number = std::to_string(item) + "_";
        for (const uint32_t side : {32u, 64u}) {
          TryTiles("tile_" + number + std::to_string(side), fast, side, side,
                   0);
        }
        for (const Shape& s :
             {Shape{"kWhole", 64, "4"}, Shape{"kAny", 64, "4"},
              Shape{"kAny", 72, "4"}, Shape{"kAny", 72, "5"},
              Shape{"kAny", 104, "4"}, Shape{"kAny", 128, "4"}}) {
          const bool is_any = s.rows[1] == 'A';
          if (!is_any && (odd & 2) != 0) continue;
          const uint32_t lead = is_any ? devrt::gpu::kTurnLead / item : 0;
          TryTiles("turn_" + number + "32_" + std::to_string(s.y) + "_" +
                       s.rows + "_" + s.blocks,
                   fast, 32 * word / item, s.y * word / item - lead, lead);
        }
        End();
      }
    }
  }

  void Bytes() {
    for (const uint32_t dtype : {DEVRT_INT8, DEVRT_INT16}) {
      const int64_t item = dtype == DEVRT_INT8 ? 1 : 2, count = kBytes / item;
      const FastApply fast =
          Choose(DEVRT_OP_ADD, Copy({Block(2), dtype, {count}, {}}),
                 {Copy({Block(0), dtype, {count}, {}}),
                  Copy({Block(1), dtype, {count}, {}})});
      Begin("add of integers of bytes: " + std::to_string(item));
      for (const unsigned packs : {1u, 2u, 4u}) {
        const unsigned per_block = packs * kThreads;
        Try("bytes_" + std::to_string(packs), 3 * kBytes,
            (fast.rows.units + per_block - 1) / per_block, &fast.rows);
      }
      End();
    }
  }

  // Columns from the second on, of rows that are longer by 64.
  void Windows() {
    for (const int64_t item : {1, 2, 4, 8}) {
      for (const int64_t columns : {8192, 8191}) {
        const int64_t rows = kBytes / item / columns;
        Begin("window of elements of bytes: " + std::to_string(item) + ", " +
              std::to_string(columns) + " wide");
        devrt::gpu::RowsArgs args = {};
        args.op = DEVRT_OP_COPY;
        args.axes = 2;
        args.units = static_cast<uint32_t>(columns * item);
        args.data[0] = Block(2);
        args.data[1] = static_cast<char*>(Block(0)) + item;
        args.strides[1][0] = columns * item;
        args.strides[1][1] = (columns + 64) * item;
        const double bytes = 2.0 * static_cast<double>(rows * columns * item);
        struct Of {
          const char* name;
          uint32_t size, words;
        };
        for (const Of& of :
             {Of{"shift_4_4_1", 4, 4}, Of{"shift_4_8_1", 4, 8},
              Of{"shift_8_2_1", 8, 2}, Of{"shift_8_4_1", 8, 4},
              Of{"shift_8_4_6", 8, 4}, Of{"shift_8_4_8", 8, 4}}) {
          const uint32_t segment = of.size * of.words * kThreads;
          const uint32_t segments =
              (args.units + of.size - 1 + segment - 1) / segment;
          args.extents[0] = devrt::gpu::Divisor::Of(segments);
          Try(of.name, bytes, segments * static_cast<uint32_t>(rows), &args);
        }
        const uint32_t dtype = DEVRT_DTYPE(1, static_cast<uint32_t>(item) * 8);
        const FastApply fast =
            Choose(DEVRT_OP_COPY, Copy({Block(2), dtype, {rows, columns}, {}}),
                   {Copy({args.data[1],
                          dtype,
                          {rows, columns},
                          {(columns + 64) * item, item}})});
        if (fast.path == FastApply::Path::kRows) {
          Try("copy_" + std::to_string((fast.kernel & 0xff) / 8), bytes,
              fast.blocks, &fast.rows);
        }
        End();
      }
    }
  }

  void Reductions() {
    struct Of {
      const char* name;
      uint32_t dtype, sum;
      int64_t item;
    };
    for (const Of& of : {Of{"float32", DEVRT_FLOAT32, DEVRT_FLOAT32, 4},
                         Of{"float16", DEVRT_FLOAT16, DEVRT_FLOAT16, 2},
                         Of{"int32", DEVRT_INT32, DEVRT_INT64, 4},
                         Of{"int8", DEVRT_INT8, DEVRT_INT64, 1}}) {
      for (const int64_t columns : {8192, 1024, 64}) {
        Columns(of.name, of.dtype, of.sum, kBytes / of.item / columns, columns);
      }
      const std::string name = of.name;
      Begin("sum of all " + name);
      for (const uint64_t blocks : {264u, 396u, 528u, 660u, 1056u}) {
        ReduceTuning tuning;
        tuning.adjacent_blocks = blocks;
        tuning.adjacent_float_blocks = blocks;
        Reduce("adjacent_" + name, std::to_string(blocks) + " blocks",
               Copy({Block(2), of.sum, {1}, {}}),
               Copy({Block(0), of.dtype, {kBytes / of.item}, {}}), 1, tuning);
      }
      End();
      Begin("sum of rows of 8192 of " + name);
      const int64_t rows = kBytes / of.item / 8192;
      for (const uint64_t bytes : {64u, 128u, 256u}) {
        ReduceTuning tuning;
        tuning.lane_bytes = bytes;
        Reduce("adjacent_" + name, std::to_string(bytes) + " a lane",
               Copy({Block(2), of.sum, {rows, 1}, {}}),
               Copy({Block(0), of.dtype, {rows, 8192}, {}}), 2, tuning);
      }
      End();
    }
  }

  void Read() {
    Begin("read");
    const CUdeviceptr from = blocks_[0], out = blocks_[2];
    const uint64_t words = kBytes / 16;
    for (const unsigned blocks : {264u, 528u, 1056u, 2112u, 16384u}) {
      const void* arguments[] = {&from, &words, &out};
      Try("read", kBytes, blocks, arguments, std::to_string(blocks));
    }
    End();
  }

 private:
  void* Block(int i) const { return reinterpret_cast<void*>(blocks_[i]); }

  static FastApply Choose(uint32_t op, const Tensor& out,
                          const std::vector<Tensor>& inputs) {
    FastApply fast;
    devrt::gpu::ApplyArgs args;
    uint32_t kernel = 0;
    (void)devrt::gpu::PackApply(op, out, inputs, &fast, &args, &kernel);
    return fast;
  }

  // The copy of a transpose with odd rows (bit 0) and columns (bit 1).
  FastApply Turned(uint32_t dtype, int64_t item, int odd) {
    const int64_t columns = 8192 - (odd >> 1);
    const int64_t rows = kBytes / item / 8192 - (odd & 1);
    bytes_ = static_cast<double>(2 * rows * columns * item);
    Begin("transpose of " + std::to_string(item) + " bytes, " +
          std::to_string(rows) + " x " + std::to_string(columns));
    return Choose(
        DEVRT_OP_COPY, Copy({Block(2), dtype, {rows, columns}, {}}),
        {Copy({Block(0), dtype, {rows, columns}, {item, item * rows}})});
  }
  void TryTiles(const std::string& name, const FastApply& fast, uint32_t side_x,
                uint32_t side_y, uint32_t lead) {
    auto args = fast.tiles;
    const uint32_t x = (args.extent_x + side_x - 1) / side_x;
    const uint32_t y = (args.extent_y + lead + side_y - 1) / side_y;
    args.tiles_x = devrt::gpu::Divisor::Of(x);
    args.tiles_y = devrt::gpu::Divisor::Of(y);
    args.tiles = x * y;
    Try(name, bytes_, args.tiles, &args);
  }

  CUfunction Find(const std::string& name) const {
    CUfunction function = nullptr;
    (void)DRIVER(cuModuleGetFunction)(&function, module_, name.c_str());
    return function;
  }

  void Begin(const std::string& group) {
    std::printf("%s\n", group.c_str());
    best_ = 0;
  }
  void End() {
    std::printf("  best: %s, %.0f GB/s\n", best_name_.c_str(), best_ * 1e-9);
    std::fflush(stdout);
  }
  void Report(const std::string& name, double bytes, double seconds) {
    const double rate = bytes / seconds;
    std::printf("  %-40s %8.1f us %7.0f GB/s %5.1f %%\n", name.c_str(),
                seconds * 1e6, rate * 1e-9, 100 * rate / copy_);
    if (rate <= best_) return;
    best_ = rate;
    best_name_ = name;
  }

  void Launch(CUfunction function, unsigned blocks, unsigned threads,
              void** arguments) const {
    static const auto launch = DRIVER(cuLaunchKernel);
    Raw(launch(function, blocks, 1, 1, threads, 1, 1, 0, stream_, arguments,
               nullptr));
  }

  void Try(const std::string& name, double bytes, unsigned blocks,
           const void* const* arguments, const std::string& more) {
    const CUfunction function = Find(name);
    if (function == nullptr) return;
    Report(name + (more.empty() ? "" : ", " + more), bytes, timer_.Median([&] {
      Launch(function, blocks, kThreads, const_cast<void**>(arguments));
    }));
  }
  void Try(const std::string& name, double bytes, unsigned blocks,
           const void* argument) {
    Try(name, bytes, blocks, &argument, "");
  }

  void Reduce(const std::string& name, const std::string& more,
              const Tensor& out, const Tensor& in, uint32_t axes,
              const ReduceTuning& tuning) {
    const CUfunction function = Find(name), claim = Find("claim");
    if (function == nullptr) return;
    ReduceArgs args;
    const unsigned blocks =
        devrt::gpu::PackReduce(DEVRT_REDUCE_SUM, out, in, axes, &args, tuning);
    args.ticket = 7;
    void* arguments[] = {&args};
    void* ticket[] = {&args.ticket};
    Report(name + ", " + more + ", parts " + std::to_string(args.parts), kBytes,
           timer_.Median([&] {
             if (args.parts > 1) Launch(claim, 1, 1, ticket);
             Launch(function, blocks, kThreads, arguments);
           }));
  }

  void Columns(const std::string& name, uint32_t dtype, uint32_t sum,
               int64_t rows, int64_t columns) {
    Begin("sum over columns of " + name + ", " + std::to_string(columns) +
          " wide");
    for (const uint64_t across : {128u, 256u, 512u}) {
      for (const uint64_t blocks : {264u, 528u}) {
        ReduceTuning tuning;
        tuning.across = across;
        tuning.columns_blocks = blocks;
        Reduce("columns_" + name,
               "across " + std::to_string(across) + ", blocks " +
                   std::to_string(blocks),
               Copy({Block(2), sum, {1, columns}, {}}),
               Copy({Block(0), dtype, {rows, columns}, {}}), 1, tuning);
      }
    }
    End();
  }

  const CUstream stream_;
  const Timer& timer_;
  const CUdeviceptr* const blocks_;
  const double copy_;
  CUmodule module_ = nullptr;
  double bytes_ = 0;  // of the transposes that are tried
  double best_ = 0;
  std::string best_name_;
};

}  // namespace

void RunVariants(const char* path, CUstream stream, const Timer& timer,
                 const CUdeviceptr* blocks, double copy_rate) {
  Variants variants(path, stream, timer, blocks, copy_rate);
  variants.Read();
  variants.Bytes();
  variants.Windows();
  variants.Tiles();
  variants.Casts();
  variants.Reductions();
}

}  // namespace bench
