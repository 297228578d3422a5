// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_STREAMS_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_STREAMS_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/handles.h"
#include "backends/mtia/engine/op.h"

namespace devrt::mtia {

// The streams of one device that have work, and its default stream.
struct DeviceStreams {
  StreamCore* busy = nullptr;  // a list by StreamCore::busy_next
  StreamCore* legacy = nullptr;
  Stream* legacy_handle = nullptr;
};

// Owns all streams: their cores, their handles, the default streams and the
// list of busy streams of each device.
//
// A core is the stream itself; a Stream is one handle of it.  Cores are used
// again after their stream has ended, and are never freed.
//
// Threads: every member is called inside the machine.
class Streams {
 public:
  // `config` outlives this object.
  explicit Streams(const Config* config) : config_(config) {}

  // Begins a machine with the devices of the configuration.
  void Start();
  // Ends all streams.  None of them has work.
  void Reset();

  // ---- handles ----

  // The live stream of `handle`, or nullptr.
  Stream* Find(uint64_t handle) const { return handles_.Find(handle); }
  // The live stream of `handle`, or nullptr with `*error` set.  An adopted
  // stream that its owner has destroyed is not live.
  Stream* Find(devrt_stream handle, devrt_status* error) const;

  // A new stream.  `priority` is brought into the range of the machine.
  Stream* Create(uint32_t device, StreamKind kind, int32_t priority);
  // Another handle of `core`, which does not own it.
  Stream* Adopt(StreamCore* core);
  // Ends the handle.  The core ends by Scheduler::ReleaseStream.
  void ReleaseHandle(Stream* stream);

  // ---- default streams, made at their first use ----

  StreamCore* Legacy(uint32_t device);
  Stream* LegacyHandle(uint32_t device);
  // The per-thread default stream of `me`.
  Stream* PerThread(HostThread* me, uint32_t device);

  // ---- busy streams ----

  const DeviceStreams& of(uint32_t device) const { return devices_[device]; }
  const std::vector<DeviceStreams>& devices() const { return devices_; }

  // Puts `s` into the list of busy streams.
  void MarkBusy(StreamCore* s) {
    if (!s->busy) AddBusy(s);
  }
  // Takes `s` out of the list if it has neither work, waits nor a failure to
  // report, and ends its core if the stream was destroyed.
  void LeaveBusyIfIdle(StreamCore* s);
  // Notes that a call has returned the failure of `s`.
  void NoteReported(StreamCore* s);
  // Takes `s`, whose work was thrown away by a reset, out of the list.
  void Clear(StreamCore* s);

  // ---- counts since the reset, default streams not included ----

  uint64_t created() const { return created_; }
  uint64_t live() const { return live_; }

 private:
  StreamCore* NewCore(uint32_t device, StreamKind kind, int32_t priority);
  Stream* NewStream(StreamCore* core);
  void PoolCore(StreamCore* s);
  void AddBusy(StreamCore* s);
  void LeaveBusy(StreamCore* s);

  const Config* const config_;
  std::vector<DeviceStreams> devices_;
  HandleTable<Stream, HandleKind::kStream> handles_;
  std::deque<StreamCore> cores_;
  std::vector<StreamCore*> free_cores_;
  std::vector<StreamCore*> failed_cores_;  // points still name them
  uint64_t last_number_ = 0;
  uint64_t created_ = 0;
  uint64_t live_ = 0;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_STREAMS_H_
