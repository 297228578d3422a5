// SPDX-License-Identifier: Apache-2.0
//
// Backend<Api>: the kernels' images, launches, and the extensions over them.

#ifndef DEVRT_BACKENDS_GPU_KERNELS_H_
#define DEVRT_BACKENDS_GPU_KERNELS_H_

#include <cstring>
#include <string>

#include "backends/gpu/backend.h"
#include "backends/gpu/fast_paths.h"
#include "backends/tensor/tensor.h"
#include "devrt/backends/abi/devrt_capture.h"
#include "devrt/backends/abi/devrt_dlpack.h"

namespace devrt::gpu {

// The plugin's kernels for every architecture it was built for.
extern const KernelImage kProbeImage;
extern const KernelImage kElementwiseImage;
extern const KernelImage kRowsImage;
extern const KernelImage kCastImage;
extern const KernelImage kReduceImage;
extern const KernelImage kColumnsImage;

// What the thread does within leaves captures valid, of whatever mode (C85).
template <class Api>
class RelaxedThread {
 public:
  explicit RelaxedThread(const Api& api) : api_(api) {
    if constexpr (Api::kHasCaptures) {
      is_changed_ = api_.HasThreadModes() &&
                    api_.ExchangeThreadMode(&mode_) == Api::kSuccess;
    }
  }
  RelaxedThread(const RelaxedThread&) = delete;
  RelaxedThread& operator=(const RelaxedThread&) = delete;
  ~RelaxedThread() {
    if constexpr (Api::kHasCaptures) {
      if (is_changed_) (void)api_.ExchangeThreadMode(&mode_);
    }
  }

 private:
  const Api& api_;
  uint32_t mode_ = DEVRT_CAPTURE_RELAXED;
  bool is_changed_ = false;
};

// `load` in the device's context, until it has succeeded.
template <class Api>
template <typename Load>
devrt_status Backend<Api>::LoadOnce(Device* device,
                                    std::atomic<bool>* is_loaded,
                                    const Load& load) {
  if (is_loaded->load(std::memory_order_acquire)) return nullptr;
  Context context{};
  if (devrt_status error = Enter(device, &context)) return error;
  const std::lock_guard<std::mutex> lock(device->kernels_mutex);
  if (is_loaded->load(std::memory_order_relaxed)) return nullptr;
  const RelaxedThread<Api> relaxed(*api_);
  const ContextScope scope(*api_, context);
  Error error = scope.error();
  if (error == Api::kSuccess) error = load();
  if (error != Api::kSuccess) return Take(error, "kernel loading", device);
  is_loaded->store(true, std::memory_order_release);
  return nullptr;
}

// All kernels are loaded before the first can hold anything, and launched once:
// what is loaded lazily, or wants more local memory than was ever needed,
// starts only when running kernels have ended (F40).
template <class Api>
devrt_status Backend<Api>::LoadKernels(Device* device) {
  if (devrt_status error = LoadTensors(device)) return error;
  return LoadOnce(device, &device->has_kernels,
                  [&] { return LoadProbeImage(device); });
}

template <class Api>
devrt_status Backend<Api>::LoadTensors(Device* device) {
  return LoadOnce(device, &device->has_tensors,
                  [&] { return LoadTensorImages(device); });
}

// call(stream) on a stream of its own, which it then waits for.
template <class Api>
template <typename Call>
typename Api::Error Backend<Api>::TryOut(const Call& call) {
  typename Api::Stream stream{};
  Error error = api_->CreateStream(false, 0, &stream);
  if (error != Api::kSuccess) return error;
  error = call(stream);
  if (error == Api::kSuccess) error = api_->SynchronizeStream(stream);
  (void)api_->DestroyStream(stream);
  return error;
}

template <class Api>
typename Api::Error Backend<Api>::LoadProbeImage(Device* device) {
  typename Api::Module module{};
  Error error = api_->LoadModule(kProbeImage.data, &module);
  const auto load = [&](const char* name, typename Api::Function* function) {
    if (error == Api::kSuccess) {
      error = api_->LoadFunction(module, name, function);
    }
  };
  auto& probe = device->probe;
  load("devrt_spin", &probe.spin);
  load("devrt_wait", &probe.wait);
  load("devrt_set", &probe.set);
  load("devrt_fault", &probe.fault);
  if (error != Api::kSuccess) return error;
  return TryOut([&](typename Api::Stream stream) {
    uint64_t none = 1;
    void* arguments[] = {&none};
    return api_->Launch(probe.spin, 1, 1, stream, arguments);
  });
}

template <class Api>
typename Api::Error Backend<Api>::LoadTensorImages(Device* device) {
  typename Api::Module elementwise{}, rows{}, cast{}, reduce{}, columns{};
  Error error = Api::kSuccess;
  const auto open = [&](const KernelImage& image,
                        typename Api::Module* module) {
    if (error == Api::kSuccess) error = api_->LoadModule(image.data, module);
  };
  open(kElementwiseImage, &elementwise);
  open(kRowsImage, &rows);
  open(kCastImage, &cast);
  open(kReduceImage, &reduce);
  open(kColumnsImage, &columns);
  const auto load = [&](typename Api::Module module, const std::string& name,
                        typename Api::Function* function) {
    if (error == Api::kSuccess) {
      error = api_->LoadFunction(module, name.c_str(), function);
    }
  };
  auto& tensors = device->tensors;
  load(elementwise, "devrt_fill", &tensors.fill);
  load(elementwise, "devrt_convert", &tensors.convert);
  load(reduce, "devrt_reduce_claim", &tensors.reduce.claim);
  load(columns, "devrt_columns_claim", &tensors.columns.claim);
  for (size_t i = 0; i < kKernelDtypeCount; ++i) {
    const std::string dtype = tensor::DtypeName(kKernelDtypes[i]);
    load(elementwise, "devrt_apply_" + dtype, &tensors.apply[i]);
    load(rows, "devrt_rows_" + dtype, &tensors.rows[i]);
    if (i < kCastDtypeCount) {
      load(cast, "devrt_cast_" + dtype, &tensors.cast[i]);
    }
    load(reduce, "devrt_reduce_" + dtype, &tensors.reduce.run[i]);
    load(columns, "devrt_columns_" + dtype, &tensors.columns.run[i]);
  }
  for (size_t i = 0; i < kTileKernelCount; ++i) {
    load(rows, std::string("devrt_tile_") + kTileKernels[i].name,
         &tensors.tiles[i]);
  }
  return error == Api::kSuccess ? TryTensorKernels(device) : error;
}

// On no elements.
template <class Api>
typename Api::Error Backend<Api>::TryTensorKernels(Device* device) {
  return TryOut([&](typename Api::Stream stream) {
    Error error = Api::kSuccess;
    const auto run = [&](typename Api::Function function, unsigned threads,
                         void* nothing) {
      void* arguments[] = {nothing};
      if (error != Api::kSuccess) return;
      error = api_->Launch(function, 1, threads, stream, arguments);
    };
    FillArgs fill = {};
    ApplyArgs apply = {};
    RowsArgs rows = {};
    rows.axes = 1;
    TileArgs tiles = {};
    ReduceArgs reduce = {};
    reduce.lanes = 1;
    uint32_t ticket = 0;
    run(device->tensors.fill, kThreads, &fill);
    run(device->tensors.convert, kThreads, &apply);
    for (const auto function : device->tensors.apply) {
      run(function, kThreads, &apply);
    }
    for (const auto function : device->tensors.rows) {
      run(function, kThreads, &rows);
    }
    for (const auto function : device->tensors.cast) {
      run(function, kThreads, &rows);
    }
    for (const auto function : device->tensors.tiles) {
      run(function, kThreads, &tiles);
    }
    for (const auto* const kernels :
         {&device->tensors.reduce, &device->tensors.columns}) {
      run(kernels->claim, 1, &ticket);
      for (const auto function : kernels->run) {
        run(function, kThreads, &reduce);
      }
    }
    return error;
  });
}

template <class Api>
devrt_status Backend<Api>::Launch(Stream* stream,
                                  typename Api::Function function,
                                  unsigned blocks, unsigned threads,
                                  void** arguments) {
  // The function is of the primary context; so must the stream be.
  if (stream->context != stream->device->context.load()) {
    return Refuse(DEVRT_UNIMPLEMENTED,
                  "devrt's kernels do not run on streams of foreign contexts");
  }
  return Submit(stream, "launch", [&] {
    return api_->Launch(function, blocks, threads, stream->native, arguments);
  });
}

template <class Api>
const void* Backend<Api>::get_extension(const char* name) {
  static constexpr devrt_probe_v0 kProbe = {
      sizeof(devrt_probe_v0),
      0,
      plugin::Thunk<&Backend::ProbeSpin>,
      plugin::Thunk<&Backend::FlagCreate>,
      plugin::Thunk<&Backend::FlagDestroy>,
      plugin::Thunk<&Backend::FlagWait>,
      plugin::Thunk<&Backend::FlagSet>,
      plugin::Thunk<&Backend::FlagSetAsync>,
      plugin::Thunk<&Backend::ProbeFault>};
  static constexpr devrt_elementwise_v0 kElementwise = {
      sizeof(devrt_elementwise_v0), 0,
      plugin::Thunk<&Backend::ElementwiseSupports>,
      plugin::Thunk<&Backend::ElementwiseFill>,
      plugin::Thunk<&Backend::ElementwiseApply>};
  static constexpr devrt_reduce_v0 kReduce = {
      sizeof(devrt_reduce_v0), 0, plugin::Thunk<&Backend::ReduceSupports>,
      plugin::Thunk<&Backend::Reduce>};
  static constexpr devrt_event_ipc_v0 kEventIpc = {
      sizeof(devrt_event_ipc_v0), 0, plugin::Thunk<&Backend::EventExport>,
      plugin::Thunk<&Backend::EventOpen>};
  const auto has = [&](uint64_t capability) {
    return (api_->MissingCapabilities() & capability) == 0;
  };
  static constexpr devrt_dlpack_v0 kDlpack = Api::kDlpack;
  if (std::strcmp(name, DEVRT_DLPACK_EXTENSION) == 0) return &kDlpack;
  if (std::strcmp(name, DEVRT_EVENT_IPC_EXTENSION) == 0) {
    return has(DEVRT_CAP_EVENT_IPC) ? &kEventIpc : nullptr;
  }
  if constexpr (Api::kHasCaptures) {
    if (std::strcmp(name, DEVRT_CAPTURE_EXTENSION) == 0) return CaptureTable();
  }
  if constexpr (Api::kHasVirtualMemory) {
    if (std::strcmp(name, DEVRT_VIRTUAL_MEMORY_EXTENSION) == 0) {
      return VirtualMemoryTable();
    }
  }
  if (kProbeImage.data == nullptr) return nullptr;
  if (std::strcmp(name, DEVRT_PROBE_EXTENSION) == 0) {
    // Flags are words of pinned memory.
    return has(DEVRT_CAP_PINNED_HOST) ? &kProbe : nullptr;
  }
  if (std::strcmp(name, DEVRT_ELEMENTWISE_EXTENSION) == 0) return &kElementwise;
  if (std::strcmp(name, DEVRT_REDUCE_EXTENSION) == 0) return &kReduce;
  return nullptr;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_KERNELS_H_
