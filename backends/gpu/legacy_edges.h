// SPDX-License-Identifier: Apache-2.0
//
// LegacyEdges<Api>: applies the legacy stream's rules on one device to records
// of events and waits for events, the bare work.  For vendors whose own rules
// cover kernels and copies only (Api::kBareLegacyWorkIsSkipped; C9).
//
// The legacy stream and the blocking streams are two sides. Before an operation
// on one side, that side waits for an event behind the other side's bare work.
//   - The event behind a blocking stream that devrt made is recorded when the
//     legacy stream gets an operation: by the rules, all work that the blocking
//     stream got so far comes before that operation.
//   - The event behind the legacy stream is recorded at once.  Later, it would
//     also stand for work that the legacy stream got meanwhile, which need not
//     come before.
// Non-blocking streams, which devrt makes unless asked otherwise, pay nothing.
//
// Threads: every member from any thread. A native record or wait is made while
// the lock is held.

#ifndef DEVRT_BACKENDS_GPU_LEGACY_EDGES_H_
#define DEVRT_BACKENDS_GPU_LEGACY_EDGES_H_

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

#include "backends/gpu/context_scope.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::gpu {

template <class Api>
struct Stream;

// The records and waits of one stream.  The lock of the device's LegacyEdges
// guards them.
template <class Api>
struct BareWork {
  uint64_t count = 0;
  uint64_t joined = 0;  // so many of them the legacy stream has waited for
  // The number of records and waits of the legacy stream that this stream has
  // waited for.
  uint64_t legacy_joined = 0;
  typename Api::Event event{};
  bool is_behind_it = false;  // `event` comes after all of them
};

template <class Api>
class LegacyEdges {
 public:
  using Error = typename Api::Error;
  using Stream = gpu::Stream<Api>;

  // Makes the stream take part from here on, if it is blocking.
  void Add(Stream* stream) {
    if (!TakesPart(*stream)) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    blocking_.push_back(stream);
  }

  // Removes the stream.  Its last bare work still comes before the next
  // operation of the legacy stream.  The legacy stream does not wait for it
  // here, since the wait would be an operation of its own.
  void Remove(const Api& api, Stream* stream);

  // Called ahead of an operation on the stream: waits for the other side's bare
  // work.
  Error Join(const Api& api, Stream* stream);

  // Called after a record or a wait on the stream.
  Error Note(const Api& api, Stream* stream);

  // Makes the stream wait for a native event.
  Error Wait(const Api& api, Stream* stream, typename Api::Event event);

 private:
  static bool TakesPart(const Stream& stream) {
    return Api::kBareLegacyWorkIsSkipped && stream.blocking;
  }
  static bool IsLegacy(const Stream& stream) {
    return stream.kind == DEVRT_STREAM_LEGACY;
  }
  Error JoinBlocking(const Api& api, Stream* legacy);
  static Error Record(const Api& api, Stream* stream, BareWork<Api>* bare);

  std::mutex mutex_;  // guards what follows, and the streams' BareWork
  std::vector<Stream*> blocking_;
  BareWork<Api> legacy_;
  std::vector<typename Api::Event> left_;  // after work of removed streams
};

template <class Api>
void LegacyEdges<Api>::Remove(const Api& api, Stream* stream) {
  if (!TakesPart(*stream)) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  blocking_.erase(std::remove(blocking_.begin(), blocking_.end(), stream),
                  blocking_.end());
  if (stream->bare.joined == stream->bare.count) return;
  const ContextScope<Api> scope(api, stream->context);
  if (scope.error() != Api::kSuccess ||
      Record(api, stream, &stream->bare) != Api::kSuccess) {
    return;
  }
  left_.push_back(stream->bare.event);
  stream->bare = {};
}

template <class Api>
typename Api::Error LegacyEdges<Api>::Join(const Api& api, Stream* stream) {
  if (!TakesPart(*stream)) return Api::kSuccess;
  const std::lock_guard<std::mutex> lock(mutex_);
  const ContextScope<Api> scope(api, stream->context);
  Error error = scope.error();
  if (error != Api::kSuccess) return error;
  if (IsLegacy(*stream)) return JoinBlocking(api, stream);
  if (stream->bare.legacy_joined == legacy_.count) return error;
  error = api.Wait(stream->native, legacy_.event);
  if (error == Api::kSuccess) stream->bare.legacy_joined = legacy_.count;
  return error;
}

template <class Api>
typename Api::Error LegacyEdges<Api>::JoinBlocking(const Api& api,
                                                   Stream* legacy) {
  Error error = Api::kSuccess;
  while (!left_.empty()) {
    error = api.Wait(legacy->native, left_.back());
    if (error != Api::kSuccess) return error;
    (void)api.DestroyEvent(left_.back());
    left_.pop_back();
  }
  for (Stream* const other : blocking_) {
    BareWork<Api>& bare = other->bare;
    if (bare.joined == bare.count) continue;
    error = Record(api, other, &bare);
    if (error == Api::kSuccess) error = api.Wait(legacy->native, bare.event);
    if (error != Api::kSuccess) return error;
    bare.joined = bare.count;
  }
  return error;
}

// Makes and records an event behind the stream's bare work, in the stream's
// context.
template <class Api>
typename Api::Error LegacyEdges<Api>::Record(const Api& api, Stream* stream,
                                             BareWork<Api>* bare) {
  if (bare->is_behind_it) return Api::kSuccess;
  typename Api::Event made{};
  Error error = api.CreateEvent(false, false, false, &made);
  if (error == Api::kSuccess) error = api.Record(made, stream->native);
  if (error != Api::kSuccess) return error;
  // Waits that were submitted for the old event keep their meaning (C34).
  if (bare->event != typename Api::Event{}) {
    (void)api.DestroyEvent(bare->event);
  }
  bare->event = made;
  bare->is_behind_it = true;
  return error;
}

template <class Api>
typename Api::Error LegacyEdges<Api>::Note(const Api& api, Stream* stream) {
  if (!TakesPart(*stream)) return Api::kSuccess;
  const std::lock_guard<std::mutex> lock(mutex_);
  BareWork<Api>& bare = IsLegacy(*stream) ? legacy_ : stream->bare;
  ++bare.count;
  bare.is_behind_it = false;
  // Their events are recorded now: the handle of a per-thread stream is valid
  // on its own thread only, and the owner of an adopted stream may destroy it.
  if (stream->kind == DEVRT_STREAM_CREATE) return Api::kSuccess;
  const ContextScope<Api> scope(api, stream->context);
  const Error error = scope.error();
  return error != Api::kSuccess ? error : Record(api, stream, &bare);
}

template <class Api>
typename Api::Error LegacyEdges<Api>::Wait(const Api& api, Stream* stream,
                                           typename Api::Event event) {
  const Error error = api.Wait(stream->native, event);
  if (!TakesPart(*stream) || error != Api::kSuccess) return error;
  // A complete event needs no wait.  On the legacy stream it does, because the
  // wait itself separates blocking streams (C11).
  if (!IsLegacy(*stream) && api.QueryEvent(event) == Api::kSuccess) {
    return error;
  }
  return Note(api, stream);
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_LEGACY_EDGES_H_
