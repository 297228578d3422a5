// SPDX-License-Identifier: Apache-2.0
//
// Backend<Api>: devrt.capture/0, where Api::kHasCaptures.

#ifndef DEVRT_BACKENDS_GPU_CAPTURES_H_
#define DEVRT_BACKENDS_GPU_CAPTURES_H_

#include "backends/gpu/backend.h"

namespace devrt::gpu {

template <class Api>
const devrt_capture_v0* Backend<Api>::CaptureTable() const {
  if (!api_->CanTellCaptures()) return nullptr;
  static const devrt_capture_v0 table = [this] {
    devrt_capture_v0 t = {};
    t.struct_size = sizeof t;
    t.stream_is_capturing = plugin::Thunk<&Backend::StreamIsCapturing>;
    if (api_->CanHoldCaptures()) {
      t.stream_capture_id = plugin::Thunk<&Backend::StreamCaptureId>;
      t.capture_retain = plugin::Thunk<&Backend::CaptureRetain>;
    }
    if (api_->HasThreadModes()) {
      t.exchange_thread_mode = plugin::Thunk<&Backend::ExchangeThreadMode>;
    }
    return t;
  }();
  return &table;
}

template <class Api>
devrt_status Backend<Api>::StreamIsCapturing(devrt_stream handle,
                                             uint32_t* yes) {
  const Stream& stream = *Of(handle);
  bool capturing = false;
  const Error error =
      On(stream, [&] { return api_->IsCapturing(stream.native, &capturing); });
  if (error != Api::kSuccess) {
    return Take(error, "stream capture status", stream.device);
  }
  *yes = capturing ? 1 : 0;
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::StreamCaptureId(devrt_stream handle, uint64_t* id) {
  const Stream& stream = *Of(handle);
  typename Api::Graph graph = nullptr;
  return Take(
      On(stream, [&] { return api_->CaptureOf(stream.native, id, &graph); }),
      "number of a stream's capture", stream.device);
}

template <class Api>
devrt_status Backend<Api>::CaptureRetain(devrt_stream handle,
                                         void (*release)(void* arg),
                                         void* arg) {
  const Stream& stream = *Of(handle);
  const auto retain = [&] {
    uint64_t id = 0;
    typename Api::Graph graph = nullptr;
    Error error = api_->CaptureOf(stream.native, &id, &graph);
    if (error != Api::kSuccess) return error;
    // Much of what is about graphs takes a current context.
    const ContextScope scope(*api_, stream.context);
    error = scope.error();
    return error != Api::kSuccess ? error
                                  : api_->HoldGraph(graph, release, arg);
  };
  return Take(On(stream, retain), "hold on a stream's capture", stream.device);
}

// Of the thread, whatever its context.
template <class Api>
devrt_status Backend<Api>::ExchangeThreadMode(uint32_t* mode) {
  return Take(api_->ExchangeThreadMode(mode), "the thread's mode of captures",
              nullptr);
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_CAPTURES_H_
