// SPDX-License-Identifier: Apache-2.0
//
// What the extension devrt.stream_number/0 reports: of the two streams that the
// calling thread used last, which are those of its present call.

#ifndef DEVRT_RUNTIME_PLUGINS_STREAM_NUMBERS_H_
#define DEVRT_RUNTIME_PLUGINS_STREAM_NUMBERS_H_

#include <atomic>
#include <cstdint>

#include "absl/base/optimization.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::internal {

// What the extension tells of a stream.
struct StreamFacts {
  uint64_t number;  // StreamRef::id() + 1; 0: not known
  bool may_be_captured;
};

// Returns the facts of the stream that `record` has now.  Nothing is known if
// `handle` is not its handle any more: it may belong to another stream then.
using StreamFactsFn = StreamFacts (*)(const void* record, devrt_stream handle);

// A stream that the thread used.
struct NotedStream {
  devrt_stream handle;
  StreamFactsFn facts;
  const void* record;
};

// Two entries, because a wait names two streams.
extern __thread NotedStream t_noted_streams[2]
    __attribute__((tls_model("initial-exec")));

// True once a plugin has asked for the extension.  Streams are noted from then
// on.
extern std::atomic<bool> g_stream_numbers_wanted;

// Not inline: most programs have no plugin that asks.
void KeepStream(devrt_stream handle, StreamFactsFn facts, const void* record);
inline void NoteStream(devrt_stream handle, StreamFactsFn facts,
                       const void* record) {
  if (ABSL_PREDICT_TRUE(
          !g_stream_numbers_wanted.load(std::memory_order_relaxed))) {
    return;
  }
  KeepStream(handle, facts, record);
}

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_PLUGINS_STREAM_NUMBERS_H_
