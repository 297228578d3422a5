// SPDX-License-Identifier: Apache-2.0
//
// What kernels_bench times with: a plugin opened without the runtime, a stream
// of the driver's that it adopts, and events.

#ifndef DEVRT_BENCH_KERNELS_SUPPORT_H_
#define DEVRT_BENCH_KERNELS_SUPPORT_H_

#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/cuda_driver.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_tensor.h"
#include "tests/support/fake_host.h"

namespace bench {

// The size of the tensors of most rows: 256 MiB, or DEVRT_BENCH_MIB.
inline int64_t Bytes() {
  static const char* const given = std::getenv("DEVRT_BENCH_MIB");
  return int64_t{given != nullptr ? std::atoi(given) : 256} << 20;
}

inline void Must(devrt_status given) {
  const devrt::test::OwnedStatus status(given);
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.text().c_str());
  std::exit(1);
}

// A tensor's description, with its shape; strides in bytes.
struct View {
  void* data;
  uint32_t dtype;
  std::vector<int64_t> shape, strides;

  devrt_tensor_v0 Describe() const {
    return {data, shape.data(), strides.empty() ? nullptr : strides.data(),
            static_cast<uint32_t>(shape.size()), dtype};
  }
};

class Plugin {
 public:
  explicit Plugin(const char* path) : stream(RawStream()) {
    void* const library = dlopen(path, RTLD_NOW);
    if (library == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::exit(2);
    }
    static auto* const host = new devrt::test::FakeHost();
    backend_.struct_size = sizeof backend_;
    const auto open = reinterpret_cast<decltype(&devrt_plugin_open_v0)>(
        dlsym(library, "devrt_plugin_open_v0"));
    Must(open(host->table(), &backend_));
    devrt_stream_desc_v0 desc = {};
    desc.struct_size = sizeof desc;
    desc.kind = DEVRT_STREAM_ADOPT;
    desc.native = stream;
    Must(backend_.ops->stream_create(backend_.self, 0, &desc, &handle_));
    elementwise_ = Find<devrt_elementwise_v0>(DEVRT_ELEMENTWISE_EXTENSION);
    reduce_ = Find<devrt_reduce_v0>(DEVRT_REDUCE_EXTENSION);
    Raw(DRIVER(cuCtxSetCurrent)(Context(0)));
  }

  void Apply(uint32_t op, const devrt_tensor_v0& out,
             const devrt_tensor_v0* inputs, uint32_t count) const {
    Must(elementwise_->apply(backend_.self, handle_, op, &out, inputs, count));
  }
  void Fill(const View& out, const void* value) const {
    const devrt_tensor_v0 to = out.Describe();
    Must(elementwise_->fill(backend_.self, handle_, &to, value));
  }
  void Reduce(uint32_t op, const View& out, const View& in,
              uint32_t axes) const {
    const devrt_tensor_v0 to = out.Describe(), from = in.Describe();
    Must(reduce_->reduce(backend_.self, handle_, op, &to, &from, axes));
  }

  const CUstream stream;

 private:
  template <typename Table>
  const Table* Find(const char* name) const {
    const void* const found = backend_.ops->get_extension(backend_.self, name);
    if (found == nullptr) {
      std::fprintf(stderr, "the plugin has no %s\n", name);
      std::exit(2);
    }
    return static_cast<const Table*>(found);
  }

  devrt_backend_v0 backend_ = {};
  devrt_stream handle_ = nullptr;
  const devrt_elementwise_v0* elementwise_ = nullptr;
  const devrt_reduce_v0* reduce_ = nullptr;
};

// Device time of what `call` submits, in seconds: the median of some runs of
// several calls in a row, each run behind a copy that takes longer than its
// submission.
class Timer {
 public:
  Timer(CUstream stream, CUdeviceptr a, CUdeviceptr b, size_t bytes)
      : stream_(stream), a_(a), b_(b), bytes_(bytes) {
    Raw(DRIVER(cuEventCreate)(&begin_, CU_EVENT_DEFAULT));
    Raw(DRIVER(cuEventCreate)(&end_, CU_EVENT_DEFAULT));
  }

  template <typename Call>
  double Median(const Call& call) const {
    static const auto record = DRIVER(cuEventRecord);
    static const auto copy = DRIVER(cuMemcpyDtoDAsync);
    std::vector<double> times;
    for (int i = 0; i < kWarm + kRuns; ++i) {
      Raw(copy(a_, b_, bytes_, stream_));
      Raw(record(begin_, stream_));
      for (int k = 0; k < kInARow; ++k) call();
      Raw(record(end_, stream_));
      Raw(DRIVER(cuEventSynchronize)(end_));
      float milliseconds = 0;
      Raw(DRIVER(cuEventElapsedTime)(&milliseconds, begin_, end_));
      if (i >= kWarm) times.push_back(milliseconds * 1e-3 / kInARow);
    }
    std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
    return times[kRuns / 2];
  }

 private:
  static constexpr int kWarm = 2, kRuns = 11, kInARow = 8;
  const CUstream stream_;
  const CUdeviceptr a_, b_;
  const size_t bytes_;
  CUevent begin_ = nullptr, end_ = nullptr;
};

}  // namespace bench

#endif  // DEVRT_BENCH_KERNELS_SUPPORT_H_
