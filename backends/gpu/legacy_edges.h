// SPDX-License-Identifier: Apache-2.0
//
// Backend<Api>: the legacy stream's rules for bare work, that is records and
// waits, for vendors whose rules are about kernels and copies only (C9).
//
// An event is recorded behind each piece of bare work of the legacy stream and
// of the blocking ones; before the next operation on the other side, that side
// waits for it.  Non-blocking streams, which is what devrt makes unless asked
// otherwise, pay nothing.

#ifndef DEVRT_BACKENDS_GPU_LEGACY_EDGES_H_
#define DEVRT_BACKENDS_GPU_LEGACY_EDGES_H_

#include <algorithm>

#include "backends/gpu/backend.h"

namespace devrt::gpu {

template <class Api>
void Backend<Api>::AddBlocking(Stream* stream) {
  if (!Api::kBareLegacyWorkIsSkipped || !stream->blocking) return;
  LegacyEdges& edges = stream->device->edges;
  const std::lock_guard<std::mutex> lock(edges.mutex);
  edges.blocking.push_back(stream);
}

// Its last bare work goes on ordering the legacy stream.
template <class Api>
void Backend<Api>::RemoveBlocking(Stream* stream) {
  if (!Api::kBareLegacyWorkIsSkipped || !stream->blocking) return;
  LegacyEdges& edges = stream->device->edges;
  const std::lock_guard<std::mutex> lock(edges.mutex);
  edges.blocking.erase(
      std::remove(edges.blocking.begin(), edges.blocking.end(), stream),
      edges.blocking.end());
  if (stream->bare.joined == stream->bare.count) return;
  const ContextScope scope(*api_, stream->context);
  if (scope.error() != Api::kSuccess) return;
  (void)api_->Wait(Api::LegacyStream(), stream->bare.event);
}

// Before an operation on it.
template <class Api>
typename Api::Error Backend<Api>::JoinLegacy(Stream* stream) {
  if (!Api::kBareLegacyWorkIsSkipped || !stream->blocking) return Api::kSuccess;
  LegacyEdges& edges = stream->device->edges;
  const std::lock_guard<std::mutex> lock(edges.mutex);
  const ContextScope scope(*api_, stream->context);
  Error error = scope.error();
  if (stream->kind != DEVRT_STREAM_LEGACY) {
    if (error != Api::kSuccess ||
        stream->bare.legacy_joined == edges.bare_count) {
      return error;
    }
    error = api_->Wait(stream->native, edges.bare);
    if (error == Api::kSuccess) stream->bare.legacy_joined = edges.bare_count;
    return error;
  }
  for (Stream* const other : edges.blocking) {
    if (error != Api::kSuccess || other->bare.joined == other->bare.count) {
      continue;
    }
    error = api_->Wait(stream->native, other->bare.event);
    if (error == Api::kSuccess) other->bare.joined = other->bare.count;
  }
  return error;
}

// Behind a record or a wait on it.
template <class Api>
typename Api::Error Backend<Api>::NoteBareWork(Stream* stream) {
  if (!Api::kBareLegacyWorkIsSkipped || !stream->blocking) return Api::kSuccess;
  LegacyEdges& edges = stream->device->edges;
  const std::lock_guard<std::mutex> lock(edges.mutex);
  const ContextScope scope(*api_, stream->context);
  Error error = scope.error();
  typename Api::Event made{};
  if (error == Api::kSuccess) {
    error = api_->CreateEvent(false, false, false, &made);
  }
  if (error == Api::kSuccess) error = api_->Record(made, stream->native);
  if (error != Api::kSuccess) return error;
  const bool is_legacy = stream->kind == DEVRT_STREAM_LEGACY;
  typename Api::Event& event = is_legacy ? edges.bare : stream->bare.event;
  // Waits for it that were submitted keep what they wait for (C34).
  if (event != typename Api::Event{}) (void)api_->DestroyEvent(event);
  event = made;
  ++(is_legacy ? edges.bare_count : stream->bare.count);
  return error;
}

// A wait for an event, on a stream.
template <class Api>
typename Api::Error Backend<Api>::WaitBare(Stream* stream,
                                           typename Api::Event event) {
  Error error = JoinLegacy(stream);
  if (error == Api::kSuccess) error = api_->Wait(stream->native, event);
  return error != Api::kSuccess ? error : NoteBareWork(stream);
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_LEGACY_EDGES_H_
