// SPDX-License-Identifier: Apache-2.0
#include "devrt/runtime/simulator.h"

#include <cstddef>
#include <utility>

#include "backends/text/replay_token.h"
#include "devrt/runtime/mutex.h"
#include "devrt/runtime/status.h"
#include "runtime/registry/call_faults.h"
#include "runtime/registry/open.h"
#include "runtime/registry/peer_table.h"
#include "runtime/registry/process_state.h"
#include "runtime/registry/records.h"
#include "runtime/registry/shutdown.h"

namespace devrt {
namespace {

using internal::BackendRecord;
using internal::DeviceRecord;

// devices[0] exists: Get refuses a backend without devices.
absl::Status Checked(Backend backend, devrt_status error, const char* call) {
  return internal::FromPlugin(BackendRecord::Of(backend)->devices[0], error,
                              call);
}

absl::Status CheckProcess() {
  return internal::IsProcessOpen() ? absl::OkStatus()
                                   : internal::ProcessClosedError();
}

// Calls a table function that fills a buffer of unknown size.
template <typename Function>
absl::StatusOr<std::string> ReadText(Backend backend, const char* call,
                                     Function function) {
  DEVRT_RETURN_IF_ERROR(CheckProcess());
  std::string text;
  uint64_t size = 0;
  // Repeats if the text has grown since its size was read.
  do {
    text.resize(size);
    DEVRT_RETURN_IF_ERROR(Checked(
        backend, function(text.data(), uint64_t{text.size()}, &size), call));
  } while (size > text.size());
  text.resize(size);
  return text;
}

// The ABI marks reset and replay [load]: the host must serialise these calls.
Mutex* ResetMutex() {
  static Mutex* const mutex = new Mutex;
  return mutex;
}

// Calls `restart` while nothing of the old machine is in use, then forgets what
// devrt remembered of the old machine.
template <typename Function>
absl::Status RestartSettled(Backend backend, const char* call,
                            Function restart) {
  const BackendRecord* record = BackendRecord::Of(backend);
  internal::AttachTurns(*record);
  MutexLock lock(ResetMutex());
  DEVRT_RETURN_IF_ERROR(internal::CheckNothingAlive(call, record->devices));
  for (DeviceRecord* device : record->devices) {
    internal::RunReleaseHook(device);
  }
  DEVRT_RETURN_IF_ERROR(Checked(backend, restart(), call));
  internal::PeerTable::Get().Forget(record);
  for (DeviceRecord* device : record->devices) {
    internal::BeginNewLife(device);
    MutexLock properties(&device->mutex);
    device->has_properties = false;
  }
  return absl::OkStatus();
}

// `restart_faults` is called with the backend's record at the end.
template <typename Function, typename Faults>
absl::Status Restart(Backend backend, const char* call, Function restart,
                     Faults restart_faults) {
  DEVRT_RETURN_IF_ERROR(CheckProcess());
  if (internal::InHostFunction()) return internal::HostFunctionError(call);
  const BackendRecord* record = BackendRecord::Of(backend);
  // Without the lock: settle hooks destroy objects of the program.
  internal::RunSettleHooks(record);
  DEVRT_RETURN_IF_ERROR(RestartSettled(backend, call, restart));
  internal::RunSettleHooks(record);
  return restart_faults(*record);
}

SimulatedOp ToOp(const devrt_sim_op_v1& op) {
  SimulatedOp result;
  result.device = op.device;
  result.stream = op.stream;
  result.seq = op.seq;
  result.kind = static_cast<SimulatedOp::Kind>(op.kind);
  result.engine = static_cast<SimulatedOp::Engine>(op.engine);
  result.state = static_cast<SimulatedOp::State>(op.state);
  result.thread = op.thread;
  result.bytes = op.bytes;
  result.submit_ns = op.submit_ns;
  result.begin_ns = op.begin_ns;
  result.end_ns = op.end_ns;
  result.name = op.name != nullptr ? op.name : "";
  result.file = op.file != nullptr ? op.file : "";
  result.line = op.line;
  result.native_stream = op.native_stream;
  if (DEVRT_HAS_FIELD(&op, devrt_sim_op_v1, host_stream) &&
      op.host_stream != 0) {
    result.stream_id = op.host_stream - 1;
  }
  if (DEVRT_HAS_FIELD(&op, devrt_sim_op_v1, op_index) &&
      op.op_index != DEVRT_SIM_NO_INDEX) {
    result.index = op.op_index;
  }
  for (uint32_t i = 0; i < op.dep_count; ++i) {
    result.dependencies.emplace_back(op.dep_stream[i], op.dep_seq[i]);
  }
  if (DEVRT_HAS_FIELD(&op, devrt_sim_op_v1, accesses)) {
    result.submit_step = op.submit_step;
    result.begin_step = op.begin_step;
    result.end_step = op.end_step;
    result.split = op.split != 0;
    result.accesses.assign(op.accesses, op.accesses + op.access_count);
  }
  return result;
}

absl::Status OlderError(const char* what) {
  return absl::UnimplementedError(
      std::string("the simulator's plugin is older than devrt and does not ") +
      what + ": rebuild the plugin");
}

SimulatedDecision ToDecision(const devrt_sim_decision_v1& made) {
  SimulatedDecision result;
  result.kind = static_cast<SimulatedDecision::Kind>(made.kind);
  result.count = made.count;
  result.choice = made.choice;
  result.stream = made.stream;
  result.seq = made.seq;
  result.thread = made.thread;
  result.file = made.file != nullptr ? made.file : "";
  result.line = made.line;
  return result;
}

}  // namespace

absl::StatusOr<Simulator> Simulator::Get(std::string_view backend) {
  DEVRT_ASSIGN_OR_RETURN(const Backend found, GetBackend(backend));
  return Get(found);
}

absl::StatusOr<Simulator> Simulator::Get(Backend backend) {
  DEVRT_ASSIGN_OR_RETURN(const Extension found,
                         backend.GetExtension(DEVRT_SIM_EXTENSION,
                                              offsetof(devrt_sim_v1, next_op)));
  if (backend.device_count() == 0) {
    return absl::UnavailableError("the simulator has no devices");
  }
  return Simulator(backend, found);
}

absl::Status Simulator::Reset(std::string_view config) const {
  return Restart(
      backend_, "simulator reset",
      [&] { return table_->reset(self_, config.data(), config.size()); },
      internal::RestartCallFaults);
}

absl::StatusOr<std::string> Simulator::Config() const {
  return ReadText(backend_, "simulator config",
                  [&](char* buffer, uint64_t capacity, uint64_t* size) {
                    return table_->config(self_, buffer, capacity, size);
                  });
}

absl::StatusOr<uint64_t> Simulator::Now() const {
  DEVRT_RETURN_IF_ERROR(CheckProcess());
  uint64_t now = 0;
  DEVRT_RETURN_IF_ERROR(
      Checked(backend_, table_->now_ns(self_, &now), "simulator clock"));
  return now;
}

absl::Status Simulator::Yield() const {
  DEVRT_RETURN_IF_ERROR(CheckProcess());
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("simulator yield");
  }
  return Checked(backend_, table_->yield(self_), "simulator yield");
}

absl::StatusOr<Simulator::Trace> Simulator::TraceHash() const {
  DEVRT_RETURN_IF_ERROR(CheckProcess());
  Trace trace;
  DEVRT_RETURN_IF_ERROR(
      Checked(backend_, table_->trace_hash(self_, &trace.hash, &trace.steps),
              "simulator trace hash"));
  return trace;
}

absl::StatusOr<std::string> Simulator::Token() const {
  DEVRT_ASSIGN_OR_RETURN(
      std::string token,
      ReadText(backend_, "simulator token",
               [&](char* buffer, uint64_t capacity, uint64_t* size) {
                 return table_->token(self_, buffer, capacity, size);
               }));
  return internal::WithCallFaults(*BackendRecord::Of(backend_),
                                  std::move(token));
}

absl::Status Simulator::Replay(std::string_view token) const {
  DEVRT_RETURN_IF_ERROR(CheckProcess());
  DEVRT_ASSIGN_OR_RETURN(
      const internal::SplitToken parts,
      internal::SplitCallFaults(*BackendRecord::Of(backend_), token));
  const std::string& schedule = parts.schedule;
  return Restart(
      backend_, "simulator replay",
      [&] { return table_->replay(self_, schedule.data(), schedule.size()); },
      [&](const BackendRecord& record) {
        return internal::FollowCallFaults(record, parts.rules);
      });
}

absl::StatusOr<Simulator::OpId> Simulator::NextOp() const {
  DEVRT_RETURN_IF_ERROR(CheckProcess());
  if (!DEVRT_HAS_FIELD(table_, devrt_sim_v1, next_op)) {
    return OlderError("number operations");
  }
  OpId next;
  DEVRT_RETURN_IF_ERROR(Checked(
      backend_, table_->next_op(self_, &next.thread, &next.index), "next op"));
  return next;
}

absl::StatusOr<uint64_t> Simulator::Outcome() const {
  DEVRT_RETURN_IF_ERROR(CheckProcess());
  if (!DEVRT_HAS_FIELD(table_, devrt_sim_v1, outcome)) {
    return OlderError("collect outcomes");
  }
  uint64_t hash = 0;
  DEVRT_RETURN_IF_ERROR(
      Checked(backend_, table_->outcome(self_, &hash), "simulator outcome"));
  return hash;
}

absl::Status Simulator::InjectFault(const SimulatedFault& fault) const {
  DEVRT_RETURN_IF_ERROR(CheckProcess());
  devrt_sim_fault_v1 order = {};
  order.struct_size = sizeof order;
  order.kind = static_cast<uint32_t>(fault.kind);
  order.device = fault.device;
  order.nth = fault.nth;
  order.native_code = fault.native_code;
  order.slot = fault.where.empty() ? nullptr : fault.where.c_str();
  return Checked(backend_, table_->inject(self_, &order), "fault injection");
}

absl::Status Simulator::EnableTimeline(bool on) const {
  DEVRT_RETURN_IF_ERROR(CheckProcess());
  return Checked(backend_, table_->timeline_enable(self_, on ? 1 : 0),
                 "timeline");
}

absl::StatusOr<std::vector<SimulatedOp>> Simulator::Timeline() const {
  DEVRT_RETURN_IF_ERROR(CheckProcess());
  std::vector<SimulatedOp> ops;
  const auto visit = [](void* arg, const devrt_sim_op_v1* op) {
    static_cast<std::vector<SimulatedOp>*>(arg)->push_back(ToOp(*op));
  };
  DEVRT_RETURN_IF_ERROR(
      Checked(backend_, table_->timeline(self_, visit, &ops), "timeline"));
  return ops;
}

absl::Status Simulator::KeepDecisions(bool on) const {
  DEVRT_RETURN_IF_ERROR(CheckProcess());
  if (!DEVRT_HAS_FIELD(table_, devrt_sim_v1, decisions)) {
    return OlderError("keep its decisions");
  }
  return Checked(backend_, table_->decisions_enable(self_, on ? 1 : 0),
                 "decisions");
}

absl::StatusOr<std::vector<SimulatedDecision>> Simulator::Decisions() const {
  DEVRT_RETURN_IF_ERROR(CheckProcess());
  if (!DEVRT_HAS_FIELD(table_, devrt_sim_v1, decisions)) {
    return OlderError("keep its decisions");
  }
  std::vector<SimulatedDecision> made;
  const auto visit = [](void* arg, const devrt_sim_decision_v1* decision) {
    static_cast<std::vector<SimulatedDecision>*>(arg)->push_back(
        ToDecision(*decision));
  };
  DEVRT_RETURN_IF_ERROR(
      Checked(backend_, table_->decisions(self_, visit, &made), "decisions"));
  return made;
}

absl::StatusOr<SimulatorStats> Simulator::Stats() const {
  DEVRT_RETURN_IF_ERROR(CheckProcess());
  devrt_sim_stats_v1 given = {};
  given.struct_size = sizeof given;
  DEVRT_RETURN_IF_ERROR(
      Checked(backend_, table_->stats(self_, &given), "simulator stats"));
  SimulatorStats stats;
  stats.threads = given.threads;
  stats.live_streams = given.live_streams;
  stats.live_events = given.live_events;
  stats.live_blocks = given.live_blocks;
  stats.live_pinned = given.live_pinned;
  stats.live_registered = given.live_registered;
  stats.pending_ops = given.pending_ops;
  stats.completed_ops = given.completed_ops;
  stats.created_streams = given.created_streams;
  stats.created_events = given.created_events;
  stats.host_funcs_run = given.host_funcs_run;
  stats.kernels_run = given.kernels_run;
  stats.uncontrolled = given.uncontrolled;
  stats.faults_fired = given.faults_fired;
  return stats;
}

absl::Status Simulator::CheckReplay() const {
  DEVRT_RETURN_IF_ERROR(CheckProcess());
  devrt_sim_stats_v1 stats = {};
  stats.struct_size = sizeof stats;
  DEVRT_RETURN_IF_ERROR(
      Checked(backend_, table_->stats(self_, &stats), "simulator stats"));
  const std::string misfit = internal::TextOf(
      {stats.replay_misfit, stats.replay_choice, stats.replay_ways},
      stats.replay_left);
  if (!misfit.empty()) return absl::FailedPreconditionError(misfit);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Simulator::DeadlockReport() const {
  return ReadText(backend_, "deadlock report",
                  [&](char* buffer, uint64_t capacity, uint64_t* size) {
                    return table_->deadlock_report(self_, buffer, capacity,
                                                   size);
                  });
}

absl::Status Simulator::Peek(const void* device_pointer, void* host,
                             uint64_t bytes) const {
  DEVRT_RETURN_IF_ERROR(CheckProcess());
  return Checked(backend_, table_->peek(self_, device_pointer, host, bytes),
                 "peek");
}

absl::Status Simulator::Poke(void* device_pointer, const void* host,
                             uint64_t bytes) const {
  DEVRT_RETURN_IF_ERROR(CheckProcess());
  return Checked(backend_, table_->poke(self_, device_pointer, host, bytes),
                 "poke");
}

}  // namespace devrt
