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

// Returns true if another library can capture the stream of `record`, or if
// `handle` is not its handle any more: it may belong to another stream then.
using MayBeCapturedFn = bool (*)(const void* record, devrt_stream handle);

struct StreamNumber {
  devrt_stream handle;
  uint64_t number;  // StreamRef::id() + 1
  MayBeCapturedFn may_be_captured;
  const void* record;
};

// Two entries, because a wait names two streams.
extern __thread StreamNumber t_stream_numbers[2]
    __attribute__((tls_model("initial-exec")));

// True once a plugin has asked for the extension.  Numbers are noted from then
// on.
extern std::atomic<bool> g_stream_numbers_wanted;

// Not inline: most programs have no plugin that asks.
void KeepStreamNumber(devrt_stream handle, uint64_t number,
                      MayBeCapturedFn may_be_captured, const void* record);
inline void NoteStreamNumber(devrt_stream handle, uint64_t number,
                             MayBeCapturedFn may_be_captured,
                             const void* record) {
  if (ABSL_PREDICT_TRUE(
          !g_stream_numbers_wanted.load(std::memory_order_relaxed))) {
    return;
  }
  KeepStreamNumber(handle, number, may_be_captured, record);
}

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_PLUGINS_STREAM_NUMBERS_H_
