// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "backends/mtia/common/text.h"
#include "backends/mtia/table/backend.h"
#include "backends/mtia/table/device_call.h"
#include "backends/mtia/table/poll.h"
#include "backends/mtia/table/submit.h"

namespace devrt::mtia {
namespace {

constexpr uint32_t kKnownFlags =
    DEVRT_EVENT_TIMING | DEVRT_EVENT_BLOCKING_SYNC | DEVRT_EVENT_IPC;

// The checks of C35, in that order.
devrt_status CheckElapsed(const Event* begin, const Event* end) {
  if ((begin->flags & end->flags & DEVRT_EVENT_TIMING) == 0) {
    return MakeError(
        DEVRT_INVALID_ARGUMENT, 400,
        "Both events must be created with argument 'enable_timing=True'");
  }
  if (begin->point.stream == nullptr || end->point.stream == nullptr) {
    return MakeError(
        DEVRT_INVALID_ARGUMENT, 400,
        "Both events must be recorded before calculating elapsed time");
  }
  if (begin->device != end->device) {
    return MakeError(DEVRT_INVALID_ARGUMENT, 400,
                     "Both events must be of one device, but they are of " +
                         DeviceName(begin->device) + " and " +
                         DeviceName(end->device));
  }
  for (const Event* const event : {begin, end}) {
    if (Failed(event->point)) {
      return MakeFaultStatus(*event->point.stream->origin, "event_elapsed_ns");
    }
  }
  if (!begin->ended || !end->ended) {
    return MakeError(
        DEVRT_FAILED_PRECONDITION, 600,
        "Both events must be completed before calculating elapsed time");
  }
  return nullptr;
}

}  // namespace

devrt_status Poll(Call* call, Polled polled, const VTime& ended,
                  uint32_t* done) {
  HostThread* const me = call->me();
  const Points& want = me->want;
  if (devrt_status error = g_machine->faults.PointsError(want, call->entry())) {
    return error;
  }
  if (!AllDone(want) && t_user_code == nullptr) {
    const Point asked = want[0];
    const bool again =
        asked.stream == me->polled.stream && asked.seq == me->polled.seq;
    me->polled_same = again ? me->polled_same + 1 : 1;
    ++me->polled_any;
    me->polled = asked;
    me->want_next = 0;
    if (devrt_status error = g_machine->driver->SoftWait(me)) return error;
    if (devrt_status error =
            g_machine->faults.PointsError(want, call->entry())) {
      return error;
    }
  }
  *done = AllDone(want) ? 1 : 0;
  if (*done != 0 && !want.empty() && IsStale(me, polled, ended)) *done = 0;
  g_machine->history.trace.Add(9, *done, me->index);
  if (*done == 0) return nullptr;
  ResetPollCounts(me);
  return nullptr;
}

devrt_status Backend::event_create(uint32_t device, uint32_t flags,
                                   devrt_event* out) {
  DeviceCall call(Slot::event_create, device);
  if (call.refused()) return call.error();
  if ((flags & ~kKnownFlags) != 0) {
    return InvalidArgument("unknown event flags " + std::to_string(flags));
  }
  if ((flags & DEVRT_EVENT_IPC) != 0) {
    if ((flags & DEVRT_EVENT_TIMING) != 0) {
      return InvalidArgument("an interprocess event cannot have timing");
    }
    return MakeError(DEVRT_UNIMPLEMENTED, 801,
                     "mtia has no interprocess events (EVENT_IPC)");
  }
  Event* const event = g_machine->events.New(device, flags);
  *out = reinterpret_cast<devrt_event>(HandleOf(*event));
  return nullptr;
}

devrt_status Backend::event_destroy(devrt_event handle) {
  EventCall call(Slot::event_destroy, handle);
  if (call.refused()) return call.error();
  Event* const event = call.event();
  g_machine->events.Release(event);
  return nullptr;
}

devrt_status Backend::event_record(devrt_event handle, devrt_stream stream) {
  Submission submission(Slot::event_record, stream);
  if (!submission.ok()) return submission.error();
  devrt_status error = nullptr;
  Event* const event = g_machine->events.Find(handle, &error);
  if (event == nullptr) return error;
  StreamCore* const core = submission.core();
  if (event->device != core->device) {
    return MakeError(DEVRT_INVALID_ARGUMENT, 400,
                     "the event is of device " + DeviceName(event->device) +
                         ", the stream of " + DeviceName(core->device));
  }
  g_machine->scheduler.Record(event, core, submission.call().me());
  return nullptr;
}

devrt_status Backend::event_query(devrt_event handle, uint32_t* done) {
  EventCall call(Slot::event_query, handle, CallTag::kCallback);
  if (call.refused()) return call.error();
  Event* const event = call.event();
  if (devrt_status error = call.DeviceError()) return error;
  Points& want = call.me()->want;
  want.clear();
  if (event->point.stream != nullptr) want.push_back(event->point);
  return Poll(&call, {event, event->device}, event->end, done);
}

devrt_status Backend::event_sync(devrt_event handle) {
  EventCall call(Slot::event_sync, handle);
  if (call.refused()) return call.error();
  Event* const event = call.event();
  if (devrt_status error = call.DeviceError()) return error;
  call.NoteSite();
  Points& want = call.me()->want;
  want.clear();
  if (event->point.stream != nullptr) want.push_back(event->point);
  return call.Wait();
}

devrt_status Backend::event_elapsed_ns(devrt_event begin_handle,
                                       devrt_event end_handle,
                                       int64_t* nanoseconds) {
  EventCall call(Slot::event_elapsed_ns, begin_handle, CallTag::kCallback);
  if (call.refused()) return call.error();
  const Event* const begin = call.event();
  devrt_status error = nullptr;
  const Event* const end = g_machine->events.Find(end_handle, &error);
  if (end == nullptr) return error;
  if (devrt_status bad = CheckElapsed(begin, end)) return bad;
  *nanoseconds = static_cast<int64_t>(end->end - begin->end);
  return nullptr;
}

devrt_status Backend::event_native(devrt_event handle, void** native) {
  EventCall call(Slot::event_native, handle, CallTag::kCallback);
  if (call.refused()) return call.error();
  const Event* const event = call.event();
  *native = event->point.stream == nullptr
                ? nullptr
                : reinterpret_cast<void*>(HandleOf(*event));
  return nullptr;
}

}  // namespace devrt::mtia
