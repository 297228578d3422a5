// SPDX-License-Identifier: Apache-2.0

#include "streams/captures/captures.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "devrt/runtime/mutex.h"
#include "devrt/runtime/status.h"
#include "streams/objects/device_streams.h"
#include "streams/objects/ordering.h"
#include "streams/objects/stream_target.h"

namespace devrt::internal {

namespace {

using Key = std::pair<const BackendRecord*, uint64_t>;

using Objects = std::vector<std::unique_ptr<DeferredObject>>;

// The captures whose graphs are held, and the objects that end with each.
class HeldCaptures {
 public:
  static HeldCaptures& Get() {
    static HeldCaptures* const all = new HeldCaptures;
    return *all;
  }

  // kNone if the capture is not held yet.
  CaptureNumber Find(const Key& key) DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    const auto found = by_key_.find(key);
    return found != by_key_.end() ? found->second : CaptureNumber::kNone;
  }
  // A new number, which Find does not return yet.
  CaptureNumber Begin() DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    const CaptureNumber number{++last_};
    live_[number];
    return number;
  }
  // The capture is held.  It may be over already.
  void Publish(const Key& key, CaptureNumber number) DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    if (live_.contains(number)) by_key_[key] = number;
  }
  // The capture is over: takes out the objects that end with it.
  Objects TakeOut(const Key& key, CaptureNumber number) DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    const auto known = by_key_.find(key);
    if (known != by_key_.end() && known->second == number) by_key_.erase(known);
    const auto found = live_.find(number);
    Objects objects = std::move(found->second);
    live_.erase(found);
    return objects;
  }
  bool IsLive(CaptureNumber number) DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return live_.contains(number);
  }
  bool AddObject(CaptureNumber number, std::unique_ptr<DeferredObject> object)
      DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    if (number == CaptureNumber::kUnknown) {
      for_ever_.push_back(std::move(object));
      return true;
    }
    const auto found = live_.find(number);
    if (found == live_.end()) return false;
    found->second.push_back(std::move(object));
    return true;
  }
  std::unique_ptr<DeferredObject> TakeObject(
      CaptureNumber number, absl::FunctionRef<bool(const DeferredObject&)> f)
      DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    const auto found = live_.find(number);
    if (found == live_.end()) return nullptr;
    Objects& objects = found->second;
    const auto object =
        std::find_if(objects.rbegin(), objects.rend(),
                     [f](const auto& candidate) { return f(*candidate); });
    if (object == objects.rend()) return nullptr;
    std::unique_ptr<DeferredObject> taken = std::move(*object);
    objects.erase(std::next(object).base());
    return taken;
  }
  // Held over the call that holds a capture, so that two threads of one capture
  // hold it once.
  Mutex* Holding() { return &holding_; }

 private:
  Mutex holding_;
  Mutex mutex_;  // a leaf
  uint64_t last_ DEVRT_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<Key, CaptureNumber> by_key_ DEVRT_GUARDED_BY(mutex_);
  absl::flat_hash_map<CaptureNumber, Objects> live_ DEVRT_GUARDED_BY(mutex_);
  Objects for_ever_ DEVRT_GUARDED_BY(mutex_);
};

// The object that is attached to the graph.
struct CaptureHold final : DeferredObject {
  CaptureHold(const Key& of, CaptureNumber its) : key(of), number(its) {}
  ~CaptureHold() override { (void)HeldCaptures::Get().TakeOut(key, number); }

  const Key key;
  const CaptureNumber number;
};

// The capture of `stream`, which is captured.
absl::StatusOr<CaptureNumber> Hold(DeviceRecord* device, devrt_stream stream) {
  const auto& [table, self] = DeviceStreams::Of(device)->capture;
  if (table->stream_capture_id == nullptr || table->capture_retain == nullptr) {
    return CaptureNumber::kUnknown;
  }
  uint64_t id = 0;
  DEVRT_RETURN_IF_ERROR(FromPlugin(
      device, table->stream_capture_id(self, stream, &id), "capture's number"));
  const Key key(device->backend, id);
  HeldCaptures& all = HeldCaptures::Get();
  CaptureNumber number = all.Find(key);
  if (number != CaptureNumber::kNone) return number;
  std::unique_ptr<CaptureHold> hold;  // after a failure destroyed without lock
  MutexLock lock(all.Holding());
  number = all.Find(key);
  if (number != CaptureNumber::kNone) return number;
  number = all.Begin();
  hold = std::make_unique<CaptureHold>(key, number);
  // The driver may hold locks in this call, so it only adds to a list.
  void (*const release)(void*) = [](void* arg) {
    DeferCaptureEnd(static_cast<CaptureHold*>(arg));
  };
  DEVRT_RETURN_IF_ERROR(FromPlugin(
      device, table->capture_retain(self, stream, release, hold.get()),
      "hold on a capture's graph"));
  (void)hold.release();  // the driver may have destroyed the object by now
  all.Publish(key, number);
  return number;
}

}  // namespace

absl::StatusOr<CaptureNumber> HoldCapture(StreamRef stream) {
  DEVRT_ASSIGN_OR_RETURN(const bool capturing, IsCapturing(stream));
  if (ABSL_PREDICT_TRUE(!capturing)) return CaptureNumber::kNone;
  const StreamRecord* const record = stream.record();
  return Hold(record->device, record->handle.load(std::memory_order_acquire));
}

absl::StatusOr<CaptureNumber> HoldCapture(const HeldStream& stream) {
  DEVRT_ASSIGN_OR_RETURN(const bool capturing, IsCapturing(stream));
  if (!capturing) return CaptureNumber::kNone;
  return Hold(stream.device(), stream.handle());
}

bool IsOver(CaptureNumber capture) {
  return capture != CaptureNumber::kNone &&
         capture != CaptureNumber::kUnknown &&
         !HeldCaptures::Get().IsLive(capture);
}

bool KeepUntilOver(CaptureNumber capture,
                   std::unique_ptr<DeferredObject> object) {
  return HeldCaptures::Get().AddObject(capture, std::move(object));
}

std::unique_ptr<DeferredObject> TakeOutNewest(
    CaptureNumber capture,
    absl::FunctionRef<bool(const DeferredObject& object)> f) {
  return HeldCaptures::Get().TakeObject(capture, f);
}

}  // namespace devrt::internal
