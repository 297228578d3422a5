// SPDX-License-Identifier: Apache-2.0
//
// Streams and host functions.
#include <algorithm>
#include <string>

#include "backends/mtia/engine/dependencies.h"
#include "backends/mtia/table/backend.h"
#include "backends/mtia/table/device_call.h"
#include "backends/mtia/table/poll.h"
#include "backends/mtia/table/submit.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace devrt::mtia {
namespace {

constexpr uint64_t kNativePerThread = 2;  // as cudaStreamPerThread

devrt_stream HandleOfStream(const Stream* stream) {
  return reinterpret_cast<devrt_stream>(HandleOf(*stream));
}

devrt_status Adopt(HostThread* me, uint32_t device, const void* native,
                   Stream** out) {
  const auto value = reinterpret_cast<uint64_t>(native);
  StreamCore* core = nullptr;
  if (value < kNativePerThread) {
    core = g_machine->streams.Legacy(device);
  } else if (value == kNativePerThread) {
    core = g_machine->streams.PerThread(me, device)->core;
  } else {
    devrt_status error = nullptr;
    const Stream* const owner =
        g_machine->streams.Find(reinterpret_cast<devrt_stream>(value), &error);
    if (owner == nullptr) return error;
    core = owner->core;
    if (core->device != device) {
      return MakeError(DEVRT_INVALID_ARGUMENT, 400,
                       "the stream to adopt is of device mtia:" +
                           std::to_string(core->device) +
                           ", not mtia:" + std::to_string(device));
    }
  }
  *out = g_machine->streams.Adopt(core);
  return nullptr;
}

Stream* Create(uint32_t device, const devrt_stream_desc_v0& desc) {
  const bool blocking = (desc.flags & DEVRT_STREAM_BLOCKING) != 0;
  return g_machine->streams.Create(
      device, blocking ? StreamKind::kBlocking : StreamKind::kNonBlocking,
      desc.priority);
}

}  // namespace

devrt_status Backend::stream_create(uint32_t device,
                                    const devrt_stream_desc_v0* given,
                                    devrt_stream* out) {
  DeviceCall call(Slot::stream_create, device);
  if (call.refused()) return call.error();
  const devrt_stream_desc_v0 desc = devrt::plugin::ReadStruct(given);
  Stream* stream = nullptr;
  switch (desc.kind) {
    case DEVRT_STREAM_CREATE:
      stream = Create(device, desc);
      break;
    case DEVRT_STREAM_LEGACY:
      stream = g_machine->streams.LegacyHandle(device);
      break;
    case DEVRT_STREAM_PER_THREAD:
      stream = g_machine->streams.PerThread(call.me(), device);
      break;
    case DEVRT_STREAM_ADOPT:
      if (devrt_status error = Adopt(call.me(), device, desc.native, &stream)) {
        return error;
      }
      break;
    default:
      return InvalidArgument("stream kind " + std::to_string(desc.kind) +
                             " does not exist");
  }
  *out = HandleOfStream(stream);
  return nullptr;
}

devrt_status Backend::stream_destroy(devrt_stream handle) {
  Call call(Slot::stream_destroy, OnStream(handle));
  if (call.refused()) return call.error();
  Stream* stream = g_machine->streams.Find(reinterpret_cast<uint64_t>(handle));
  if (stream == nullptr) {
    devrt_status error = nullptr;
    stream = g_machine->streams.Find(handle, &error);
    return error;
  }
  if (stream->is_default) {
    return MakeError(DEVRT_INVALID_ARGUMENT, 400,
                     "a default stream cannot be destroyed");
  }
  g_machine->scheduler.ReleaseStream(stream, call.me());
  return nullptr;
}

devrt_status Backend::stream_query(devrt_stream handle, uint32_t* done) {
  Call call(Slot::stream_query, OnStream(handle), CallTag::kCallback);
  if (call.refused()) return call.error();
  devrt_status error = nullptr;
  Stream* const stream = g_machine->streams.Find(handle, &error);
  if (stream == nullptr) return error;
  StreamCore* const core = stream->core;
  error = g_machine->faults.StreamError(core, call.entry());
  if (error != nullptr) return error;
  const Polled polled{stream, core->device};
  if (!core->busy && core->kind != StreamKind::kLegacy) {
    *done = 0;
    if (IsStale(call.me(), polled, core->last_end)) {
      g_machine->history.trace.Add(9, 0, call.me()->index);
      return nullptr;
    }
    ResetPollCounts(call.me());
    *done = 1;
    return nullptr;
  }
  Points& want = call.me()->want;
  want.clear();
  AddFrontier(g_machine->streams, core, &want);
  return Poll(&call, polled, core->last_end, done);
}

devrt_status Backend::stream_sync(devrt_stream handle) {
  Submission submission(Slot::stream_sync, handle);
  if (!submission.ok()) return submission.error();
  Points& want = submission.call().me()->want;
  want.clear();
  AddFrontier(g_machine->streams, submission.core(), &want);
  return submission.call().Wait();
}

devrt_status Backend::stream_native(devrt_stream handle, void** native) {
  Call call(Slot::stream_native, OnStream(handle), CallTag::kCallback);
  if (call.refused()) return call.error();
  devrt_status error = nullptr;
  const Stream* const stream = g_machine->streams.Find(handle, &error);
  if (stream == nullptr) return error;
  const StreamCore* const core = stream->core;
  const uint64_t value =
      core->kind == StreamKind::kPerThread ? kNativePerThread : core->native;
  *native = reinterpret_cast<void*>(value);
  return nullptr;
}

devrt_status Backend::stream_wait_event(devrt_stream stream,
                                        devrt_event handle) {
  Submission submission(Slot::stream_wait_event, stream);
  if (!submission.ok()) return submission.error();
  devrt_status error = nullptr;
  Event* const event = g_machine->events.Find(handle, &error);
  if (event == nullptr) return error;
  // Not the event's number: which event a program uses again for a record is no
  // part of the schedule.
  const Point& p = event->point;
  g_machine->history.trace.Add(
      6, submission.core()->number,
      p.stream == nullptr ? 0
                          : p.stream->number << 48 | (p.seq - p.stream->base));
  g_machine->scheduler.WaitEvent(submission.core(), event,
                                 submission.call().me());
  return nullptr;
}

devrt_status Backend::host_func(devrt_stream stream,
                                void (*fn)(void* arg, devrt_status error),
                                void* arg) {
  Submission submission(Slot::host_func, stream);
  if (!submission.ok()) return submission.error();
  Op* const op =
      submission.NewOp(OpKind::kHostFunc, EngineClass::kHost, "host function");
  op->host_func = fn;
  op->arg = arg;
  g_machine->scheduler.Submit(op);
  return nullptr;
}

}  // namespace devrt::mtia
