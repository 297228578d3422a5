// SPDX-License-Identifier: Apache-2.0
//
// Events, and waits for them.
#include <unistd.h>

#include <cstring>
#include <memory>

#include "tests/fakes/hip/driver.h"
#include "tests/fakes/hip/stale.h"

namespace devrt::fake {
namespace {

// An entry point about an event.
template <typename Body>
hipError_t CallOn(const char* name, hipEvent_t event, unsigned rules,
                  const Body& body) {
  return Call(name, rules, [&] {
    if (event == nullptr) return hipErrorInvalidHandle;
    Events().Check(event, name, "event");
    return body();
  });
}

// Returns true if the event counts as complete because its stream is gone.
bool IsForgotten(const ihipEvent_t& event) {
  ihipStream_t* const stream = event.stream;
  return Has(kC18ForgetsStream) && stream != nullptr && !Streams().Has(stream);
}

hipError_t Query(const ihipEvent_t& event) {
  if (IsForgotten(event)) return hipSuccess;
  uint32_t done = 0;
  const hipError_t error = Sim<&devrt_ops_v0::event_query>(event.sim, &done);
  if (error != hipSuccess) return error;
  return done != 0 ? hipSuccess : hipErrorNotReady;
}

}  // namespace
}  // namespace devrt::fake

using namespace devrt::fake;  // NOLINT: the driver's own names are global

hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  return Call("hipEventCreateWithFlags", kDeviceCall, [&] {
    constexpr unsigned kKnown = hipEventBlockingSync | hipEventDisableTiming |
                                hipEventInterprocess | hipEventReleaseToDevice |
                                hipEventReleaseToSystem;
    const bool timing = (flags & hipEventDisableTiming) == 0;
    if ((flags & ~kKnown) != 0 ||
        ((flags & hipEventInterprocess) != 0 && timing)) {
      return hipErrorInvalidValue;
    }
    auto made = std::make_unique<ihipEvent_t>();
    made->device = UseCurrentDevice();
    made->timing = timing;
    made->releases = (flags & hipEventReleaseToSystem) != 0;
    made->interprocess = (flags & hipEventInterprocess) != 0;
    const hipError_t error = Sim<&devrt_ops_v0::event_create>(
        SimOf(made->device), timing ? DEVRT_EVENT_TIMING : 0u, &made->sim);
    if (error != hipSuccess) return error;
    *event = made.release();
    Events().Add(*event);
    return hipSuccess;
  });
}

hipError_t hipEventDestroy(hipEvent_t event) {
  return CallOn("hipEventDestroy", event, kDeviceCall, [&] {
    Events().Remove(event);
    const std::unique_ptr<ihipEvent_t> gone(event);
    return Sim<&devrt_ops_v0::event_destroy>(gone->sim);
  });
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  return CallOn("hipEventRecord", event, kDeviceCall, [&] {
    Target target;
    hipError_t error = Resolve("hipEventRecord", stream, &target);
    if (error != hipSuccess) return error;
    if (event->device != target.device) return hipErrorInvalidHandle;
    if (Has(kC27PendingRecord) && event->recorded &&
        Query(*event) == hipErrorNotReady) {
      Die("hipEventRecord: %p is pending; recording it again is undefined",
          static_cast<void*>(event));
    }
    devrt_stream bare = nullptr;
    error = BareOf(target, Bare::kRecord, &bare);
    if (error == hipSuccess) {
      error = Sim<&devrt_ops_v0::event_record>(event->sim, bare);
    }
    if (error != hipSuccess) return error;
    const bool is_default = stream == nullptr || stream == hipStreamPerThread;
    event->stream = is_default ? nullptr : stream;
    event->recorded = true;
    return hipSuccess;
  });
}

hipError_t hipEventQuery(hipEvent_t event) {
  return CallOn("hipEventQuery", event, kInCallback, [&] {
    const hipError_t error = Query(*event);
    if (error == hipSuccess && event->releases) ShowWrites();
    return error;
  });
}

hipError_t hipEventSynchronize(hipEvent_t event) {
  return CallOn("hipEventSynchronize", event, kInCallback, [&] {
    // In a callback only what is complete; the simulator refuses to wait there.
    hipError_t error = Query(*event);
    if (error == hipErrorNotReady) {
      error = Sim<&devrt_ops_v0::event_sync>(event->sim);
    }
    if (error == hipSuccess) ShowWrites();
    return error;
  });
}

hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t begin,
                               hipEvent_t end) {
  return CallOn("hipEventElapsedTime", begin, kInCallback, [&] {
    if (end == nullptr) return hipErrorInvalidHandle;
    Events().Check(end, "hipEventElapsedTime", "event");
    if (!begin->timing || !end->timing || !begin->recorded || !end->recorded ||
        begin->device != end->device) {
      return hipErrorInvalidHandle;
    }
    int64_t nanoseconds = 0;
    const hipError_t error = Sim<&devrt_ops_v0::event_elapsed_ns>(
        begin->sim, end->sim, &nanoseconds);
    *milliseconds = static_cast<float>(static_cast<double>(nanoseconds) / 1e6);
    return error;
  });
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event,
                              unsigned flags) {
  return CallOn("hipStreamWaitEvent", event, kDeviceCall, [&] {
    Target target;
    hipError_t error = Resolve("hipStreamWaitEvent", stream, &target);
    if (error != hipSuccess) return error;
    if (flags != 0) return hipErrorInvalidValue;
    if (IsForgotten(*event)) return hipSuccess;
    devrt_stream bare = nullptr;
    error = BareOf(target, Bare::kWait, &bare);
    if (error != hipSuccess) return error;
    return Sim<&devrt_ops_v0::stream_wait_event>(bare, event->sim);
  });
}

// ---- Interprocess events: none leaves this process, and HIP opens none in the
// process that made it.

hipError_t hipIpcGetEventHandle(hipIpcEventHandle_t* handle, hipEvent_t event) {
  return CallOn("hipIpcGetEventHandle", event, kDeviceCall, [&] {
    if (!event->interprocess) return hipErrorInvalidConfiguration;
    std::memset(handle, 0, sizeof *handle);
    const pid_t process = getpid();
    std::memcpy(handle->reserved, &process, sizeof process);
    std::memcpy(handle->reserved + sizeof process, &event, sizeof event);
    return hipSuccess;
  });
}

hipError_t hipIpcOpenEventHandle(hipEvent_t*, hipIpcEventHandle_t handle) {
  return Call("hipIpcOpenEventHandle", kDeviceCall, [&] {
    pid_t process = 0;
    std::memcpy(&process, handle.reserved, sizeof process);
    return process == getpid() ? hipErrorInvalidContext : hipErrorInvalidValue;
  });
}
