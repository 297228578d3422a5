// SPDX-License-Identifier: Apache-2.0
//
// A correct backend in which each stream is a thread of the host.  The thread
// comes to a wait only after the event is complete, so the first query of a
// stream whose newest operation is a wait may answer "not yet"; here the first
// query always does.
//
// DEVRT_TEST_BAD_RUNS=N makes the backend wrong, and only for a while: copies
// spoil the first byte of what they write until device_sync was called N times,
// which a random program does at its end.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace {

using Time = std::chrono::steady_clock::time_point;
using Lock = std::unique_lock<std::mutex>;

constexpr uint64_t kMemory = uint64_t{256} << 20;
constexpr uint64_t kAlignment = 256;

// One operation of a stream.  Guarded by StreamThreads::mutex_.
struct Operation {
  std::vector<std::shared_ptr<Operation>> after;  // of other streams
  std::function<void()> run;                      // may be empty
  bool over = false;
  Time time;  // of the end
};
using OperationRef = std::shared_ptr<Operation>;

// Guarded by StreamThreads::mutex_.
struct Stream {
  uint32_t kind = DEVRT_STREAM_CREATE;
  bool blocking = false;
  std::deque<OperationRef> queue;
  OperationRef last;     // the newest one
  bool lingers = false;  // `last` is a wait that no query has asked about
  bool leaving = false;  // ends when the queue is empty
  bool has_ended = false;
  std::condition_variable work;  // for the thread: one that comes, or the end
  std::thread thread;
};

struct Event {
  bool timed;
  OperationRef capture;  // guarded by StreamThreads::mutex_
};

Stream* Of(devrt_stream stream) { return reinterpret_cast<Stream*>(stream); }
Event* Of(devrt_event event) { return reinterpret_cast<Event*>(event); }

bool IsOver(const OperationRef& op) { return op == nullptr || op->over; }

// The thread's current device plus one; 0: the thread has none yet.
thread_local uint32_t current = 0;

class StreamThreads {
 public:
  explicit StreamThreads(const devrt_host_v0* host) : host_(host) {
    const char* const bad = std::getenv("DEVRT_TEST_BAD_RUNS");
    if (bad != nullptr) bad_runs_ = std::atoi(bad);
  }

  ~StreamThreads() {
    {
      const Lock lock(mutex_);
      for (Stream& stream : streams_) Leave(&stream);
    }
    for (Stream& stream : streams_) stream.thread.join();
  }

  // ---- Devices

  devrt_status device_count(uint32_t* count) {
    *count = 1;
    return nullptr;
  }
  devrt_status device_props(uint32_t device, devrt_device_props_v0* props) {
    if (device != 0) return NoDevice(device);
    devrt_device_props_v0 mine = {};
    std::snprintf(mine.name, sizeof mine.name, "A thread for each stream");
    std::snprintf(mine.arch, sizeof mine.arch, "host");
    mine.uuid[0] = 0x74;
    mine.multiprocessors = 1;
    mine.total_memory = kMemory;
    mine.alloc_alignment = kAlignment;
    mine.copy_engines = 1;
    mine.elapsed_resolution_ns = 1;
    mine.pageable_async = DEVRT_PAGEABLE_SYNC;
    devrt::plugin::WriteStruct(props, mine);
    return nullptr;
  }
  devrt_status device_sync(uint32_t device) {
    if (device != 0) return NoDevice(device);
    Lock lock(mutex_);
    std::vector<OperationRef> all;
    for (Stream& stream : streams_) {
      stream.lingers = false;
      all.push_back(stream.last);
    }
    WaitFor(all, &lock);
    --bad_runs_;
    return nullptr;
  }
  devrt_status context_enter(uint32_t device, devrt_context* previous) {
    if (device != 0) return NoDevice(device);
    if (previous != nullptr) *previous = {{current, 0}};
    current = device + 1;
    return nullptr;
  }
  devrt_status context_exit(const devrt_context* previous) {
    current = static_cast<uint32_t>(previous->state[0]);
    return nullptr;
  }
  devrt_status context_current(uint32_t* device) {
    *device = 0;
    return nullptr;
  }

  // ---- Memory

  devrt_status mem_info(uint32_t device, uint64_t* free_bytes,
                        uint64_t* total_bytes) {
    if (device != 0) return NoDevice(device);
    const Lock lock(mutex_);
    *free_bytes = kMemory - used_;
    *total_bytes = kMemory;
    return nullptr;
  }
  devrt_status alloc(uint32_t device, uint64_t size, uint64_t alignment,
                     void** ptr) {
    if (device != 0) return NoDevice(device);
    const Lock lock(mutex_);
    if (size > kMemory - used_) throw std::bad_alloc();
    *ptr = NewMemory(size, alignment);
    used_ += size;
    return nullptr;
  }
  devrt_status dealloc(uint32_t device, void* ptr, uint64_t size) {
    if (device != 0) return NoDevice(device);
    const Lock lock(mutex_);
    blocks_.erase(static_cast<char*>(ptr));
    std::free(ptr);
    used_ -= size;
    return nullptr;
  }
  devrt_status host_alloc(uint32_t device, uint64_t size, uint64_t alignment,
                          void** ptr) {
    if (device != 0) return NoDevice(device);
    const Lock lock(mutex_);
    *ptr = NewMemory(size, alignment);
    return nullptr;
  }
  devrt_status host_dealloc(void* ptr, uint64_t) {
    const Lock lock(mutex_);
    blocks_.erase(static_cast<char*>(ptr));
    std::free(ptr);
    return nullptr;
  }

  // ---- Streams

  devrt_status stream_create(uint32_t device, const devrt_stream_desc_v0* desc,
                             devrt_stream* stream) {
    if (device != 0) return NoDevice(device);
    const Lock lock(mutex_);
    Stream* made = nullptr;
    switch (desc->kind) {
      case DEVRT_STREAM_CREATE:
        made = Start(desc->kind, (desc->flags & DEVRT_STREAM_BLOCKING) != 0);
        break;
      case DEVRT_STREAM_LEGACY:
        if (legacy_ == nullptr) legacy_ = Start(desc->kind, false);
        made = legacy_;
        break;
      case DEVRT_STREAM_PER_THREAD: {
        Stream*& mine = per_thread_[std::this_thread::get_id()];
        if (mine == nullptr) mine = Start(desc->kind, true);
        made = mine;
        break;
      }
      default:
        return Fail(DEVRT_UNIMPLEMENTED, "foreign streams do not exist here");
    }
    *stream = reinterpret_cast<devrt_stream>(made);
    return nullptr;
  }
  devrt_status stream_destroy(devrt_stream stream) {
    if (Of(stream)->kind != DEVRT_STREAM_CREATE) {
      return Fail(DEVRT_INVALID_ARGUMENT,
                  "a default stream cannot be destroyed");
    }
    const Lock lock(mutex_);
    Leave(Of(stream));
    return nullptr;
  }
  devrt_status stream_query(devrt_stream stream, uint32_t* done) {
    const Lock lock(mutex_);
    *done = 1;
    for (Stream* const s : CoveredBy(Of(stream))) {
      if (!IsOver(s->last)) *done = 0;
    }
    if (*done == 0) return nullptr;
    for (Stream* const s : CoveredBy(Of(stream))) {
      if (std::exchange(s->lingers, false)) *done = 0;
    }
    return nullptr;
  }
  devrt_status stream_sync(devrt_stream stream) {
    Lock lock(mutex_);
    std::vector<OperationRef> all;
    for (Stream* const s : CoveredBy(Of(stream))) {
      s->lingers = false;
      all.push_back(s->last);
    }
    WaitFor(all, &lock);
    return nullptr;
  }
  devrt_status stream_native(devrt_stream stream, void** native) {
    *native = Of(stream)->kind == DEVRT_STREAM_PER_THREAD
                  ? static_cast<void*>(&per_thread_)
                  : static_cast<void*>(stream);
    return nullptr;
  }
  devrt_status stream_wait_event(devrt_stream stream, devrt_event event) {
    const Lock lock(mutex_);
    const OperationRef capture = Of(event)->capture;
    if (capture == nullptr) return nullptr;
    Submit(Of(stream), nullptr, capture);
    Of(stream)->lingers = true;
    return nullptr;
  }

  // ---- Events

  devrt_status event_create(uint32_t device, uint32_t flags,
                            devrt_event* event) {
    if (device != 0) return NoDevice(device);
    Event* const made = new Event{(flags & DEVRT_EVENT_TIMING) != 0, nullptr};
    *event = reinterpret_cast<devrt_event>(made);
    return nullptr;
  }
  devrt_status event_destroy(devrt_event event) {
    const Lock lock(mutex_);
    delete Of(event);
    return nullptr;
  }
  devrt_status event_record(devrt_event event, devrt_stream stream) {
    const Lock lock(mutex_);
    Of(event)->capture = Submit(Of(stream), nullptr);
    return nullptr;
  }
  devrt_status event_query(devrt_event event, uint32_t* done) {
    const Lock lock(mutex_);
    *done = IsOver(Of(event)->capture) ? 1 : 0;
    return nullptr;
  }
  devrt_status event_sync(devrt_event event) {
    Lock lock(mutex_);
    WaitFor({Of(event)->capture}, &lock);
    return nullptr;
  }
  devrt_status event_elapsed_ns(devrt_event begin, devrt_event end,
                                int64_t* nanoseconds) {
    const Lock lock(mutex_);
    const Event* const events[] = {Of(begin), Of(end)};
    for (const Event* const e : events) {
      if (!e->timed) {
        return Fail(DEVRT_INVALID_ARGUMENT, "an event was made without timing");
      }
    }
    for (const Event* const e : events) {
      if (e->capture == nullptr) {
        return Fail(DEVRT_INVALID_ARGUMENT, "an event was never recorded");
      }
    }
    for (const Event* const e : events) {
      if (!e->capture->over) {
        return Fail(DEVRT_FAILED_PRECONDITION, "an event is not complete");
      }
    }
    *nanoseconds = std::chrono::nanoseconds(events[1]->capture->time -
                                            events[0]->capture->time)
                       .count();
    return nullptr;
  }

  // ---- Work

  devrt_status copy_async(devrt_stream stream, void* dst, const void* src,
                          uint64_t size, uint32_t kind) {
    Lock lock(mutex_);
    const bool waits =
        kind == DEVRT_COPY_H2H || IsPageable(src) || IsPageable(dst);
    const OperationRef copy =
        Submit(Of(stream), [this, dst, src, size] { CopyNow(dst, src, size); });
    if (waits) WaitFor({copy}, &lock);
    return nullptr;
  }
  devrt_status fill_async(devrt_stream stream, void* dst, uint32_t value,
                          uint64_t size) {
    const Lock lock(mutex_);
    Submit(Of(stream), [dst, value, size] {
      std::memset(dst, static_cast<int>(value & 0xff), size);
    });
    return nullptr;
  }
  devrt_status host_func(devrt_stream stream,
                         void (*fn)(void* arg, devrt_status error), void* arg) {
    const Lock lock(mutex_);
    Submit(Of(stream), [fn, arg] { fn(arg, nullptr); });
    return nullptr;
  }

 private:
  devrt_status Fail(devrt_code code, std::string_view text) {
    return devrt::plugin::Error(host_, code, 0, text);
  }
  devrt_status NoDevice(uint32_t device) {
    return devrt::plugin::ErrorF(
        host_, DEVRT_INVALID_ARGUMENT, 0,
        "Device index value %u is out of index range [0, 1)", device);
  }

  void* NewMemory(uint64_t size, uint64_t alignment) {
    void* memory = nullptr;
    if (posix_memalign(&memory, std::max(alignment, kAlignment), size) != 0) {
      throw std::bad_alloc();
    }
    blocks_[static_cast<char*>(memory)] = size;
    return memory;
  }
  bool IsPageable(const void* pointer) const {
    const char* const at = static_cast<const char*>(pointer);
    const auto next = blocks_.upper_bound(at);
    if (next == blocks_.begin()) return true;
    const auto& [base, size] = *std::prev(next);
    return at >= base + size;
  }
  void CopyNow(void* dst, const void* src, uint64_t size) const {
    std::memmove(dst, src, size);
    if (bad_runs_ > 0) *static_cast<uint8_t*>(dst) ^= 0xff;
  }

  Stream* Start(uint32_t kind, bool blocking) {
    Reap();
    Stream& made = streams_.emplace_back();
    made.kind = kind;
    made.blocking = blocking;
    made.thread = std::thread([this, &made] { Work(&made); });
    return &made;
  }
  static void Leave(Stream* stream) {
    stream->leaving = true;
    stream->work.notify_one();
  }
  void Reap() {
    for (auto it = streams_.begin(); it != streams_.end();) {
      if (!it->has_ended) {
        ++it;
        continue;
      }
      it->thread.join();
      it = streams_.erase(it);
    }
  }
  // The body of a stream's thread.
  void Work(Stream* stream) {
    Lock lock(mutex_);
    while (true) {
      stream->work.wait(
          lock, [stream] { return stream->leaving || !stream->queue.empty(); });
      if (stream->queue.empty()) break;
      const OperationRef op = stream->queue.front();
      WaitFor(op->after, &lock);
      if (op->run) {
        lock.unlock();
        op->run();
        lock.lock();
      }
      stream->queue.pop_front();
      op->after.clear();
      op->over = true;
      op->time = std::chrono::steady_clock::now();
      over_.notify_all();
    }
    stream->has_ended = true;
  }

  // The legacy stream is ordered with all blocking ones, both ways (C8).
  OperationRef Submit(Stream* stream, std::function<void()> run,
                      const OperationRef& event = nullptr) {
    auto op = std::make_shared<Operation>();
    op->run = std::move(run);
    if (event != nullptr) op->after.push_back(event);
    if (stream == legacy_) {
      for (Stream* const s : CoveredBy(stream)) {
        s->lingers = false;
        if (s != stream && s->last != nullptr) op->after.push_back(s->last);
      }
    } else if (stream->blocking && legacy_ != nullptr &&
               legacy_->last != nullptr) {
      legacy_->lingers = false;
      op->after.push_back(legacy_->last);
    }
    stream->lingers = false;
    stream->queue.push_back(op);
    stream->last = op;
    stream->work.notify_one();
    return op;
  }
  // Returns the streams that a query or a synchronisation of the stream covers
  // (C21).
  std::vector<Stream*> CoveredBy(Stream* stream) {
    std::vector<Stream*> covered = {stream};
    if (stream != legacy_) return covered;
    for (Stream& other : streams_) {
      if (other.blocking) covered.push_back(&other);
    }
    return covered;
  }
  void WaitFor(const std::vector<OperationRef>& ops, Lock* lock) {
    over_.wait(*lock,
               [&ops] { return std::all_of(ops.begin(), ops.end(), IsOver); });
  }

  const devrt_host_v0* const host_;
  std::atomic<int> bad_runs_{0};
  std::mutex mutex_;              // guards what follows
  std::condition_variable over_;  // an operation is
  uint64_t used_ = 0;
  std::map<const char*, uint64_t> blocks_;  // base and size, pinned ones too
  std::list<Stream> streams_;
  Stream* legacy_ = nullptr;
  std::map<std::thread::id, Stream*> per_thread_;
};

}  // namespace

DEVRT_DEFINE_PLUGIN(StreamThreads, "stream_threads", "devrt tests", "1.0",
                    DEVRT_CAP_EVENT_TIMING | DEVRT_CAP_HOST_FUNC |
                        DEVRT_CAP_PINNED_HOST);
