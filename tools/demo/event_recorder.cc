// SPDX-License-Identifier: Apache-2.0
//
// Times from events: one before and one after each operation.  An operation
// then seems to begin when its stream was ready for it, which may be before an
// engine was free.

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "devrt/runtime/status.h"
#include "devrt/streams/event.h"
#include "tools/demo/recorder.h"

namespace devrt::tools {
namespace {

constexpr double kNanosecondsPerMillisecond = 1e6;

class EventRecorder final : public Recorder {
 public:
  absl::Status Start(const std::vector<Device>& devices) override {
    // Clocks of two devices cannot be compared, so all begin here, as close
    // together as the host can make it.
    for (Device device : devices) DEVRT_RETURN_IF_ERROR(device.Synchronize());
    for (Device device : devices) {
      DEVRT_RETURN_IF_ERROR(Record(DefaultStream(device), &origins_));
    }
    return absl::OkStatus();
  }

  absl::Status Before(StreamRef stream) override {
    return Record(stream, &begins_);
  }
  absl::Status After(StreamRef stream) override {
    return Record(stream, &ends_);
  }

  absl::Status Finish(std::vector<TimelineOp>* ops) override {
    if (begins_.size() != ops->size() || ends_.size() != ops->size()) {
      return absl::InternalError("operations and events do not match");
    }
    for (size_t i = 0; i < ops->size(); ++i) {
      DEVRT_ASSIGN_OR_RETURN((*ops)[i].begin_ns, SinceOrigin(begins_[i]));
      DEVRT_ASSIGN_OR_RETURN((*ops)[i].end_ns, SinceOrigin(ends_[i]));
    }
    return absl::OkStatus();
  }

  std::string clock() const override {
    return "timing events, each device's clock";
  }

 private:
  static absl::Status Record(StreamRef stream, std::vector<Event>* events) {
    EventOptions options;
    options.timing = true;
    DEVRT_ASSIGN_OR_RETURN(Event event,
                           Event::Create(stream.device(), options));
    DEVRT_RETURN_IF_ERROR(event.Record(stream));
    events->push_back(std::move(event));
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> SinceOrigin(const Event& event) const {
    for (const Event& origin : origins_) {
      if (origin.device() != event.device()) continue;
      DEVRT_ASSIGN_OR_RETURN(const double ms,
                             ElapsedMilliseconds(origin, event));
      return static_cast<uint64_t>(
          std::llround(std::max(ms, 0.0) * kNanosecondsPerMillisecond));
    }
    return absl::InternalError("an operation on a device without an origin");
  }

  std::vector<Event> origins_;  // one a device
  std::vector<Event> begins_;   // one an operation
  std::vector<Event> ends_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Recorder>> MakeEventRecorder(Backend backend) {
  if (!backend.Has(DEVRT_CAP_EVENT_TIMING)) {
    return absl::UnimplementedError(absl::StrFormat(
        "backend \"%s\" has no event timing, so nothing can be said about when "
        "its operations ran",
        backend.name()));
  }
  return std::unique_ptr<Recorder>(std::make_unique<EventRecorder>());
}

}  // namespace devrt::tools
