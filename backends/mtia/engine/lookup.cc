// SPDX-License-Identifier: Apache-2.0
//
// Handles to objects, and the making of streams.
#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "backends/mtia/engine/engine.h"

namespace devrt::mtia {
namespace {

[[gnu::cold]] devrt_status BadHandle(const char* kind, uint64_t handle,
                                     bool was_ours) {
  char text[160];
  if (handle == 0) {
    std::snprintf(text, sizeof text, "the %s is NULL", kind);
  } else if (was_ours) {
    std::snprintf(text, sizeof text,
                  "%s 0x%" PRIx64
                  " was destroyed or belongs to a machine before sim reset",
                  kind, handle);
  } else {
    std::snprintf(text, sizeof text, "0x%" PRIx64 " is no %s of this backend",
                  handle, kind);
  }
  return MakeError(DEVRT_INVALID_ARGUMENT, 400, text);
}

}  // namespace

Stream* Engine::FindStream(devrt_stream handle, devrt_status* error) {
  const auto value = reinterpret_cast<uint64_t>(handle);
  Stream* const stream = streams.Find(value);
  if (stream == nullptr) {
    *error = BadHandle("stream", value, streams.WasOurs(value));
    return nullptr;
  }
  if (stream->life != stream->core->life || stream->core->destroyed) {
    *error = MakeError(DEVRT_INVALID_ARGUMENT, 400,
                       "the adopted stream was destroyed by its owner");
    return nullptr;
  }
  return stream;
}

Event* Engine::FindEvent(devrt_event handle, devrt_status* error) {
  const auto value = reinterpret_cast<uint64_t>(handle);
  Event* const event = events.Find(value);
  if (event == nullptr) {
    *error = BadHandle("event", value, events.WasOurs(value));
  }
  return event;
}

Flag* Engine::FindFlag(uint64_t handle, devrt_status* error) {
  Flag* const flag = flags.Find(handle);
  if (flag == nullptr) {
    *error = BadHandle("flag", handle, flags.WasOurs(handle));
  }
  return flag;
}

devrt_status Engine::CheckDevice(uint32_t device) const {
  if (device < g_device_count) return nullptr;
  char text[96];
  std::snprintf(text, sizeof text,
                "Device index value %d is out of index range [0, %u)",
                static_cast<int32_t>(device), g_device_count);
  return MakeError(DEVRT_INVALID_ARGUMENT, 101, text);
}

StreamCore* Engine::NewCore(uint32_t device, StreamKind kind,
                            int32_t priority) {
  if (free_cores_.empty()) {
    free_cores_.push_back(&cores_.emplace_back());
  }
  StreamCore* const s = free_cores_.back();
  free_cores_.pop_back();
  s->device = device;
  s->kind = kind;
  s->priority = priority;
  s->destroyed = false;
  s->in_use = true;
  s->number = ++last_stream_number;
  s->host_number = 0;
  s->base = s->issued;
  s->native = 0;
  s->last_end = 0;
  s->failure_told = false;
  return s;
}

void Engine::PoolCore(StreamCore* s) {
  s->in_use = false;
  ++s->life;
  free_cores_.push_back(s);
}

Stream* Engine::NewStream(StreamCore* core) {
  Stream* const stream = streams.New();
  stream->core = core;
  stream->life = core->life;
  stream->adopted = stream->is_default = false;
  return stream;
}

void Engine::ReleaseStream(Stream* stream, HostThread* me) {
  StreamCore* const core = stream->core;
  const bool owner = !stream->adopted && stream->life == core->life;
  streams.Release(stream);
  if (!owner) return;
  // An operation of its own, so that whoever asks for all work still finds it.
  const bool waits = std::any_of(core->pending.begin(), core->pending.end(),
                                 [](const Point& p) { return !Done(p); });
  if (waits && core->failed_from == kNever) {
    Submit(NewOp(OpKind::kWait, core, me, "wait"));
  }
  core->destroyed = true;
  MaybeIdle(core);
}

StreamCore* Engine::Legacy(uint32_t device) {
  DeviceState& d = devices[device];
  if (d.legacy == nullptr) {
    d.legacy = NewCore(device, StreamKind::kLegacy, config.priority_least);
    d.legacy_handle = NewStream(d.legacy);
    d.legacy_handle->is_default = true;
  }
  return d.legacy;
}

Stream* Engine::PerThread(HostThread* me, uint32_t device) {
  if (me->per_thread.size() <= device) me->per_thread.resize(device + 1);
  Stream*& stream = me->per_thread[device];
  if (stream == nullptr) {
    stream = NewStream(
        NewCore(device, StreamKind::kPerThread, config.priority_least));
    stream->is_default = true;
    stream->core->thread = me->index;
  }
  return stream;
}

}  // namespace devrt::mtia
