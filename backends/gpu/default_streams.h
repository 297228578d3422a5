// SPDX-License-Identifier: Apache-2.0
//
// DefaultStreams<Api>: the one legacy stream of each device, and the per-thread
// stream of each device and thread. They live as long as the backend.
//
// Threads: every member from any thread.

#ifndef DEVRT_BACKENDS_GPU_DEFAULT_STREAMS_H_
#define DEVRT_BACKENDS_GPU_DEFAULT_STREAMS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/gpu/objects.h"

namespace devrt::gpu {

template <class Api>
class DefaultStreams {
 public:
  using Context = typename Api::Context;
  using Device = gpu::Device<Api>;
  using Stream = gpu::Stream<Api>;

  // The device's legacy stream. `context` is the primary one.
  Stream* Legacy(Device* device, Context context);

  // Returns the calling thread's stream on the device.  `context` is the
  // primary one.
  Stream* PerThread(const Api& api, Device* device, Context context);

 private:
  static std::unique_ptr<Stream> Make(Device* device, Context context,
                                      uint32_t kind,
                                      typename Api::Stream native);
  Stream* AddPerThread(Device* device, Context context);
  Stream* OfEndingThread(Device* device);
  Stream* OfEndedThread(const Api& api, Device* device);

  std::mutex mutex_;  // guards what follows
  std::unordered_map<uint32_t, std::unique_ptr<Stream>> legacy_;  // by ordinal
  std::vector<std::unique_ptr<Stream>> per_thread_;
};

template <class Api>
std::unique_ptr<Stream<Api>> DefaultStreams<Api>::Make(
    Device* device, Context context, uint32_t kind,
    typename Api::Stream native) {
  auto made = std::make_unique<Stream>();
  made->device = device;
  made->kind = kind;
  made->blocking = true;
  made->context = context;
  made->context_id = device->context_id.load(std::memory_order_relaxed);
  made->native = native;
  return made;
}

template <class Api>
Stream<Api>* DefaultStreams<Api>::Legacy(Device* device, Context context) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<Stream>& legacy = legacy_[device->ordinal];
  if (legacy == nullptr) {
    legacy = Make(device, context, DEVRT_STREAM_LEGACY, Api::LegacyStream());
  }
  return legacy.get();
}

template <class Api>
Stream<Api>* DefaultStreams<Api>::PerThread(const Api& api, Device* device,
                                            Context context) {
  // The native handle stands for the stream of the calling thread, so each
  // thread needs a Stream of its own, which a list of the thread finds.  While
  // the thread ends, that list may be destroyed already, and the list of all
  // streams finds the Stream.
  struct Own {
    std::vector<Stream*> streams;
    // Tells whether the backend, and the streams with it, ended before the
    // thread.
    std::vector<std::shared_ptr<std::atomic<bool>>> ended;
    bool* is_gone;
    ~Own() {
      *is_gone = true;
      for (const auto& flag : ended) flag->store(true);
    }
  };
  static thread_local bool is_gone = false;
  static thread_local Own own{{}, {}, &is_gone};
  if (!is_gone && own.streams.size() <= device->ordinal) {
    own.streams.resize(device->ordinal + 1);
  }
  Stream* mine =
      is_gone ? OfEndingThread(device) : own.streams[device->ordinal];
  if (mine == nullptr) mine = OfEndedThread(api, device);
  if (mine == nullptr) mine = AddPerThread(device, context);
  if (!is_gone && own.streams[device->ordinal] != mine) {
    own.streams[device->ordinal] = mine;
    own.ended.push_back(mine->ended);
  }
  return mine;
}

template <class Api>
Stream<Api>* DefaultStreams<Api>::AddPerThread(Device* device,
                                               Context context) {
  auto made =
      Make(device, context, DEVRT_STREAM_PER_THREAD, Api::PerThreadStream());
  made->thread = std::this_thread::get_id();
  made->ended = std::make_shared<std::atomic<bool>>(false);
  Stream* const added = made.get();
  device->edges.Add(added);
  const std::lock_guard<std::mutex> lock(mutex_);
  per_thread_.push_back(std::move(made));
  return added;
}

// Finds the calling thread's stream after the thread's list was destroyed.
template <class Api>
Stream<Api>* DefaultStreams<Api>::OfEndingThread(Device* device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto s = per_thread_.rbegin(); s != per_thread_.rend(); ++s) {
    if ((*s)->thread != std::this_thread::get_id()) continue;
    if ((*s)->device != device) continue;
    (*s)->ended->store(false);  // belongs to this thread from here on
    return s->get();
  }
  return nullptr;
}

// Takes over the stream of a thread that has ended.  It was not destroyed,
// because its handle may still be in use.
template <class Api>
Stream<Api>* DefaultStreams<Api>::OfEndedThread(const Api& api,
                                                Device* device) {
  const uint64_t id = device->context_id.load(std::memory_order_relaxed);
  Stream* found = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& s : per_thread_) {
      if (s->device != device || s->context_id != id) continue;
      bool was_ended = true;
      if (!s->ended->compare_exchange_strong(was_ended, false)) continue;
      s->thread = std::this_thread::get_id();
      found = s.get();
      break;
    }
  }
  if (found == nullptr) return nullptr;
  // Its records were on the native stream of the ended thread.
  device->edges.Remove(api, found);
  found->hidden.Forget();
  found->bare.legacy_joined = 0;
  if (found->clock != nullptr) found->clock = std::make_shared<RecordClock>();
  device->edges.Add(found);
  return found;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_DEFAULT_STREAMS_H_
