// SPDX-License-Identifier: Apache-2.0
#include "tools/trace/trace_events.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "devrt/backends/abi/devrt_layer_helper.h"
#include "devrt/backends/abi/devrt_sim.h"
#include "tools/json.h"

namespace devrt::tools {
namespace {

using layer::CallId;
using trace::Record;

// Streams are no process's main thread, which has the process's number.
constexpr uint64_t kFirstStream = 1001;

bool Is(const Record& r, CallId id) {
  return r.call == static_cast<uint8_t>(id);
}

const char* CallName(uint8_t call) {
  return call < layer::kCallCount ? layer::kCallNames[call] : "?";
}

// What an operation is called that has no name of its own.
std::string OpName(const TraceData& data, const Record& r, bool simulator) {
  std::string name = data.Name(r.name);
  if (!name.empty()) return name;
  if (!simulator) return CallName(static_cast<uint8_t>(r.total));
  static constexpr const char* kKinds[] = {"record", "wait", "kernel",
                                           "copy",   "fill", "host function"};
  return r.total < std::size(kKinds) ? kKinds[r.total] : "operation";
}

class Writer {
 public:
  Writer(const TraceData& data, TraceSummary* summary)
      : data_(data), summary_(summary) {
    simulators_.resize(data.backends.size());
    for (const Record& r : data.device) {
      if (r.call == trace::kClock && r.backend < simulators_.size()) {
        simulators_[r.backend] = data.Name(r.name) == "simulator";
      }
    }
  }

  std::string Text(const std::string& program) {
    json_.BeginObject().Key("displayTimeUnit").String("ns");
    json_.Key("otherData").Compact().BeginObject();
    json_.Key("program").String(program);
    json_.Key("pid").Unsigned(data_.pid);
    json_.Key("overwritten").Unsigned(data_.overwritten);
    json_.Key("lost").Unsigned(data_.Lost()).End();
    json_.Key("traceEvents").BeginArray();
    NameProcess(data_.pid, 0, absl::StrCat("host: ", program));
    for (const TraceThread& thread : data_.threads) HostThread(thread);
    for (const Record& r : data_.device) {
      if (r.call == trace::kDeviceOp) DeviceOp(r);
    }
    for (const Record& r : data_.device) {
      if (r.call == trace::kDependency) {
        Arrow(KeyOf(r, r.bytes, r.total), KeyOf(r, r.stream, r.object));
      }
    }
    HostOrder();
    json_.End().End();
    return std::move(json_).Finish();
  }

 private:
  // Backend, device, stream.
  using StreamKey = std::tuple<uint8_t, uint64_t>;
  using OpKey = std::tuple<uint8_t, uint64_t, uint64_t>;
  struct Track {
    uint64_t process, thread;
  };
  struct Place {
    Track track;
    double begin, end;
  };

  static OpKey KeyOf(const Record& r, uint64_t stream, uint64_t number) {
    return {r.backend, stream, number};
  }
  bool IsSimulator(const Record& r) const {
    return r.backend < simulators_.size() && simulators_[r.backend];
  }
  std::string Backend(const Record& r) const {
    return r.backend < data_.backends.size() ? data_.backends[r.backend] : "?";
  }
  double HostTime(uint64_t ns) const {
    return static_cast<double>(static_cast<int64_t>(ns - data_.start_ns)) /
           1000;
  }

  void Begin(const char* phase, Track track) {
    json_.Compact().BeginObject().Key("ph").String(phase);
    json_.Key("pid").Unsigned(track.process);
    json_.Key("tid").Unsigned(track.thread);
  }
  void Meta(const char* what, Track track, const std::string& name) {
    Begin("M", track);
    json_.Key("name").String(what);
    json_.Key("args").BeginObject().Key("name").String(name).End().End();
  }
  void Order(const char* what, Track track, uint64_t index) {
    Begin("M", track);
    json_.Key("name").String(what).Key("args").BeginObject();
    json_.Key("sort_index").Unsigned(index).End().End();
  }
  void NameProcess(uint64_t process, uint64_t index, const std::string& name) {
    Meta("process_name", {process, 0}, name);
    Order("process_sort_index", {process, 0}, index);
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
  static std::string Hex(uint64_t value) {
    return absl::StrFormat("0x%x", value);
  }

  void HostThread(const TraceThread& thread) {
    const Track track = {data_.pid, thread.tid};
    Meta("thread_name", track,
         absl::StrCat(thread.name, thread.tid == data_.pid ? " (main)" : ""));
    for (const Record& r : thread.calls) HostCall(r, track);
  }

  void HostCall(const Record& r, Track track) {
    ++summary_->calls;
    const std::string label = data_.Name(r.name);
    std::string name = CallName(r.call);
    if (!label.empty()) absl::StrAppend(&name, " ", label);
    Slice(name, track, HostTime(r.begin_ns), HostTime(r.end_ns));
    json_.Key("backend").String(Backend(r));
    if (r.device != 0xff) json_.Key("device").Unsigned(r.device);
    if (r.stream != 0) json_.Key("stream").String(Hex(r.stream));
    if (r.object != 0) json_.Key("object").String(Hex(r.object));
    if (r.bytes != 0) json_.Key("bytes").Unsigned(r.bytes);
    if (r.status != 0) json_.Key("error").Unsigned(r.status);
    Site(r);
    json_.End().End();
    if (r.status == 0 && (Is(r, CallId::alloc) || Is(r, CallId::dealloc))) {
      Begin("C", {data_.pid, 0});
      json_.Key("name").String(
          absl::StrCat("memory ", Backend(r), ":", r.device));
      json_.Key("ts").Decimal(HostTime(r.end_ns));
      json_.Key("args").BeginObject().Key("bytes").Unsigned(r.total);
      json_.End().End();
    }
  }

  Track TrackOf(const Record& r) {
    const auto device = std::make_pair(r.backend, r.device);
    const uint64_t index = processes_.size() + 1;
    // 1, 2, ...: numbers of the viewer's, but none of the host's.
    const auto [process, is_new] = processes_.try_emplace(
        device, index < data_.pid ? index : index + data_.pid);
    if (is_new) {
      NameProcess(process->second, index,
                  absl::StrCat(Backend(r), ":", r.device,
                               IsSimulator(r) ? " (the simulator's clock)"
                                              : " (times from events)"));
    }
    const auto [thread, is_first] = streams_.try_emplace(
        StreamKey(r.backend, r.stream), kFirstStream + streams_.size());
    const Track track = {process->second, thread->second};
    if (is_first) {
      Meta("thread_name", track,
           IsSimulator(r) ? absl::StrCat("stream ", r.stream)
                          : absl::StrCat("stream ", Hex(r.stream)));
      Order("thread_sort_index", track, thread->second);
    }
    return track;
  }

  void DeviceOp(const Record& r) {
    ++summary_->operations;
    const bool simulator = IsSimulator(r);
    const Track track = TrackOf(r);
    const double begin = simulator ? static_cast<double>(r.begin_ns) / 1000
                                   : HostTime(r.begin_ns);
    const double end =
        simulator ? static_cast<double>(r.end_ns) / 1000 : HostTime(r.end_ns);
    ops_[KeyOf(r, r.stream, r.object)] = {track, begin, end};
    Slice(OpName(data_, r, simulator), track, begin, end);
    if (r.bytes != 0) json_.Key("bytes").Unsigned(r.bytes);
    if (r.status != DEVRT_SIM_DONE) {
      json_.Key("state").String(r.status == DEVRT_SIM_FAILED ? "failed"
                                                             : "discarded");
    }
    Site(r);
    json_.End().End();
  }

  // From the end of one operation to the beginning of another.
  void Arrow(const OpKey& from, const OpKey& to) {
    const auto source = ops_.find(from);
    const auto target = ops_.find(to);
    if (source == ops_.end() || target == ops_.end()) return;
    const Place& s = source->second;
    const Place& t = target->second;
    ++summary_->arrows;
    for (const bool starts : {true, false}) {
      Begin(starts ? "s" : "f", starts ? s.track : t.track);
      json_.Key("name").String("waits for").Key("cat").String("wait");
      json_.Key("id").Unsigned(summary_->arrows);
      // Inside the slice, so that viewers find it.
      json_.Key("ts").Decimal(starts ? std::max(s.begin, s.end - 0.001)
                                     : t.begin);
      if (!starts) json_.Key("bp").String("e");
      json_.End();
    }
  }

  // Where no simulator tells what waited for what: from the order of the calls.
  void HostOrder() {
    std::vector<const Record*> calls;
    for (const TraceThread& thread : data_.threads) {
      for (const Record& r : thread.calls) {
        if (r.status == 0 && !IsSimulator(r)) calls.push_back(&r);
      }
    }
    std::stable_sort(calls.begin(), calls.end(),
                     [](const Record* a, const Record* b) {
                       return a->begin_ns < b->begin_ns;
                     });
    std::map<StreamKey, uint64_t> last;  // number of the last operation
    std::map<std::pair<uint8_t, uint64_t>, OpKey> events;
    std::map<StreamKey, std::vector<OpKey>> waits;
    for (const Record* const r : calls) {
      const StreamKey stream(r->backend, r->stream);
      const auto event = std::make_pair(r->backend, r->object);
      if (Is(*r, CallId::event_record)) {
        events[event] = KeyOf(*r, r->stream, last[stream]);
      } else if (Is(*r, CallId::stream_wait_event)) {
        const auto found = events.find(event);
        if (found != events.end()) waits[stream].push_back(found->second);
      } else if (r->stream != 0 && r->total != 0) {
        last[stream] = r->total;
        for (const OpKey& from : std::exchange(waits[stream], {})) {
          Arrow(from, KeyOf(*r, r->stream, r->total));
        }
      }
    }
  }

  const TraceData& data_;
  TraceSummary* const summary_;
  JsonWriter json_;
  std::vector<bool> simulators_;
  std::map<std::pair<uint8_t, uint8_t>, uint64_t> processes_;
  std::map<StreamKey, uint64_t> streams_;
  std::map<OpKey, Place> ops_;
};

}  // namespace

std::string TraceEvents(const TraceData& data, const std::string& program,
                        TraceSummary* summary) {
  return Writer(data, summary).Text(program);
}

}  // namespace devrt::tools
