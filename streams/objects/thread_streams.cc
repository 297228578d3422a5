// SPDX-License-Identifier: Apache-2.0

#include "streams/objects/thread_streams.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "devrt/runtime/thread_state.h"
#include "streams/objects/device_streams.h"
#include "streams/objects/stream_record.h"

extern "C" __attribute__((visibility("hidden"))) void* __dso_handle;

namespace devrt::internal {

namespace {

// A plain pointer, for code that runs after EndThread: other destructors of the
// thread, and those of static objects.  Such code makes a new object.
__thread ThreadStreams* t_streams __attribute__((tls_model("initial-exec"))) =
    nullptr;

void EndThread(void* arg) {
  const std::unique_ptr<ThreadStreams> streams(
      static_cast<ThreadStreams*>(arg));
  t_streams = nullptr;
}

}  // namespace

ThreadStreams* ThreadStreams::OfThisThread() {
  if (t_streams == nullptr) {
    auto made = std::make_unique<ThreadStreams>();
    // As a thread_local's destructor, but allowed again after EndThread.
    abi::__cxa_thread_atexit(&EndThread, made.get(), &__dso_handle);
    t_streams = made.release();
  }
  return t_streams;
}

ThreadStreams::~ThreadStreams() {
  std::free(std::exchange(t_state.slots, nullptr));
  t_state.slot_count = 0;
  for (StreamRef s : per_thread_) {
    if (!IsAlive(s)) continue;
    DeviceStreams::Of(s.record()->device)->streams.Release(s.record());
  }
}

absl::StatusOr<StreamRef> ThreadStreams::PerThreadStream(DeviceRecord* device) {
  for (auto it = per_thread_.begin(); it != per_thread_.end();) {
    if (!IsAlive(*it)) {
      it = per_thread_.erase(it);  // the backend was reset
    } else if (it->record()->device == device) {
      return *it;
    } else {
      ++it;
    }
  }
  auto made = DeviceStreams::Of(device)->streams.MakePerThread();
  if (made.ok()) per_thread_.push_back(*made);
  return made;
}

}  // namespace devrt::internal
