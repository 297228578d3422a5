// SPDX-License-Identifier: Apache-2.0
//
// Functions of simulated accelerators, for devrt.mtia.simulator.

#include "devrt/runtime/simulator.h"

#include <nanobind/stl/map.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "devrt/runtime/status.h"
#include "devrt/runtime/turns.h"
#include "python/src/bindings.h"
#include "python/src/bridge.h"
#include "python/src/call_site.h"
#include "python/src/public_class.h"
#include "tools/timeline/simulated.h"
#include "tools/timeline/timeline.h"

namespace devrt::python {
namespace {

const char* EngineName(SimulatedOp::Engine engine) {
  switch (engine) {
    case SimulatedOp::Engine::kNone:
      return "none";
    case SimulatedOp::Engine::kCompute:
      return "compute";
    case SimulatedOp::Engine::kHostToDevice:
      return "h2d";
    case SimulatedOp::Engine::kDeviceToHost:
      return "d2h";
    case SimulatedOp::Engine::kPeer:
      return "p2p";
    case SimulatedOp::Engine::kHost:
      return "host";
    case SimulatedOp::Engine::kCollective:
      return "collective";
  }
  return "unknown";
}

const char* KindName(SimulatedOp::Kind kind) {
  switch (kind) {
    case SimulatedOp::Kind::kRecord:
      return "record";
    case SimulatedOp::Kind::kWait:
      return "wait";
    case SimulatedOp::Kind::kKernel:
      return "kernel";
    case SimulatedOp::Kind::kCopy:
      return "copy";
    case SimulatedOp::Kind::kFill:
      return "fill";
    case SimulatedOp::Kind::kHostFunc:
      return "host_func";
    case SimulatedOp::Kind::kAlloc:
      return "alloc";
    case SimulatedOp::Kind::kFree:
      return "free";
    case SimulatedOp::Kind::kCollective:
      return "collective";
  }
  return "unknown";
}

const char* StateName(SimulatedOp::State state) {
  switch (state) {
    case SimulatedOp::State::kPending:
      return "pending";
    case SimulatedOp::State::kRunning:
      return "running";
    case SimulatedOp::State::kDone:
      return "done";
    case SimulatedOp::State::kFailed:
      return "failed";
    case SimulatedOp::State::kDiscarded:
      return "discarded";
  }
  return "unknown";
}

nb::dict ToDict(const SimulatedOp& op) {
  nb::dict dict;
  dict["device"] = op.device;
  dict["stream"] = op.stream_id.value_or(op.stream);
  dict["seq"] = op.seq;
  dict["kind"] = KindName(op.kind);
  dict["engine"] = EngineName(op.engine);
  dict["state"] = StateName(op.state);
  dict["thread"] = op.thread;
  dict["index"] = op.index ? nb::cast(*op.index) : nb::none();
  dict["bytes"] = op.bytes;
  dict["submit_ns"] = op.submit_ns;
  dict["begin_ns"] = op.begin_ns;
  dict["end_ns"] = op.end_ns;
  dict["name"] = ToText(op.name);
  dict["file"] = ToText(op.file);
  dict["line"] = op.line;
  return dict;
}

// {device, number of the stream as programs know it}.
using Place = std::pair<uint32_t, uint64_t>;
using StreamNames = std::map<Place, std::string>;

// Translates dependencies.  The machine has one number for each native stream.
// devrt may use a native stream again for another Stream with another id, so
// the id is looked up for each operation.
class Streams {
 public:
  void Add(const SimulatedOp& op) {
    const Place place(op.device, op.stream_id.value_or(op.stream));
    ops_[{op.stream, op.seq}] = place;
    last_[op.stream] = place;
  }
  nb::list Dependencies(const SimulatedOp& op) const {
    nb::list list;
    for (const auto& dependency : op.dependencies) {
      Place place(op.device, dependency.first);
      if (const auto last = last_.find(dependency.first); last != last_.end()) {
        place = last->second;
      }
      if (const auto known = ops_.find(dependency); known != ops_.end()) {
        place = known->second;
      }
      list.append(nb::make_tuple(place.first, place.second, dependency.second));
    }
    return list;
  }

 private:
  std::map<std::pair<uint64_t, uint64_t>, Place> ops_;  // {stream, seq}
  std::map<uint64_t, Place> last_;
};

nb::dict ToDict(const SimulatorStats& stats) {
  nb::dict dict;
  dict["threads"] = stats.threads;
  dict["live_streams"] = stats.live_streams;
  dict["live_events"] = stats.live_events;
  dict["live_blocks"] = stats.live_blocks;
  dict["live_pinned"] = stats.live_pinned;
  dict["live_registered"] = stats.live_registered;
  dict["pending_ops"] = stats.pending_ops;
  dict["completed_ops"] = stats.completed_ops;
  dict["created_streams"] = stats.created_streams;
  dict["created_events"] = stats.created_events;
  dict["host_funcs_run"] = stats.host_funcs_run;
  dict["kernels_run"] = stats.kernels_run;
  dict["uncontrolled"] = stats.uncontrolled;
  dict["faults_fired"] = stats.faults_fired;
  return dict;
}

class SimulatorObject {
 public:
  explicit SimulatorObject(nb::str backend)
      : backend_(BackendOf(backend)->backend), sim_(Get(backend_)) {}

  void Reset(const std::string& config) {
    Check(WithoutLock([&] {
      EndBridges();
      return sim_.Reset(config);
    }));
  }
  nb::object Config() {
    return ToText(Check(WithoutLock([&] { return sim_.Config(); })));
  }
  uint64_t Now() {
    return Check(WithoutLock([&] { return sim_.Now(); }));
  }
  void Yield() {
    Check(WithoutLock([&] { return sim_.Yield(); }));
  }
  std::pair<uint64_t, uint64_t> TraceHash() {
    const auto trace = Check(WithoutLock([&] { return sim_.TraceHash(); }));
    return {trace.hash, trace.steps};
  }
  std::pair<uint32_t, uint64_t> NextOp() {
    const auto next = Check(WithoutLock([&] { return sim_.NextOp(); }));
    return {next.thread, next.index};
  }
  uint64_t Outcome() {
    return Check(WithoutLock([&] { return sim_.Outcome(); }));
  }
  nb::object Token() {
    return ToText(Check(WithoutLock([&] { return sim_.Token(); })));
  }
  void Replay(const std::string& token) {
    Check(WithoutLock([&] {
      EndBridges();
      return sim_.Replay(token);
    }));
  }
  void CheckReplay() {
    Check(WithoutLock([&] { return sim_.CheckReplay(); }));
  }
  void EnableTimeline(nb::object on) {
    bool enabled = true;
    if (!ToBool(on.ptr(), "enabled", &enabled)) ThrowPythonError();
    Check(WithoutLock([&] { return sim_.EnableTimeline(enabled); }));
    SetSiteReader(SiteReader::kTimeline, enabled);
  }
  nb::list Timeline() {
    const std::vector<SimulatedOp> ops =
        Check(WithoutLock([&] { return sim_.Timeline(); }));
    Streams streams;
    for (const SimulatedOp& op : ops) streams.Add(op);
    nb::list list;
    for (const SimulatedOp& op : ops) {
      nb::dict dict = ToDict(op);
      dict["dependencies"] = streams.Dependencies(op);
      list.append(dict);
    }
    return list;
  }
  nb::object TimelineSvg(const std::string& title, uint64_t since,
                         const StreamNames& names) {
    return ToText(Check(WithoutLock([&]() -> absl::StatusOr<std::string> {
      DEVRT_ASSIGN_OR_RETURN(std::vector<SimulatedOp> ops, sim_.Timeline());
      ops.erase(std::remove_if(ops.begin(), ops.end(),
                               [&](const SimulatedOp& op) {
                                 return op.submit_ns < since ||
                                        !tools::HasRun(op);
                               }),
                ops.end());
      tools::Timeline timeline =
          tools::SimulatedTimeline(ops, StreamsOf(ops, names));
      timeline.title = title;
      return tools::SvgTimeline(timeline);
    })));
  }
  void InjectFault(const std::string& kind, nb::object device, nb::object nth,
                   nb::object native_code, const std::string& where) {
    SimulatedFault fault;
    if (kind == "api") {
      fault.kind = SimulatedFault::Kind::kApi;
    } else if (kind == "kernel") {
      fault.kind = SimulatedFault::Kind::kKernel;
    } else if (kind == "lost") {
      fault.kind = SimulatedFault::Kind::kLost;
    } else {
      Check(absl::InvalidArgumentError(
          "kind is '" + kind + "', expected 'api', 'kernel' or 'lost'"));
    }
    fault.device = Small<uint32_t>(device, "device", UINT32_MAX);
    fault.nth = Small<uint32_t>(nth, "nth", UINT32_MAX);
    fault.native_code = Small<int32_t>(native_code, "native_code", INT32_MAX);
    fault.where = where;
    Check(WithoutLock([&] { return sim_.InjectFault(fault); }));
  }
  nb::dict Stats() {
    return ToDict(Check(WithoutLock([&] { return sim_.Stats(); })));
  }
  nb::object DeadlockReport() {
    return ToText(Check(WithoutLock([&] { return sim_.DeadlockReport(); })));
  }
  nb::bytes Peek(nb::object pointer, nb::object size) {
    const void* address = AddressOf(pointer, "pointer");
    const uint64_t bytes = BytesOf(size, "size");
    if (bytes > PY_SSIZE_T_MAX) {
      Check(absl::InvalidArgumentError("size is more than memory can hold"));
    }
    // Checked before memory is reserved, since such a range could never be
    // filled.
    const auto begin = reinterpret_cast<uintptr_t>(address);
    const uintptr_t last =
        begin + std::min<uintptr_t>(bytes - 1, UINTPTR_MAX - begin);
    char element;
    if (bytes > 1) {
      Check(WithoutLock([&] {
        return sim_.Peek(reinterpret_cast<void*>(last), &element, 1);
      }));
    }
    Ref result(
        PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes)));
    if (!result) ThrowPythonError();
    char* to = PyBytes_AS_STRING(result.get());
    Check(WithoutLock([&] { return sim_.Peek(address, to, bytes); }));
    return nb::steal<nb::bytes>(result.Release());
  }
  void Poke(nb::object pointer, nb::bytes data) {
    void* address = AddressOf(pointer, "pointer");
    const char* from = data.c_str();
    const size_t bytes = data.size();
    Check(WithoutLock([&] { return sim_.Poke(address, from, bytes); }));
  }

 private:
  static Simulator Get(Backend backend) {
    return Check(Simulator::Get(backend));
  }
  // The streams of the operations, in the order of devices and ids.
  std::vector<tools::SimulatedStream> StreamsOf(
      const std::vector<SimulatedOp>& ops, const StreamNames& names) const {
    std::set<Place> places;
    for (const SimulatedOp& op : ops) {
      places.emplace(op.device, tools::StreamId(op));
    }
    std::vector<tools::SimulatedStream> streams;
    for (const auto& [device, id] : places) {
      const auto name = names.find({device, id});
      streams.push_back({device,
                         id,
                         {backend_.name() + ":" + std::to_string(device),
                          name != names.end() ? name->second
                          : id == 0           ? "default stream"
                                    : "stream " + std::to_string(id)}});
    }
    return streams;
  }
  template <typename T>
  static T Small(nb::object object, const char* what, int64_t greatest) {
    const int64_t value = IntOf(object, what);
    if (value < 0 || value > greatest) {
      Check(absl::InvalidArgumentError(std::string(what) + " is " +
                                       std::to_string(value) +
                                       ", which is out of range"));
    }
    return static_cast<T>(value);
  }

  Backend backend_;
  Simulator sim_;
};

bool IsVirtualDevice(nb::object device) {
  DeviceObject* object = ParseDevice(device.ptr());
  if (object == nullptr) ThrowPythonError();
  return WithoutLock([&] { return IsVirtual(*object->backend); });
}

using S = SimulatorObject;

void BindSchedule(nb::class_<S>& simulator) {
  simulator.def(nb::init<nb::str>(), nb::arg("backend") = "mtia")
      .def("reset", &S::Reset, nb::arg("config") = "",
           "Starts the machine afresh, with default settings and those of the "
           "text,\n"
           "in the syntax of DEVRT_MTIA.\n\n"
           "Raises Error while streams, events or memory are alive.")
      .def("config", &S::Config, "Returns all settings as 'key=value,...'.")
      .def("now", &S::Now, "Returns the machine's clock in nanoseconds.")
      .def("yield_", &S::Yield, "Lets other threads and the device run.")
      .def("trace_hash", &S::TraceHash,
           "Returns (hash, steps) of everything that happened.")
      .def("next_op", &S::NextOp,
           "Returns (thread, index) of this thread's next operation.")
      .def("outcome", &S::Outcome,
           "Returns a hash of what the run has made, whatever its schedule.")
      .def("token", &S::Token,
           "Returns text with which replay() repeats this run.")
      .def("replay", &S::Replay, nb::arg("token"),
           "Resets the machine, then follows the decisions of a token.")
      .def(
          "check_replay", &S::CheckReplay,
          "Raises Error if the token of replay() does not fit the run so far.");
}

void BindTimeline(nb::class_<S>& simulator) {
  simulator
      .def("enable_timeline", &S::EnableTimeline, nb::arg("enabled") = true,
           "Starts or stops keeping operations for timeline(), with the lines "
           "of the\n"
           "program that submitted them.")
      .def("timeline", &S::Timeline,
           "Returns the kept operations in order of submission, as dicts.  "
           "Times are\n"
           "in nanoseconds.\n\n"
           "'stream' is the id of a devrt.Stream, or 0 for a default stream.\n"
           "'dependencies' are (device, stream, seq).")
      .def("timeline_svg", &S::TimelineSvg, nb::arg("title"), nb::arg("since"),
           nb::arg("names"),
           "The operations that have run, as the text of an SVG file.\n\n"
           "names: {(device, id of the stream): text}.");
}

void BindFaultsAndMemory(nb::class_<S>& simulator) {
  simulator
      .def("inject_fault", &S::InjectFault, nb::arg("kind") = "kernel",
           nb::kw_only(), nb::arg("device") = 0, nb::arg("nth") = 1,
           nb::arg("native_code") = 700, nb::arg("where") = "",
           "Arms a fault.\n\n"
           "kind: 'api' fails a call, 'kernel' an operation, 'lost' the "
           "device.\n"
           "where: the call or operation, or '' for any.\n"
           "native_code: CUDA's number of the error.")
      .def("stats", &S::Stats,
           "Returns counts of what is alive and of what was done, as a dict.")
      .def("deadlock_report", &S::DeadlockReport,
           "Returns the last deadlock report, or '' if there is none.")
      .def(
          "peek", &S::Peek, nb::arg("pointer"), nb::arg("size"),
          "Reads device memory at once, without order with pending work.\n\n"
          "Raises ValueError unless all of it is memory that the device has "
          "handed\n"
          "out.  An array is a part of a segment of the caching allocator, so\n"
          "memory past its end belongs to others.")
      .def("poke", &S::Poke, nb::arg("pointer"), nb::arg("data"),
           "Writes device memory at once, without order with pending work.\n\n"
           "Data longer than the array overwrites its neighbours.");
}

}  // namespace

void BindSimulator(nb::module_& module) {
  module.def("_take_part", [] { WithoutLock([] { internal::TakePart(); }); });
  module.def("_is_virtual", &IsVirtualDevice, nb::arg("device"));
  nb::class_<S> simulator(
      module, "Simulator",
      "The controls of a simulated accelerator.\n\n"
      "Simulator(backend='mtia').  Raises UnsupportedError for a backend of\n"
      "real hardware.");
  MakePublic(simulator, "devrt.testing",
             "a devrt.testing.Simulator cannot be pickled or copied: make one "
             "of the backend's name");
  BindSchedule(simulator);
  BindTimeline(simulator);
  BindFaultsAndMemory(simulator);
}

}  // namespace devrt::python
