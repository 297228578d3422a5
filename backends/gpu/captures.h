// SPDX-License-Identifier: Apache-2.0
//
// Captures<Api>: devrt.capture/0, where Api::kHasCaptures.
//
// Threads: every member from any thread.

#ifndef DEVRT_BACKENDS_GPU_CAPTURES_H_
#define DEVRT_BACKENDS_GPU_CAPTURES_H_

#include <cstdint>

#include "backends/gpu/context_scope.h"
#include "backends/gpu/driver.h"
#include "backends/gpu/objects.h"
#include "backends/gpu/submit.h"
#include "devrt/backends/abi/devrt_capture.h"

namespace devrt::gpu {

template <class Api>
class Captures {
 public:
  using Error = typename Api::Error;
  using Stream = gpu::Stream<Api>;

  explicit Captures(Driver<Api>* driver)
      : driver_(*driver), api_(driver->api()) {}
  Captures(const Captures&) = delete;
  Captures& operator=(const Captures&) = delete;

  // devrt.capture/0 of the plugin whose class is `Backend`; nullptr if the
  // driver lacks a function.
  template <class Backend>
  const devrt_capture_v0* CaptureTable() const {
    if (!api_.CanTellCaptures()) return nullptr;
    static const devrt_capture_v0 table = [this] {
      devrt_capture_v0 t = {};
      t.struct_size = sizeof t;
      t.stream_is_capturing =
          plugin::Thunk<&Captures::StreamIsCapturing, Backend>;
      if (api_.CanHoldCaptures()) {
        t.stream_capture_id =
            plugin::Thunk<&Captures::StreamCaptureId, Backend>;
        t.capture_retain = plugin::Thunk<&Captures::CaptureRetain, Backend>;
      }
      if (api_.HasThreadModes()) {
        t.exchange_thread_mode =
            plugin::Thunk<&Captures::ExchangeThreadMode, Backend>;
      }
      return t;
    }();
    return &table;
  }

 private:
  devrt_status StreamIsCapturing(devrt_stream stream, uint32_t* yes);
  devrt_status StreamCaptureId(devrt_stream stream, uint64_t* id);
  devrt_status CaptureRetain(devrt_stream stream, void (*release)(void* arg),
                             void* arg);
  devrt_status ExchangeThreadMode(uint32_t* mode);

  Driver<Api>& driver_;
  const Api& api_;
};

template <class Api>
devrt_status Captures<Api>::StreamIsCapturing(devrt_stream handle,
                                              uint32_t* yes) {
  const Stream& stream = *Stream::Of(handle);
  bool capturing = false;
  const Error error = On(api_, stream, [&] {
    return api_.IsCapturing(stream.native, &capturing);
  });
  if (error != Api::kSuccess) {
    return driver_.ToStatus(error, "stream capture status", stream.device);
  }
  *yes = capturing ? 1 : 0;
  return nullptr;
}

template <class Api>
devrt_status Captures<Api>::StreamCaptureId(devrt_stream handle, uint64_t* id) {
  const Stream& stream = *Stream::Of(handle);
  typename Api::Graph graph = nullptr;
  return driver_.ToStatus(
      On(api_, stream,
         [&] { return api_.CaptureOf(stream.native, id, &graph); }),
      "number of a stream's capture", stream.device);
}

template <class Api>
devrt_status Captures<Api>::CaptureRetain(devrt_stream handle,
                                          void (*release)(void* arg),
                                          void* arg) {
  const Stream& stream = *Stream::Of(handle);
  const auto retain = [&] {
    uint64_t id = 0;
    typename Api::Graph graph = nullptr;
    Error error = api_.CaptureOf(stream.native, &id, &graph);
    if (error != Api::kSuccess) return error;
    // Many functions on graphs need a current context.
    const ContextScope<Api> scope(api_, stream.context);
    error = scope.error();
    return error != Api::kSuccess ? error : api_.HoldGraph(graph, release, arg);
  };
  return driver_.ToStatus(On(api_, stream, retain),
                          "hold on a stream's capture", stream.device);
}

// The mode belongs to the thread, not to a context.
template <class Api>
devrt_status Captures<Api>::ExchangeThreadMode(uint32_t* mode) {
  return driver_.ToStatus(api_.ExchangeThreadMode(mode),
                          "the thread's mode of captures", nullptr);
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_CAPTURES_H_
