// SPDX-License-Identifier: Apache-2.0
#include "tools/trace/trace_events.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "devrt/backends/abi/devrt_layer_helper.h"
#include "devrt/backends/abi/devrt_sim.h"
#include "tools/common/json.h"
#include "tools/trace/trace_names.h"

namespace devrt::tools {
namespace {

using layer::CallId;
using trace::Record;

// The number of the first stream's track.  A track with the number of its
// process would look like the main thread.
constexpr uint64_t kFirstStream = 1001;

const char* CallName(uint8_t call) {
  return call < layer::kCallCount ? layer::kCallNames[call] : "?";
}

class Writer {
 public:
  Writer(const TraceData& data, TraceSummary* summary)
      : data_(data), summary_(summary), names_(data) {
    clocks_.resize(data.backends.size());
    for (const Record& r : data.device) {
      if (r.call != trace::kClock || r.backend >= clocks_.size()) continue;
      clocks_[r.backend] = {data.Name(r.name) == "simulator", r.status != 0};
    }
  }

  std::string Text(const std::string& program) {
    program_ = program;
    for (size_t i = 0; i < data_.threads.size(); ++i) {
      for (const Record& r : data_.threads[i].calls) HostCall(r, i);
    }
    for (const Record& r : data_.device) {
      if (r.call == trace::kSimulatorStream) names_.NoteSimulatorStream(r);
      if (r.call == trace::kDeviceOp) DeviceOp(r);
    }
    for (const Record& r : data_.device) {
      if (r.call == trace::kDependency) {
        Waits(KeyOf(r, r.bytes, r.total), KeyOf(r, r.stream, r.object));
      }
    }
    HostOrder();
    json_.BeginObject().Key("program").String(program);
    json_.Key("pid").Unsigned(data_.pid);
    json_.Key("overwritten").Unsigned(data_.overwritten);
    json_.Key("lost").Unsigned(data_.Lost()).End();
    return absl::StrCat(
        "{\"displayTimeUnit\": \"ns\",\n\"otherData\": ", json_.TakeLine(),
        ",\n\"traceEvents\": [\n", events_, "\n]}\n");
  }

 private:
  // The backend, and the stream by the handle in its records.
  using StreamKey = std::tuple<uint8_t, uint64_t>;
  using OpKey = std::tuple<uint8_t, uint64_t, uint64_t>;
  struct Track {
    uint64_t process, thread;
  };
  struct Place {
    Track track;
    double begin, end;
  };
  struct ClockOf {
    bool simulator = false;  // it records what waited for what
    bool is_virtual = false;
  };

  static OpKey KeyOf(const Record& r, uint64_t stream, uint64_t number) {
    return {r.backend, stream, number};
  }
  ClockOf clock(uint8_t backend) const {
    return backend < clocks_.size() ? clocks_[backend] : ClockOf();
  }
  std::string Backend(uint8_t backend) const {
    return backend < data_.backends.size() ? data_.backends[backend] : "?";
  }
  std::string Device(uint8_t backend, uint8_t device) const {
    return absl::StrCat(Backend(backend), ":", device);
  }
  std::string StreamName(size_t index) const {
    const TraceNames::Stream& s = names_.stream(index);
    return absl::StrCat(
        s.name, " of ",
        s.device == 0xff ? Backend(s.backend) : Device(s.backend, s.device));
  }
  // In microseconds.  Virtual time counts from the start of the simulator.
  double Time(const Record& r, uint64_t ns) const {
    const uint64_t zero = clock(r.backend).is_virtual ? 0 : data_.start_ns;
    return static_cast<double>(static_cast<int64_t>(ns - zero)) / 1000;
  }

  void Begin(const char* phase, Track track) {
    json_.BeginObject().Key("ph").String(phase);
    json_.Key("pid").Unsigned(track.process);
    json_.Key("tid").Unsigned(track.thread);
  }
  // Ends the event, and makes text of it at once: a million events as JSON
  // values would take a gigabyte.
  void Finish() {
    json_.End();
    absl::StrAppend(&events_, events_.empty() ? "" : ",\n", json_.TakeLine());
  }
  void Meta(const char* what, Track track, const std::string& name) {
    Begin("M", track);
    json_.Key("name").String(what);
    json_.Key("args").BeginObject().Key("name").String(name).End();
    Finish();
  }
  void Order(const char* what, Track track, uint64_t index) {
    Begin("M", track);
    json_.Key("name").String(what).Key("args").BeginObject();
    json_.Key("sort_index").Unsigned(index).End();
    Finish();
  }

  void Slice(const std::string& name, Track track, double begin, double end) {
    Begin("X", track);
    json_.Key("name").String(name);
    json_.Key("ts").Decimal(begin).Key("dur").Decimal(end - begin);
    json_.Key("args").BeginObject();
  }
  void Site(const Record& r) {
    const std::string file = data_.Name(r.file);
    if (file.empty()) return;
    json_.Key("at").String(absl::StrCat(file, ":", r.line));
  }

  // ---- Places ----

  // The process of the trace for the host on a backend's clock (`part` 0) or
  // for a device (`part` is its index + 1).  Viewers show the processes of one
  // clock together, the host first.
  uint64_t Process(uint8_t backend, uint64_t part) {
    const bool is_virtual = clock(backend).is_virtual;
    const uint64_t group = is_virtual ? backend + uint64_t{1} : 0;
    const std::tuple<uint64_t, uint8_t, uint64_t> key(
        group, part == 0 ? uint8_t{0} : backend, part);
    const uint64_t next = processes_.size();
    // The host has its real number; the others have 1, 2, ... without that.
    const auto [process, is_new] =
        processes_.try_emplace(key, part == 0 && !host_has_number_ ? data_.pid
                                    : next < data_.pid             ? next + 1
                                                       : next + 1 + data_.pid);
    if (!is_new) return process->second;
    if (process->second == data_.pid) host_has_number_ = true;
    std::string name = part == 0
                           ? absl::StrCat("host: ", program_)
                           : Device(backend, static_cast<uint8_t>(part - 1));
    if (is_virtual) {
      absl::StrAppend(&name, " (", Backend(backend), "'s virtual time)");
    } else if (part != 0 && !clock(backend).simulator) {
      absl::StrAppend(&name, " (times from events)");
    }
    Meta("process_name", {process->second, 0}, name);
    Order("process_sort_index", {process->second, 0},
          group << 16 | (part == 0 ? 0 : (backend + uint64_t{1}) << 9 | part));
    return process->second;
  }

  Track HostTrack(uint8_t backend, size_t index) {
    const TraceThread& thread = data_.threads[index];
    const Track track = {Process(backend, 0), thread.tid};
    if (named_.insert({track.process, track.thread}).second) {
      Meta("thread_name", track,
           absl::StrCat(thread.name, thread.tid == data_.pid ? " (main)" : ""));
    }
    return track;
  }

  Track StreamTrack(const Record& op, size_t stream) {
    const auto [thread, is_first] =
        stream_threads_.try_emplace(stream, kFirstStream + stream);
    const Track track = {Process(op.backend, op.device + uint64_t{1}),
                         thread->second};
    if (is_first) {
      Meta("thread_name", track, names_.stream(stream).name);
      Order("thread_sort_index", track, thread->second);
    }
    return track;
  }

  // ---- Events ----

  void HostCall(const Record& r, size_t thread) {
    ++summary_->calls;
    const std::string label = data_.Name(r.name);
    std::string name = CallName(r.call);
    if (!label.empty()) absl::StrAppend(&name, " ", label);
    Slice(name, HostTrack(r.backend, thread), Time(r, r.begin_ns),
          Time(r, r.end_ns));
    if (r.device != 0xff) {
      json_.Key("device").String(Device(r.backend, r.device));
    } else {
      json_.Key("backend").String(Backend(r.backend));
    }
    if (r.stream != 0) {
      // The handle names the new stream only after the call.
      Record named = r;
      if (Is(r, CallId::stream_create)) named.begin_ns = r.end_ns;
      json_.Key("stream").String(StreamName(names_.StreamOfCall(named)));
    }
    if (r.object != 0 && IsEventCall(r.call)) {
      json_.Key("event").String(names_.EventOfCall(r));
    } else if (r.object != 0 && IsMemoryCall(r.call)) {
      json_.Key("memory").String(absl::StrFormat("0x%x", r.object));
    }
    if (r.bytes != 0 && !Is(r, CallId::stream_create)) {
      json_.Key("bytes").Unsigned(r.bytes);
    }
    if (r.status != 0) {
      json_.Key("error").String(
          absl::StatusCodeToString(static_cast<absl::StatusCode>(r.status)));
    }
    Site(r);
    json_.End();
    Finish();
    if (r.status == 0 && (Is(r, CallId::alloc) || Is(r, CallId::dealloc))) {
      MemoryCounter(r);
    }
  }

  void MemoryCounter(const Record& r) {
    Begin("C", {Process(r.backend, r.device + uint64_t{1}), 0});
    json_.Key("name").String(
        absl::StrCat("memory ", Device(r.backend, r.device)));
    json_.Key("ts").Decimal(Time(r, r.end_ns));
    json_.Key("args").BeginObject().Key("bytes").Unsigned(r.total).End();
    Finish();
  }

  void DeviceOp(const Record& r) {
    ++summary_->operations;
    const auto [stream, call] = names_.OfOperation(r);
    const Place place = {StreamTrack(r, stream), Time(r, r.begin_ns),
                         Time(r, r.end_ns)};
    ops_[KeyOf(r, r.stream, r.object)] = place;
    const std::string name = data_.Name(r.name);
    Slice(name.empty() ? "operation" : name, place.track, place.begin,
          place.end);
    if (r.bytes != 0) json_.Key("bytes").Unsigned(r.bytes);
    if (r.status != DEVRT_SIM_DONE) {
      json_.Key("state").String(r.status == DEVRT_SIM_FAILED ? "failed"
                                                             : "discarded");
    }
    Site(r);
    json_.End();
    Finish();
    if (!call.has_value()) return;
    const double submitted =
        std::clamp(Time(r, r.total), Time(r, call->record->begin_ns),
                   std::max(Time(r, call->record->begin_ns),
                            Time(r, call->record->end_ns) - 0.001));
    ++summary_->submissions;
    Arrow("submits", "submit", HostTrack(r.backend, call->thread), submitted,
          place);
  }

  void Waits(const OpKey& from, const OpKey& to) {
    const auto source = ops_.find(from);
    const auto target = ops_.find(to);
    if (source == ops_.end() || target == ops_.end()) return;
    const Place& s = source->second;
    ++summary_->waits;
    // Viewers attach an arrow to the slice around its time.
    Arrow("waits for", "wait", s.track, std::max(s.begin, s.end - 0.001),
          target->second);
  }

  void Arrow(const char* name, const char* category, Track from, double when,
             const Place& to) {
    const uint64_t id = summary_->submissions + summary_->waits;
    for (const bool starts : {true, false}) {
      Begin(starts ? "s" : "f", starts ? from : to.track);
      json_.Key("name").String(name).Key("cat").String(category);
      json_.Key("id").Unsigned(id);
      json_.Key("ts").Decimal(starts ? when : to.begin);
      if (!starts) json_.Key("bp").String("e");
      Finish();
    }
  }

  // Without a simulator, the order of the calls tells what waited for what.
  void HostOrder() {
    std::vector<const Record*> calls;
    for (const TraceThread& thread : data_.threads) {
      for (const Record& r : thread.calls) {
        if (r.status == 0 && !clock(r.backend).simulator) calls.push_back(&r);
      }
    }
    std::stable_sort(calls.begin(), calls.end(),
                     [](const Record* a, const Record* b) {
                       return a->begin_ns < b->begin_ns;
                     });
    std::map<StreamKey, uint64_t> last;  // the number of the last operation
    std::map<std::pair<uint8_t, uint64_t>, OpKey> events;
    std::map<StreamKey, std::vector<OpKey>> waits;
    for (const Record* const r : calls) {
      const StreamKey stream(r->backend, r->stream);
      const auto event = std::make_pair(r->backend, r->object);
      if (Is(*r, CallId::stream_create)) {
        last.erase(stream);
      } else if (Is(*r, CallId::event_record)) {
        events[event] = KeyOf(*r, r->stream, last[stream]);
      } else if (Is(*r, CallId::stream_wait_event)) {
        const auto found = events.find(event);
        if (found != events.end()) waits[stream].push_back(found->second);
      } else if (r->stream != 0 && r->total != 0) {
        last[stream] = r->total;
        for (const OpKey& from : std::exchange(waits[stream], {})) {
          Waits(from, KeyOf(*r, r->stream, r->total));
        }
      }
    }
  }

  const TraceData& data_;
  TraceSummary* const summary_;
  TraceNames names_;
  std::string program_;
  JsonWriter json_;     // the event being written
  std::string events_;  // the events before it, as text
  std::vector<ClockOf> clocks_;
  bool host_has_number_ = false;
  std::map<std::tuple<uint64_t, uint8_t, uint64_t>, uint64_t> processes_;
  std::set<std::pair<uint64_t, uint64_t>> named_;  // named host threads
  std::map<size_t, uint64_t> stream_threads_;
  std::map<OpKey, Place> ops_;
};

}  // namespace

std::string TraceEvents(const TraceData& data, const std::string& program,
                        TraceSummary* summary) {
  return Writer(data, summary).Text(program);
}

}  // namespace devrt::tools
