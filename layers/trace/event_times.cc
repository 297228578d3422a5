// SPDX-License-Identifier: Apache-2.0
//
// Times for any backend: a timing event just before each operation and one
// after it.  Two neighbouring operations do not share an event, because the
// stream may be idle between them.
//
// Operations of a stream end in order, so only the oldest is queried.  No lock
// is held during calls of the backend, except `collecting_`, for which no
// thread waits, and `bases_mutex_`, once for each device.
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "devrt/backends/abi/devrt_layer_helper.h"
#include "layers/trace/device_times.h"

namespace devrt::trace {
namespace {

// The number of operations of one stream that may be under way; older ones are
// given up.
constexpr size_t kMostUnderWay = 1024;
// The number of operations submitted to a stream between two queries.
constexpr uint64_t kLookEvery = 64;
// The number of destroyed streams that may have operations under way.
constexpr size_t kMostGone = 64;

class EventTimes : public DeviceTimes {
 public:
  EventTimes(const devrt_next_v0* next, const devrt_host_v0* host,
             Recorder* recorder, Clock* clock, uint8_t backend)
      : next_(next),
        host_(host),
        recorder_(recorder),
        clock_(clock),
        ring_(recorder->DeviceRing()) {
    Record r = {};
    r.backend = backend;
    r.call = kClock;
    r.name = recorder->Name("events");
    r.status = clock->is_virtual() ? 1 : 0;
    recorder->Push(ring_, r);
  }

  void StreamMade(devrt_stream handle, uint32_t device) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    streams_[handle] = MakeStream(device);
  }

  void StreamGone(devrt_stream handle) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = streams_.find(handle);
    if (found == streams_.end()) return;
    gone_.push_back(std::move(found->second));
    streams_.erase(found);
    if (gone_.size() <= kMostGone) return;
    while (!gone_.front()->under_way.empty()) GiveUpOldest(gone_.front().get());
    gone_.pop_front();
  }

  OpMark BeforeOp(devrt_stream handle) override {
    OpMark mark;
    uint32_t device = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      std::shared_ptr<Stream>& stream = streams_[handle];
      if (stream == nullptr) stream = MakeStream(0);
      mark.number = ++last_op_;
      device = stream->device;
      mark.begin = TakeEvent(device);
    }
    MakeBase(device);
    mark.begin = RecordEvent(mark.begin, handle, device);
    return mark;
  }

  void AfterOp(devrt_stream handle, const OpMark& mark,
               const Record& op) override {
    std::shared_ptr<Stream> stream;
    devrt_event end = nullptr;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found = streams_.find(handle);
      if (found == streams_.end()) return Destroy(mark.begin);
      stream = found->second;
      end = TakeEvent(stream->device);
    }
    end = RecordEvent(end, handle, stream->device);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stream->under_way.push_back({mark.begin, end, op});
      if (stream->under_way.size() > kMostUnderWay) GiveUpOldest(stream.get());
      if (++stream->ops % kLookEvery != 0) return;
    }
    const std::unique_lock<std::mutex> collecting(collecting_,
                                                  std::try_to_lock);
    if (collecting.owns_lock()) CollectStream(stream.get());
  }

  void OpFailed(devrt_stream handle, const OpMark& mark) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = streams_.find(handle);
    if (found != streams_.end()) GiveBack(mark.begin, found->second->device);
  }

  void Collect() override {
    // If another thread collects already, this one need not.
    const std::unique_lock<std::mutex> collecting(collecting_,
                                                  std::try_to_lock);
    if (collecting.owns_lock()) CollectAll();
  }

  void End() override {
    const std::lock_guard<std::mutex> collecting(collecting_);
    CollectAll();
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& [handle, stream] : streams_) gone_.push_back(stream);
    for (const auto& stream : gone_) {
      for (const UnderWay& op : stream->under_way) {
        Destroy(op.begin);
        Destroy(op.end);
      }
    }
    streams_.clear();
    gone_.clear();
    for (auto& [device, events] : free_) {
      for (const devrt_event event : events) Destroy(event);
    }
    free_.clear();
    for (auto& [device, base] : bases_) Destroy(base.event);
    bases_.clear();
  }

 private:
  // If an event is nullptr, the operation's times stay unknown.
  struct UnderWay {
    devrt_event begin, end;
    Record op;
  };
  struct Stream {
    uint32_t device = 0;
    uint64_t ops = 0;
    std::deque<UnderWay> under_way;  // in order of submission
  };
  struct Base {
    devrt_event event = nullptr;
    uint64_t now = 0;  // the time of clock_ when the event was complete
  };

  static std::shared_ptr<Stream> MakeStream(uint32_t device) {
    auto stream = std::make_shared<Stream>();
    stream->device = device;
    return stream;
  }

  // Returns true if there is no error; destroys the error.
  bool Ok(devrt_status error) const {
    if (error == nullptr) return true;
    host_->error_destroy(host_->host, error);
    return false;
  }

  void Destroy(devrt_event event) const {
    if (event == nullptr) return;
    (void)Ok(next_->ops->event_destroy(next_->self, event));
  }

  // ---- Callers hold mutex_ ----

  // Takes an event from the pool; nullptr if the pool is empty.
  devrt_event TakeEvent(uint32_t device) {
    std::vector<devrt_event>& pool = free_[device];
    if (pool.empty()) return nullptr;
    const devrt_event event = pool.back();
    pool.pop_back();
    return event;
  }

  void GiveBack(devrt_event event, uint32_t device) {
    if (event != nullptr) free_[device].push_back(event);
  }

  void GiveUpOldest(Stream* stream) {
    const UnderWay& oldest = stream->under_way.front();
    GiveBack(oldest.begin, stream->device);
    GiveBack(oldest.end, stream->device);
    stream->under_way.pop_front();
    recorder_->CountLost(Loss::kUnderWay, 1);
  }

  // ---- Callers hold no lock ----

  // Records `event`, or a new event if it is nullptr; nullptr on failure.
  devrt_event RecordEvent(devrt_event event, devrt_stream stream,
                          uint32_t device) {
    if (event == nullptr &&
        !Ok(next_->ops->event_create(next_->self, device, DEVRT_EVENT_TIMING,
                                     &event))) {
      return nullptr;
    }
    if (Ok(next_->ops->event_record(next_->self, event, stream))) return event;
    Destroy(event);
    return nullptr;
  }

  // Records the event from which times of a device count.  It uses a stream of
  // its own, because a stream of the program may wait for a later action of the
  // program.
  void MakeBase(uint32_t device) {
    const std::lock_guard<std::mutex> lock(bases_mutex_);
    const auto [found, is_new] = bases_.try_emplace(device);
    if (!is_new) return;
    devrt_stream_desc_v0 desc = {};
    desc.struct_size = sizeof desc;
    devrt_stream stream = nullptr;
    if (!Ok(next_->ops->stream_create(next_->self, device, &desc, &stream))) {
      return;
    }
    const devrt_event event = RecordEvent(nullptr, stream, device);
    if (event != nullptr && Ok(next_->ops->event_sync(next_->self, event))) {
      found->second = {event, clock_->Now()};
    } else {
      Destroy(event);
    }
    (void)Ok(next_->ops->stream_destroy(next_->self, stream));
  }

  Base BaseOf(uint32_t device) {
    const std::lock_guard<std::mutex> lock(bases_mutex_);
    return bases_[device];
  }

  // ---- Callers hold collecting_ ----

  void CollectAll() {
    std::vector<std::shared_ptr<Stream>> busy;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      while (!gone_.empty() && gone_.front()->under_way.empty()) {
        gone_.pop_front();
      }
      busy.assign(gone_.begin(), gone_.end());
      for (const auto& [handle, stream] : streams_) {
        if (!stream->under_way.empty()) busy.push_back(stream);
      }
    }
    for (const auto& stream : busy) CollectStream(stream.get());
  }

  void CollectStream(Stream* stream) {
    for (;;) {
      UnderWay op;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (stream->under_way.empty()) return;
        op = stream->under_way.front();
        stream->under_way.pop_front();
      }
      const bool done = Write(op, stream->device);
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!done) {
        stream->under_way.push_front(op);
        return;
      }
      GiveBack(op.begin, stream->device);
      GiveBack(op.end, stream->device);
    }
  }

  // Returns true if the operation was written or its times are lost.
  bool Write(const UnderWay& u, uint32_t device) {
    const devrt_ops_v0& ops = *next_->ops;
    const Base base = BaseOf(device);
    uint32_t done = 1;
    int64_t begin = 0, end = 0;
    const bool known =
        u.begin != nullptr && u.end != nullptr && base.event != nullptr &&
        Ok(ops.event_query(next_->self, u.end, &done)) &&
        (done == 0 ||
         (Ok(ops.event_elapsed_ns(next_->self, base.event, u.begin, &begin)) &&
          Ok(ops.event_elapsed_ns(next_->self, base.event, u.end, &end))));
    if (!known) {
      recorder_->CountLost(Loss::kUntimed, 1);
      return true;
    }
    if (done == 0) return false;
    Record r = u.op;
    r.call = kDeviceOp;
    // The begin event may be complete before the operation was submitted.
    r.begin_ns =
        std::max(base.now + static_cast<uint64_t>(begin), u.op.begin_ns);
    r.end_ns = std::max(base.now + static_cast<uint64_t>(end), r.begin_ns);
    r.object = u.op.total;  // the operation's number
    r.total = u.op.begin_ns;
    if (r.name == 0) {
      r.name = recorder_->StaticName(layer::kCallNames[u.op.call]);
    }
    r.device = static_cast<uint8_t>(device);
    r.status = 2;  // DEVRT_SIM_DONE
    recorder_->Push(ring_, r);
    return true;
  }

  const devrt_next_v0* const next_;
  const devrt_host_v0* const host_;
  Recorder* const recorder_;
  Clock* const clock_;
  RingHeader* const ring_;  // written with collecting_ held

  std::mutex collecting_;  // taken before the others
  std::mutex bases_mutex_;
  std::map<uint32_t, Base> bases_;
  std::mutex mutex_;  // guards all members below
  uint64_t last_op_ = 0;
  std::map<uint32_t, std::vector<devrt_event>> free_;
  std::map<devrt_stream, std::shared_ptr<Stream>> streams_;
  std::deque<std::shared_ptr<Stream>> gone_;
};

}  // namespace

std::unique_ptr<DeviceTimes> TimesOfEvents(const devrt_next_v0* next,
                                           const devrt_host_v0* host,
                                           Recorder* recorder, Clock* clock,
                                           uint8_t backend) {
  if ((next->capabilities & DEVRT_CAP_EVENT_TIMING) == 0) return nullptr;
  return std::make_unique<EventTimes>(next, host, recorder, clock, backend);
}

}  // namespace devrt::trace
