// SPDX-License-Identifier: Apache-2.0
//
// ThreadStreams: the default streams of one thread, in the validate layer.

#ifndef DEVRT_LAYERS_VALIDATE_THREAD_STREAMS_H_
#define DEVRT_LAYERS_VALIDATE_THREAD_STREAMS_H_

#include <unistd.h>

#include <utility>
#include <vector>

#include "devrt/backends/abi/devrt_plugin.h"
#include "layers/validate/layer_state.h"

namespace devrt::race {

// The default streams of the calling thread, which end with the thread and not
// by a call.
class ThreadStreams {
 public:
  ThreadStreams() = default;
  ThreadStreams(const ThreadStreams&) = delete;
  ThreadStreams& operator=(const ThreadStreams&) = delete;
  ~ThreadStreams() {
    has_ended_ = true;
    // The layer's mutex may be locked by a thread that a forked child lacks.
    if (streams_.empty() || getpid() != process_) return;
    for (const auto& [stream, actor] : streams_) {
      g_layer.validator->RemoveStream(stream, actor);
    }
  }
  // Other objects of the thread may ask for its streams after this one has
  // ended.  Such a stream is known until its handle is another stream's.
  void Add(devrt_stream stream, Actor actor) {
    if (has_ended_) return;
    process_ = getpid();
    streams_.emplace_back(stream, actor);
  }

 private:
  static inline thread_local bool has_ended_ = false;
  pid_t process_ = 0;  // that has the streams
  std::vector<std::pair<devrt_stream, Actor>> streams_;
};
inline thread_local ThreadStreams t_thread_streams;

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_THREAD_STREAMS_H_
