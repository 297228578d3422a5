// SPDX-License-Identifier: Apache-2.0
//
// Kernels<Api>: loads devrt's own kernels on each device at their first use,
// and launches them.
//
// Threads: every member from any thread.  While a device's kernels are loaded,
// its lock of kernels is held over native calls that wait.

#ifndef DEVRT_BACKENDS_GPU_KERNELS_H_
#define DEVRT_BACKENDS_GPU_KERNELS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "backends/gpu/context_scope.h"
#include "backends/gpu/device.h"
#include "backends/gpu/fast_paths.h"
#include "backends/gpu/kernel_image.h"
#include "backends/gpu/objects.h"
#include "backends/gpu/relaxed_thread.h"
#include "backends/gpu/submit.h"
#include "backends/tensor/tensor.h"

namespace devrt::gpu {

template <class Api>
class Kernels {
 public:
  using Error = typename Api::Error;
  using Context = typename Api::Context;
  using Device = gpu::Device<Api>;
  using Stream = gpu::Stream<Api>;
  using Function = typename Api::Function;

  explicit Kernels(Devices<Api>* devices)
      : driver_(devices->driver()), api_(driver_.api()), devices_(*devices) {}
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  // Returns true if the plugin was built with kernels.
  static bool HasKernels() { return kProbeImage.data != nullptr; }

  // Loads the device's tensor kernels, and launches each once.
  devrt_status LoadTensors(Device* device);

  // Loads all of the device's kernels, before the first can hold a stream. A
  // kernel that is loaded lazily, or that wants more local memory than was ever
  // needed, starts only when all running kernels have ended (F40).
  devrt_status LoadAll(Device* device);

  devrt_status Launch(Stream* stream, Function function, unsigned blocks,
                      unsigned threads, void** arguments);

 private:
  template <typename Load>
  devrt_status LoadOnce(Device* device, std::atomic<bool>* is_loaded,
                        const Load& load);
  template <typename Call>
  Error TryOut(const Call& call);
  Error LoadProbeImage(Device* device);
  Error LoadTensorImages(Device* device);
  Error TryTensorKernels(Device* device);

  Driver<Api>& driver_;
  const Api& api_;
  Devices<Api>& devices_;
};

// Calls load() in the device's context.  Tries again at each call until it
// succeeds.
template <class Api>
template <typename Load>
devrt_status Kernels<Api>::LoadOnce(Device* device,
                                    std::atomic<bool>* is_loaded,
                                    const Load& load) {
  if (is_loaded->load(std::memory_order_acquire)) return nullptr;
  Context context{};
  if (devrt_status error = devices_.Enter(device, &context)) return error;
  const std::lock_guard<std::mutex> lock(device->kernels.mutex);
  if (is_loaded->load(std::memory_order_relaxed)) return nullptr;
  const RelaxedThread<Api> relaxed(api_);
  const ContextScope<Api> scope(api_, context);
  Error error = scope.error();
  if (error == Api::kSuccess) error = load();
  if (error != Api::kSuccess) {
    return driver_.ToStatus(error, "kernel loading", device);
  }
  is_loaded->store(true, std::memory_order_release);
  return nullptr;
}

template <class Api>
devrt_status Kernels<Api>::LoadAll(Device* device) {
  if (devrt_status error = LoadTensors(device)) return error;
  return LoadOnce(device, &device->kernels.has_probe,
                  [&] { return LoadProbeImage(device); });
}

template <class Api>
devrt_status Kernels<Api>::LoadTensors(Device* device) {
  return LoadOnce(device, &device->kernels.has_tensors,
                  [&] { return LoadTensorImages(device); });
}

// Calls call(stream) with a new stream, and waits for the stream.
template <class Api>
template <typename Call>
typename Api::Error Kernels<Api>::TryOut(const Call& call) {
  typename Api::Stream stream{};
  Error error = api_.CreateStream(false, 0, &stream);
  if (error != Api::kSuccess) return error;
  error = call(stream);
  if (error == Api::kSuccess) error = api_.SynchronizeStream(stream);
  (void)api_.DestroyStream(stream);
  return error;
}

template <class Api>
typename Api::Error Kernels<Api>::LoadProbeImage(Device* device) {
  typename Api::Module module{};
  Error error = api_.LoadModule(kProbeImage.data, &module);
  const auto load = [&](const char* name, typename Api::Function* function) {
    if (error == Api::kSuccess) {
      error = api_.LoadFunction(module, name, function);
    }
  };
  auto& probe = device->kernels.probe;
  load("devrt_spin", &probe.spin);
  load("devrt_wait", &probe.wait);
  load("devrt_set", &probe.set);
  load("devrt_fault", &probe.fault);
  if (error != Api::kSuccess) return error;
  return TryOut([&](typename Api::Stream stream) {
    uint64_t none = 1;
    void* arguments[] = {&none};
    return api_.Launch(probe.spin, 1, 1, stream, arguments);
  });
}

template <class Api>
typename Api::Error Kernels<Api>::LoadTensorImages(Device* device) {
  typename Api::Module elementwise{}, rows{}, cast{}, reduce{}, columns{},
      adjacent{};
  Error error = Api::kSuccess;
  const auto open = [&](const KernelImage& image,
                        typename Api::Module* module) {
    if (error == Api::kSuccess) error = api_.LoadModule(image.data, module);
  };
  open(kElementwiseImage, &elementwise);
  open(kRowsImage, &rows);
  open(kCastImage, &cast);
  open(kReduceImage, &reduce);
  open(kColumnsImage, &columns);
  open(kAdjacentImage, &adjacent);
  const auto load = [&](typename Api::Module module, const std::string& name,
                        typename Api::Function* function) {
    if (error == Api::kSuccess) {
      error = api_.LoadFunction(module, name.c_str(), function);
    }
  };
  auto& tensors = device->kernels.tensors;
  load(elementwise, "devrt_fill", &tensors.fill);
  load(elementwise, "devrt_convert", &tensors.convert);
  load(rows, "devrt_bytes", &tensors.bytes);
  load(rows, "devrt_shift", &tensors.shift);
  load(reduce, "devrt_reduce_claim", &tensors.reduce.claim);
  load(columns, "devrt_columns_claim", &tensors.columns.claim);
  load(adjacent, "devrt_adjacent_claim", &tensors.adjacent.claim);
  for (size_t i = 0; i < kKernelDtypeCount; ++i) {
    const std::string dtype = tensor::DtypeName(kKernelDtypes[i]);
    load(elementwise, "devrt_apply_" + dtype, &tensors.apply[i]);
    load(rows, "devrt_rows_" + dtype, &tensors.rows[i]);
    if (i < kCastDtypeCount) {
      load(cast, "devrt_cast_" + dtype, &tensors.cast[i]);
    }
    load(reduce, "devrt_reduce_" + dtype, &tensors.reduce.run[i]);
    load(columns, "devrt_columns_" + dtype, &tensors.columns.run[i]);
    for (size_t op = 0; op < kFoldCount; ++op) {
      if (!HasFold(op, i)) continue;
      const std::string name = std::string(kFoldNames[op]) + "_" + dtype;
      load(adjacent, "devrt_adjacent_" + name, &tensors.adjacent.run[op][i]);
      load(adjacent, "devrt_short_" + name, &tensors.adjacent.run_short[op][i]);
    }
  }
  for (size_t i = 0; i < kTileKernelCount; ++i) {
    const TileKernel& tile = kTileKernels[i];
    load(
        rows,
        (tile.is_turn ? "devrt_turn_" : "devrt_tile_") + std::string(tile.name),
        &tensors.tiles[i]);
  }
  return error == Api::kSuccess ? TryTensorKernels(device) : error;
}

// Launches each kernel once, without elements.
template <class Api>
typename Api::Error Kernels<Api>::TryTensorKernels(Device* device) {
  return TryOut([&](typename Api::Stream stream) {
    Error error = Api::kSuccess;
    const auto run = [&](typename Api::Function function, unsigned threads,
                         void* nothing) {
      void* arguments[] = {nothing};
      if (error != Api::kSuccess) return;
      error = api_.Launch(function, 1, threads, stream, arguments);
    };
    const auto run_each = [&](const auto& functions, void* nothing) {
      for (const auto function : functions) {
        if (function != nullptr) run(function, kThreads, nothing);
      }
    };
    FillArgs fill = {};
    ApplyArgs apply = {};
    RowsArgs rows = {};
    rows.axes = 1;
    TileArgs tiles = {};
    ReduceArgs reduce = {};
    reduce.lanes = 1;
    reduce.parts = 1;
    reduce.kept.axes = 1;
    reduce.reduced.axes = 1;
    uint32_t ticket = 0;
    const auto& kernels = device->kernels.tensors;
    run(kernels.fill, kThreads, &fill);
    run(kernels.convert, kThreads, &apply);
    run(kernels.bytes, kThreads, &rows);
    run(kernels.shift, kThreads, &rows);
    run_each(kernels.apply, &apply);
    run_each(kernels.rows, &rows);
    run_each(kernels.cast, &rows);
    run_each(kernels.tiles, &tiles);
    for (const auto* const family : {&kernels.reduce, &kernels.columns}) {
      run(family->claim, 1, &ticket);
      run_each(family->run, &reduce);
    }
    run(kernels.adjacent.claim, 1, &ticket);
    for (size_t op = 0; op < kFoldCount; ++op) {
      run_each(kernels.adjacent.run[op], &reduce);
      run_each(kernels.adjacent.run_short[op], &reduce);
    }
    return error;
  });
}

template <class Api>
devrt_status Kernels<Api>::Launch(Stream* stream,
                                  typename Api::Function function,
                                  unsigned blocks, unsigned threads,
                                  void** arguments) {
  // The function belongs to the primary context, and so must the stream.
  if (stream->context != stream->device->context.load()) {
    return driver_.Refuse(
        DEVRT_UNIMPLEMENTED,
        "devrt's kernels do not run on streams of foreign contexts");
  }
  return Submit(&driver_, stream, "launch", [&] {
    return api_.Launch(function, blocks, threads, stream->native, arguments);
  });
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_KERNELS_H_
