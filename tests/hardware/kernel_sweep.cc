// SPDX-License-Identifier: Apache-2.0
//
//   kernel_sweep PLUGIN.so
//
// Launches the plugin's elementwise and reduction kernels, and its probes, for
// every dtype on aligned and misaligned, contiguous and strided tensors, and
// waits for each: what compute-sanitizer watches.  It looks at no result, which
// is the conformance suite's to do; that forks, and cannot be watched.
//
// Exit code 0: no call failed; 77: there is no device.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_probe.h"
#include "devrt/backends/abi/devrt_tensor.h"
#include "tests/support/fake_host.h"

namespace {

using devrt::test::OwnedStatus;

constexpr int kNothingThere = 77;
constexpr uint64_t kBytes = 1 << 20;

void Must(devrt_status given, const std::string& what) {
  const OwnedStatus status(given);
  if (status.ok()) return;
  std::printf("%s: %s\n", what.c_str(), status.text().c_str());
  std::exit(status.code() == DEVRT_UNAVAILABLE ? kNothingThere : 1);
}

struct Dtype {
  uint32_t number;
  int64_t size;
};
constexpr Dtype kDtypes[] = {
    {DEVRT_BOOL, 1},       {DEVRT_INT8, 1},      {DEVRT_INT16, 2},
    {DEVRT_INT32, 4},      {DEVRT_INT64, 8},     {DEVRT_UINT8, 1},
    {DEVRT_UINT16, 2},     {DEVRT_UINT32, 4},    {DEVRT_UINT64, 8},
    {DEVRT_FLOAT16, 2},    {DEVRT_BFLOAT16, 2},  {DEVRT_FLOAT32, 4},
    {DEVRT_FLOAT64, 8},    {DEVRT_COMPLEX64, 8}, {DEVRT_COMPLEX128, 16},
    {DEVRT_FLOAT8_E5M2, 1}};

struct Layout {
  int64_t count;
  int64_t offset;  // of the first element, in bytes
  int64_t step;    // between elements, in sizes of one
  int64_t odd;     // and in bytes
};
constexpr Layout kLayouts[] = {{1, 0, 1, 0},    {33, 0, 1, 0},  {33, 1, 1, 0},
                               {200, 4, 3, 0},  {200, 2, 1, 1}, {7, 8, 2, 0},
                               {20000, 0, 1, 0}};

class Sweep {
 public:
  explicit Sweep(const devrt_backend_v0& backend) : b_(backend) {
    for (char*& block : blocks_) {
      void* memory = nullptr;
      Must(b_.ops->alloc(b_.self, 0, kBytes, 256, &memory), "alloc");
      block = static_cast<char*>(memory);
    }
    devrt_stream_desc_v0 desc = {};
    desc.struct_size = sizeof desc;
    desc.kind = DEVRT_STREAM_CREATE;
    Must(b_.ops->stream_create(b_.self, 0, &desc, &stream_), "stream");
    for (char* const block : blocks_) {
      Must(b_.ops->fill_async(b_.self, stream_, block, 1, kBytes), "fill");
    }
  }

  ~Sweep() {
    Must(b_.ops->stream_destroy(b_.self, stream_), "stream destruction");
    for (char* const block : blocks_) {
      Must(b_.ops->dealloc(b_.self, 0, block, kBytes), "dealloc");
    }
    b_.ops->shutdown(b_.self);
  }
  Sweep(const Sweep&) = delete;

  template <typename Table>
  const Table* Find(const char* name) const {
    const void* const found = b_.ops->get_extension(b_.self, name);
    if (found == nullptr) std::printf("there is no %s\n", name);
    return static_cast<const Table*>(found);
  }

  void Elementwise() {
    const auto* const table =
        Find<devrt_elementwise_v0>(DEVRT_ELEMENTWISE_EXTENSION);
    if (table == nullptr) return;
    for (const Layout& layout : kLayouts) {
      for (const Dtype& dtype : kDtypes) {
        Tensor a(blocks_[0], dtype, layout), b(blocks_[1], dtype, layout);
        Tensor out(blocks_[2], dtype, layout);
        const uint8_t value[16] = {1};
        Done(table->fill(b_.self, stream_, &out.tensor, value), "fill");
        for (const Dtype& to : kDtypes) {
          Tensor converted(blocks_[2], to, layout);
          Done(table->apply(b_.self, stream_, DEVRT_OP_COPY, &converted.tensor,
                            &a.tensor, 1),
               "copy");
        }
        if (dtype.number == DEVRT_BOOL || dtype.number == DEVRT_FLOAT8_E5M2) {
          continue;
        }
        Tensor truth(blocks_[2], {DEVRT_BOOL, 1}, layout);
        const devrt_tensor_v0 both[] = {a.tensor, b.tensor};
        Done(table->apply(b_.self, stream_, DEVRT_OP_NEG, &out.tensor, both, 1),
             "negation");
        Done(table->apply(b_.self, stream_, DEVRT_OP_ADD, &out.tensor, both, 2),
             "sum");
        Done(
            table->apply(b_.self, stream_, DEVRT_OP_EQ, &truth.tensor, both, 2),
            "comparison");
      }
    }
  }

  void Reductions() {
    const auto* const table = Find<devrt_reduce_v0>(DEVRT_REDUCE_EXTENSION);
    if (table == nullptr) return;
    for (const Layout& layout : kLayouts) {
      for (const Dtype& dtype : kDtypes) {
        if (dtype.number == DEVRT_BOOL || dtype.number == DEVRT_FLOAT8_E5M2) {
          continue;
        }
        Tensor in(blocks_[0], dtype, layout);
        Tensor out(blocks_[2], dtype, {1, layout.offset, 1, 0});
        Done(table->reduce(b_.self, stream_, DEVRT_REDUCE_SUM, &out.tensor,
                           &in.tensor, 1),
             "reduction");
      }
    }
  }

  void Probes() {
    const auto* const table = Find<devrt_probe_v0>(DEVRT_PROBE_EXTENSION);
    if (table == nullptr) return;
    devrt_flag flag = nullptr;
    Must(table->flag_create(b_.self, 0, &flag), "flag");
    Done(table->spin(b_.self, stream_, 1000), "spin");
    Done(table->flag_set_async(b_.self, stream_, flag, 1), "set");
    Done(table->flag_wait(b_.self, stream_, flag, 0), "wait");
    Must(table->flag_destroy(b_.self, flag), "flag destruction");
  }

  int launches() const { return launches_; }

 private:
  struct Tensor {
    Tensor(char* block, const Dtype& dtype, const Layout& layout)
        : count(layout.count),
          stride(dtype.size * layout.step + layout.odd),
          tensor{block + layout.offset, &count, &stride, 1, dtype.number} {}
    int64_t count, stride;
    devrt_tensor_v0 tensor;
  };

  // UNIMPLEMENTED and INVALID_ARGUMENT say that there is no such kernel.
  void Done(devrt_status given, const char* what) {
    OwnedStatus status(given);
    if (status.code() == DEVRT_UNIMPLEMENTED ||
        status.code() == DEVRT_INVALID_ARGUMENT) {
      return;
    }
    if (!status.ok()) {
      std::printf("%s: %s\n", what, status.text().c_str());
      std::exit(1);
    }
    Must(b_.ops->stream_sync(b_.self, stream_), what);
    ++launches_;
  }

  const devrt_backend_v0& b_;
  devrt_stream stream_ = nullptr;
  char* blocks_[3] = {};
  int launches_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::printf("usage: kernel_sweep PLUGIN.so\n");
    return 2;
  }
  void* const library = dlopen(argv[1], RTLD_NOW);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  const auto open = reinterpret_cast<decltype(&devrt_plugin_open_v0)>(
      dlsym(library, "devrt_plugin_open_v0"));
  static auto* const host = new devrt::test::FakeHost();
  devrt_backend_v0 backend = {};
  backend.struct_size = sizeof backend;
  Must(open(host->table(), &backend), "open");
  Sweep sweep(backend);
  sweep.Elementwise();
  sweep.Reductions();
  sweep.Probes();
  std::printf("%d launches\n", sweep.launches());
  return sweep.launches() > 0 ? 0 : 1;
}
