// SPDX-License-Identifier: Apache-2.0
//
// Takes times from two timing events for each operation, one before and one
// after it.  An operation seems to begin when its stream was ready for it.  The
// engine may have been busy at that time and begun later.
//
// The clocks of two devices cannot be compared.  The host records an origin on
// each device, one right after the other.  Then the times of a device are moved
// forward until no operation begins before the operations that it waited for
// end.

#include <algorithm>
#include <cmath>
#include <limits>
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
    for (Device device : devices) DEVRT_RETURN_IF_ERROR(device.Synchronize());
    for (Device device : devices) {
      DEVRT_RETURN_IF_ERROR(Record(DefaultStream(device), &origins_));
    }
    return absl::OkStatus();
  }

  absl::Status BeforeSubmit(StreamRef stream) override {
    return Record(stream, &begins_);
  }
  absl::Status AfterSubmit(StreamRef stream) override {
    return Record(stream, &ends_);
  }

  absl::Status Finish(std::vector<TimelineOp>* ops) override {
    if (begins_.size() != ops->size() || ends_.size() != ops->size()) {
      return absl::InternalError("operations and events do not match");
    }
    std::vector<Span> spans;
    for (size_t i = 0; i < ops->size(); ++i) {
      DEVRT_ASSIGN_OR_RETURN(Span span, Measure(begins_[i], ends_[i]));
      spans.push_back(span);
    }
    for (size_t d = 1; d < origins_.size(); ++d) SetForward(d, *ops, &spans);
    int64_t zero = std::numeric_limits<int64_t>::max();
    for (const Span& span : spans) zero = std::min(zero, span.begin);
    for (size_t i = 0; i < ops->size(); ++i) {
      (*ops)[i].begin_ns = static_cast<uint64_t>(spans[i].begin - zero);
      (*ops)[i].end_ns = static_cast<uint64_t>(spans[i].end - zero);
    }
    return absl::OkStatus();
  }

  std::string clock() const override { return "timing events"; }

 private:
  struct Span {
    size_t device;  // index into origins_
    int64_t begin;  // nanoseconds since that origin
    int64_t end;
  };

  static absl::Status Record(StreamRef stream, std::vector<Event>* events) {
    EventOptions options;
    options.timing = true;
    DEVRT_ASSIGN_OR_RETURN(Event event,
                           Event::Create(stream.device(), options));
    DEVRT_RETURN_IF_ERROR(event.Record(stream));
    events->push_back(std::move(event));
    return absl::OkStatus();
  }

  absl::StatusOr<Span> Measure(const Event& begin, const Event& end) const {
    size_t device = 0;
    while (device < origins_.size() &&
           origins_[device].device() != begin.device()) {
      ++device;
    }
    if (device == origins_.size()) {
      return absl::InternalError("an operation on a device without an origin");
    }
    DEVRT_ASSIGN_OR_RETURN(const double begin_ms,
                           ElapsedMilliseconds(origins_[device], begin));
    DEVRT_ASSIGN_OR_RETURN(const double end_ms,
                           ElapsedMilliseconds(origins_[device], end));
    return Span{device, std::llround(begin_ms * kNanosecondsPerMillisecond),
                std::llround(end_ms * kNanosecondsPerMillisecond)};
  }

  // Moves the spans of `device` forward, so that none begins before the work of
  // earlier devices that it waited for ends.
  static void SetForward(size_t device, const std::vector<TimelineOp>& ops,
                         std::vector<Span>* spans) {
    int64_t shift = 0;
    for (size_t i = 0; i < ops.size(); ++i) {
      if ((*spans)[i].device != device) continue;
      for (size_t wait : ops[i].waits) {
        if ((*spans)[wait].device >= device) continue;
        shift = std::max(shift, (*spans)[wait].end - (*spans)[i].begin);
      }
    }
    for (Span& span : *spans) {
      if (span.device != device) continue;
      span.begin += shift;
      span.end += shift;
    }
  }

  std::vector<Event> origins_;  // one for each device
  std::vector<Event> begins_;   // one for each operation
  std::vector<Event> ends_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Recorder>> MakeEventRecorder(Backend backend) {
  if (!backend.Has(DEVRT_CAP_EVENT_TIMING)) {
    return absl::UnimplementedError(absl::StrFormat(
        "backend \"%s\" has no event timing, so nothing can be said about when "
        "its operations ran; --times=host waits for each of them",
        backend.name()));
  }
  return std::unique_ptr<Recorder>(std::make_unique<EventRecorder>());
}

}  // namespace devrt::tools
