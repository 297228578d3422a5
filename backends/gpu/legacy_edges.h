// SPDX-License-Identifier: Apache-2.0
//
// Backend<Api>: the legacy stream's rules for bare work, that is records and
// waits, for vendors whose rules are about kernels and copies only (C9).
//
// Before the next operation on the other side, that side waits for an event
// behind the bare work.  That of a blocking stream of ours is recorded only
// then: by the rules, all that it has been given so far comes before an
// operation of the legacy stream.  The legacy stream's is recorded at once:
// what else it is given meanwhile, other streams' work with it, does not come
// before. Non-blocking streams, which is what devrt makes unless asked
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

// Its last bare work still comes before the legacy stream's next operation.  To
// let that stream wait at once would be an operation of its own.
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
  if (scope.error() != Api::kSuccess ||
      RecordBare(stream, &stream->bare) != Api::kSuccess) {
    return;
  }
  edges.left.push_back(stream->bare.event);
  stream->bare = {};
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
        stream->bare.legacy_joined == edges.legacy.count) {
      return error;
    }
    error = api_->Wait(stream->native, edges.legacy.event);
    if (error == Api::kSuccess) stream->bare.legacy_joined = edges.legacy.count;
    return error;
  }
  while (error == Api::kSuccess && !edges.left.empty()) {
    error = api_->Wait(stream->native, edges.left.back());
    if (error != Api::kSuccess) break;
    (void)api_->DestroyEvent(edges.left.back());
    edges.left.pop_back();
  }
  for (Stream* const other : edges.blocking) {
    BareWork& bare = other->bare;
    if (error != Api::kSuccess || bare.joined == bare.count) continue;
    error = RecordBare(other, &bare);
    if (error == Api::kSuccess) error = api_->Wait(stream->native, bare.event);
    if (error == Api::kSuccess) bare.joined = bare.count;
  }
  return error;
}

// Has an event behind it.  Under the edges' mutex, in the stream's context.
template <class Api>
typename Api::Error Backend<Api>::RecordBare(Stream* stream, BareWork* bare) {
  if (bare->is_behind_it) return Api::kSuccess;
  typename Api::Event made{};
  Error error = api_->CreateEvent(false, false, false, &made);
  if (error == Api::kSuccess) error = api_->Record(made, stream->native);
  if (error != Api::kSuccess) return error;
  // Waits for it that were submitted keep what they wait for (C34).
  if (bare->event != typename Api::Event{}) {
    (void)api_->DestroyEvent(bare->event);
  }
  bare->event = made;
  bare->is_behind_it = true;
  return error;
}

// Behind a record or a wait on it.
template <class Api>
typename Api::Error Backend<Api>::NoteBareWork(Stream* stream) {
  if (!Api::kBareLegacyWorkIsSkipped || !stream->blocking) return Api::kSuccess;
  LegacyEdges& edges = stream->device->edges;
  const std::lock_guard<std::mutex> lock(edges.mutex);
  const bool is_legacy = stream->kind == DEVRT_STREAM_LEGACY;
  BareWork& bare = is_legacy ? edges.legacy : stream->bare;
  ++bare.count;
  bare.is_behind_it = false;
  // A thread's own stream is named by that thread only, and an adopted one is
  // there only as long as its owner lets it.
  if (!is_legacy && stream->kind == DEVRT_STREAM_CREATE) return Api::kSuccess;
  const ContextScope scope(*api_, stream->context);
  const Error error = scope.error();
  return error != Api::kSuccess ? error : RecordBare(stream, &bare);
}

// A wait for an event, on a stream.
template <class Api>
typename Api::Error Backend<Api>::WaitBare(Stream* stream,
                                           typename Api::Event event) {
  const Error error = api_->Wait(stream->native, event);
  if (!Api::kBareLegacyWorkIsSkipped || !stream->blocking ||
      error != Api::kSuccess) {
    return error;
  }
  // What is complete holds nothing up; but on the legacy stream the wait itself
  // stands between blocking streams (C11).
  if (stream->kind != DEVRT_STREAM_LEGACY &&
      api_->QueryEvent(event) == Api::kSuccess) {
    return error;
  }
  return NoteBareWork(stream);
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_LEGACY_EDGES_H_
