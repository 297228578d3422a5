// SPDX-License-Identifier: Apache-2.0
//
// On any backend: a timing event before and after each operation.  The event
// after one operation is the one before the next, unless a wait came between.
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "layers/trace/device_times.h"

namespace devrt::trace {
namespace {

// So many operations may be under way before Collect is called for them.
constexpr size_t kMostPending = 4096;

class EventTimes : public DeviceTimes {
 public:
  EventTimes(const devrt_next_v0* next, const devrt_host_v0* host,
             Recorder* recorder, uint8_t backend)
      : next_(next),
        host_(host),
        recorder_(recorder),
        ring_(recorder->DeviceRing()) {
    Record clock = {};
    clock.backend = backend;
    clock.call = kClock;
    clock.name = recorder->Name("events");
    recorder->Push(ring_, clock);
  }

  void StreamMade(devrt_stream stream, uint32_t device) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    streams_[stream].device = device;
  }

  void StreamGone(devrt_stream stream) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    streams_.erase(stream);
  }

  uint64_t BeforeOp(devrt_stream handle) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    StreamState& stream = streams_[handle];
    MakeBase(stream.device);
    if (stream.last == nullptr) stream.last = Mark(handle, stream.device);
    return ++stream.ops;
  }

  void AfterOp(devrt_stream handle, const Record& op) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      StreamState& stream = streams_[handle];
      const std::shared_ptr<Timed> end = Mark(handle, stream.device);
      if (stream.last != nullptr && end != nullptr) {
        pending_.push_back({stream.last, end, op, stream.device});
      }
      stream.last = end;
      if (pending_.size() < kMostPending) return;
    }
    Collect();
  }

  void AfterWait(devrt_stream handle) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = streams_.find(handle);
    if (found != streams_.end()) found->second.last = nullptr;
  }

  void Collect() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < pending_.size();) {
      if (!Write(pending_[i])) {
        ++i;
        continue;
      }
      pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  void End() override {
    Collect();
    const std::lock_guard<std::mutex> lock(mutex_);
    pending_.clear();
    streams_.clear();  // their events are in free_ now
    for (auto& [device, events] : free_) {
      for (const devrt_event event : events) Destroy(event);
    }
    free_.clear();
    for (auto& [device, base] : bases_) Destroy(base.event);
    bases_.clear();
  }

 private:
  // A recorded event; goes back to the pool.
  struct Timed {
    EventTimes* owner;
    devrt_event event;
    uint32_t device;
    ~Timed() { owner->free_[device].push_back(event); }
  };
  struct StreamState {
    uint32_t device = 0;
    std::shared_ptr<Timed> last;
    uint64_t ops = 0;
  };
  struct Pending {
    std::shared_ptr<Timed> begin, end;
    Record op;
    uint32_t device;
  };
  struct Base {
    devrt_event event;
    uint64_t host_ns;
  };

  // Whether `error` is none; ends it.
  bool Ok(devrt_status error) const {
    if (error == nullptr) return true;
    host_->error_destroy(host_->host, error);
    return false;
  }

  void Destroy(devrt_event event) {
    if (event != nullptr) (void)Ok(next_->ops->event_destroy(next_->self, event));
  }

  std::shared_ptr<Timed> Mark(devrt_stream stream, uint32_t device) {
    std::vector<devrt_event>& pool = free_[device];
    devrt_event event = nullptr;
    if (!pool.empty()) {
      event = pool.back();
      pool.pop_back();
    } else if (!Ok(next_->ops->event_create(next_->self, device,
                                            DEVRT_EVENT_TIMING, &event))) {
      return nullptr;
    }
    std::shared_ptr<Timed> timed(new Timed{this, event, device});
    if (!Ok(next_->ops->event_record(next_->self, event, stream))) {
      return nullptr;
    }
    return timed;
  }

  // The moment that times of a device count from.  On a stream of its own: the
  // program's may wait for what the program does later.
  void MakeBase(uint32_t device) {
    if (bases_.count(device) != 0) return;
    Base& base = bases_[device];
    base = {};
    devrt_stream_desc_v0 desc = {};
    desc.struct_size = sizeof desc;
    devrt_stream stream = nullptr;
    devrt_event event = nullptr;
    if (!Ok(next_->ops->stream_create(next_->self, device, &desc, &stream))) {
      return;
    }
    if (Ok(next_->ops->event_create(next_->self, device, DEVRT_EVENT_TIMING,
                                    &event)) &&
        Ok(next_->ops->event_record(next_->self, event, stream)) &&
        Ok(next_->ops->event_sync(next_->self, event))) {
      base = {event, NowNs()};
    } else {
      Destroy(event);
    }
    (void)Ok(next_->ops->stream_destroy(next_->self, stream));
  }

  // Whether it is done with, known or lost.
  bool Write(const Pending& p) {
    const devrt_ops_v0& ops = *next_->ops;
    uint32_t done = 0;
    if (!Ok(ops.event_query(next_->self, p.end->event, &done))) return true;
    if (done == 0) return false;
    const Base& base = bases_[p.device];
    int64_t begin = 0, end = 0;
    if (base.event == nullptr ||
        !Ok(ops.event_elapsed_ns(next_->self, base.event, p.begin->event,
                                 &begin)) ||
        !Ok(ops.event_elapsed_ns(next_->self, base.event, p.end->event,
                                 &end))) {
      return true;
    }
    Record r = p.op;
    r.call = kDeviceOp;
    r.begin_ns = base.host_ns + static_cast<uint64_t>(begin);
    r.end_ns = base.host_ns + static_cast<uint64_t>(end);
    r.object = p.op.total;  // its number
    r.total = p.op.call;
    r.device = static_cast<uint8_t>(p.device);
    r.status = 2;  // DEVRT_SIM_DONE
    recorder_->Push(ring_, r);
    return true;
  }

  const devrt_next_v0* const next_;
  const devrt_host_v0* const host_;
  Recorder* const recorder_;
  std::mutex mutex_;
  RingHeader* const ring_;
  std::map<uint32_t, std::vector<devrt_event>> free_;
  std::map<uint32_t, Base> bases_;
  std::map<devrt_stream, StreamState> streams_;
  std::deque<Pending> pending_;
};

}  // namespace

std::unique_ptr<DeviceTimes> TimesOfEvents(const devrt_next_v0* next,
                                           const devrt_host_v0* host,
                                           Recorder* recorder,
                                           uint8_t backend) {
  if ((next->capabilities & DEVRT_CAP_EVENT_TIMING) == 0) return nullptr;
  return std::make_unique<EventTimes>(next, host, recorder, backend);
}

}  // namespace devrt::trace
