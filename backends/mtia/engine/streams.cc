// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/streams.h"

#include <algorithm>

namespace devrt::mtia {

void Streams::Start() { devices_.assign(config_->devices, DeviceStreams()); }

void Streams::Reset() {
  for (StreamCore* const s : failed_cores_) {
    s->failed_from = kNever;
    free_cores_.push_back(s);
  }
  failed_cores_.clear();
  handles_.ForEachLive([this](Stream* stream) {
    StreamCore* const core = stream->core;
    if (!stream->adopted && core->in_use && !core->destroyed) PoolCore(core);
    handles_.Release(stream);
  });
  last_number_ = created_ = live_ = 0;
}

// ---- handles ----

Stream* Streams::Find(devrt_stream handle, devrt_status* error) const {
  const auto value = reinterpret_cast<uint64_t>(handle);
  Stream* const stream = handles_.Find(value);
  if (stream == nullptr) {
    *error = BadHandle("stream", value, handles_.WasOurs(value));
    return nullptr;
  }
  if (stream->life != stream->core->life || stream->core->destroyed) {
    *error = MakeError(DEVRT_INVALID_ARGUMENT, 400,
                       "the adopted stream was destroyed by its owner");
    return nullptr;
  }
  return stream;
}

StreamCore* Streams::NewCore(uint32_t device, StreamKind kind,
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
  s->number = ++last_number_;
  s->host_number = 0;
  s->base = s->issued;
  s->native = 0;
  s->last_end = 0;
  s->rank = 0;
  s->failure_reported = false;
  return s;
}

void Streams::PoolCore(StreamCore* s) {
  s->in_use = false;
  ++s->life;
  free_cores_.push_back(s);
}

Stream* Streams::NewStream(StreamCore* core) {
  Stream* const stream = handles_.New();
  stream->core = core;
  stream->life = core->life;
  stream->adopted = stream->is_default = false;
  return stream;
}

Stream* Streams::Create(uint32_t device, StreamKind kind, int32_t priority) {
  const int32_t clamped = std::min(
      std::max(priority, config_->priority_greatest), config_->priority_least);
  StreamCore* const core = NewCore(device, kind, clamped);
  Stream* const stream = NewStream(core);
  core->native = HandleOf(*stream);
  ++created_;
  ++live_;
  return stream;
}

Stream* Streams::Adopt(StreamCore* core) {
  Stream* const stream = NewStream(core);
  stream->adopted = true;
  return stream;
}

void Streams::ReleaseHandle(Stream* stream) {
  if (!stream->adopted && !stream->is_default) --live_;
  handles_.Release(stream);
}

// ---- default streams ----

StreamCore* Streams::Legacy(uint32_t device) {
  DeviceStreams& d = devices_[device];
  if (d.legacy == nullptr) {
    d.legacy = NewCore(device, StreamKind::kLegacy, config_->priority_least);
    d.legacy_handle = NewStream(d.legacy);
    d.legacy_handle->is_default = true;
  }
  return d.legacy;
}

Stream* Streams::LegacyHandle(uint32_t device) {
  Legacy(device);
  return devices_[device].legacy_handle;
}

Stream* Streams::PerThread(HostThread* me, uint32_t device) {
  if (me->per_thread.size() <= device) me->per_thread.resize(device + 1);
  Stream*& stream = me->per_thread[device];
  if (stream == nullptr) {
    stream = NewStream(
        NewCore(device, StreamKind::kPerThread, config_->priority_least));
    stream->is_default = true;
    stream->core->thread = me->index;
  }
  return stream;
}

// ---- busy streams ----

void Streams::AddBusy(StreamCore* s) {
  s->busy = true;
  StreamCore*& first = devices_[s->device].busy;
  s->busy_prev = nullptr;
  s->busy_next = first;
  if (first != nullptr) first->busy_prev = s;
  first = s;
}

void Streams::LeaveBusy(StreamCore* s) {
  if (!s->busy) return;
  s->busy = false;
  StreamCore*& first = devices_[s->device].busy;
  (s->busy_prev != nullptr ? s->busy_prev->busy_next : first) = s->busy_next;
  if (s->busy_next != nullptr) s->busy_next->busy_prev = s->busy_prev;
}

void Streams::LeaveBusyIfIdle(StreamCore* s) {
  if (s->head != nullptr) return;
  if (s->failed_from != kNever) {
    // Once the failure was reported, a healthy device must not answer for a
    // stream that is gone.  Events may still refer to the core.
    if (!s->destroyed || !s->failure_reported || !s->in_use) return;
    LeaveBusy(s);
    s->in_use = false;
    ++s->life;
    failed_cores_.push_back(s);
    return;
  }
  if (s->destroyed) s->pending.clear();
  if (!s->pending.empty()) return;
  LeaveBusy(s);
  if (s->destroyed) PoolCore(s);
}

void Streams::NoteReported(StreamCore* s) {
  s->failure_reported = true;
  LeaveBusyIfIdle(s);
}

void Streams::Clear(StreamCore* s) {
  LeaveBusy(s);
  s->failed_from = kNever;
  s->pending.clear();
  if (s->destroyed) PoolCore(s);
}

}  // namespace devrt::mtia
