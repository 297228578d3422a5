// SPDX-License-Identifier: Apache-2.0
//
// How a call reaches a native stream: in which context, after which work, and
// below the driver's queue length.  `call` makes the native call and returns
// its error.  The short functions are always inlined, since every query and
// operation passes through them.

#ifndef DEVRT_BACKENDS_GPU_SUBMIT_H_
#define DEVRT_BACKENDS_GPU_SUBMIT_H_

#include <cstdint>

#include "backends/gpu/context_scope.h"
#include "backends/gpu/driver.h"
#include "backends/gpu/objects.h"
#include "backends/gpu/queue_window.h"

namespace devrt::gpu {

// Makes the call in the stream's context.
template <class Api, typename Call>
typename Api::Error WithContext(const Api& api, const Stream<Api>& stream,
                                Call call) {
  const ContextScope<Api> scope(api, stream.context);
  return scope.error() != Api::kSuccess ? scope.error() : call();
}

// Makes the call in the stream's context if it is a default stream, because the
// driver takes the handle for the default stream of the current context.
template <class Api, typename Call>
[[gnu::always_inline]] inline typename Api::Error InContext(
    const Api& api, const Stream<Api>& stream, Call call) {
  return stream.IsDefault() ? WithContext(api, stream, call) : call();
}

// Queries the stream.
template <class Api, typename Call>
[[gnu::always_inline]] inline typename Api::Error On(const Api& api,
                                                     const Stream<Api>& stream,
                                                     Call call) {
  const typename Api::Error error = CheckAlive(api, stream);
  return error != Api::kSuccess ? error : InContext(api, stream, call);
}

// Makes an operation on the stream, whose context exists, without looking at
// its queue.  Some vendors
// need the stream's device to be current (C15, C16), and need the operation
// ordered after records and waits by the legacy stream's rules (C9).
template <class Api, typename Call>
[[gnu::always_inline]] inline typename Api::Error EnqueueAlive(
    const Api& api, Stream<Api>* stream, Call call) {
  const typename Api::Error error = stream->device->edges.Join(api, stream);
  if (error != Api::kSuccess) return error;
  if constexpr (Api::kRunsOnCurrentDevice) {
    return WithContext(api, *stream, call);
  }
  return InContext(api, *stream, call);
}

// EnqueueAlive on a stream that may be gone.
template <class Api, typename Call>
[[gnu::always_inline]] inline typename Api::Error Enqueue(const Api& api,
                                                          Stream<Api>* stream,
                                                          Call call) {
  const typename Api::Error error = CheckAlive(api, *stream);
  return error != Api::kSuccess ? error : EnqueueAlive(api, stream, call);
}

// Makes an operation on the stream once its queue has room.
template <class Api, typename Call>
devrt_status Submit(Driver<Api>* driver, Stream<Api>* stream,
                    const char* entry_point, Call call) {
  const Api& api = driver->api();
  typename Api::Error error = CheckAlive(api, *stream);
  // Operations of the owner of an adopted stream are not counted.
  if (error == Api::kSuccess && stream->kind != DEVRT_STREAM_ADOPT) {
    const uint64_t number = stream->window.Count();
    if (QueueWindow<Api>::IsMark(number)) {
      error = WithContext(api, *stream, [&] {
        return stream->window.Mark(api, stream->native, number);
      });
      // The mark may have waited.
      if (error == Api::kSuccess) error = CheckAlive(api, *stream);
    }
  }
  if (error == Api::kSuccess) error = EnqueueAlive(api, stream, call);
  return driver->ToStatus(error, entry_point, stream->device);
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_SUBMIT_H_
