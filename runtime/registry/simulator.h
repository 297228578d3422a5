// SPDX-License-Identifier: Apache-2.0
//
// Simulator: the functions that only a simulated accelerator has.  They set its
// configuration, read its virtual clock, replay a run, inject faults, and list
// each operation with its times.
//
//   DEVRT_ASSIGN_OR_RETURN(devrt::Simulator sim, devrt::Simulator::Get());
//   DEVRT_RETURN_IF_ERROR(sim.Reset("memory=64MiB,seed=7"));
//   DEVRT_RETURN_IF_ERROR(sim.EnableTimeline(true));
//   ... use devices, streams, events ...
//   DEVRT_ASSIGN_OR_RETURN(std::vector<devrt::SimulatedOp> ops,
//                          sim.Timeline());
//
// What it is not: for portable programs.  Get returns UNIMPLEMENTED for
// backends of real hardware.  Tests and demonstrations use it.
//
// A Simulator is a value of three pointers; copy it freely.
// Threads: every function may be called from any thread.  While Reset or Replay
// runs, no other thread may use the backend.
// Errors of all functions: FAILED_PRECONDITION after Shutdown() and in a forked
// child; INVALID_ARGUMENT for an argument that the simulator does not
// understand.

#ifndef DEVRT_RUNTIME_REGISTRY_SIMULATOR_H_
#define DEVRT_RUNTIME_REGISTRY_SIMULATOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_sim.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"

namespace devrt {

// One operation of the timeline.
struct SimulatedOp {
  // The part of the device that runs the operation.
  enum class Engine : uint32_t {
    kNone = DEVRT_SIM_ENGINE_NONE,  // records and waits
    kCompute = DEVRT_SIM_ENGINE_COMPUTE,
    kHostToDevice = DEVRT_SIM_ENGINE_H2D,
    kDeviceToHost = DEVRT_SIM_ENGINE_D2H,
    kPeer = DEVRT_SIM_ENGINE_P2P,
    kHost = DEVRT_SIM_ENGINE_HOST,  // host functions
    kCollective = DEVRT_SIM_ENGINE_COLLECTIVE,
  };
  // What the operation does.
  enum class Kind : uint32_t {
    kRecord = DEVRT_SIM_OP_RECORD,
    kWait = DEVRT_SIM_OP_WAIT,
    kKernel = DEVRT_SIM_OP_KERNEL,
    kCopy = DEVRT_SIM_OP_COPY,
    kFill = DEVRT_SIM_OP_FILL,
    kHostFunc = DEVRT_SIM_OP_HOST_FUNC,
    kAlloc = DEVRT_SIM_OP_ALLOC,  // stream-ordered
    kFree = DEVRT_SIM_OP_FREE,
    kCollective = DEVRT_SIM_OP_COLLECTIVE,  // one rank's part
  };
  // How far the operation is, at the time of the call of Timeline().
  enum class State : uint32_t {
    kPending = DEVRT_SIM_PENDING,
    kRunning = DEVRT_SIM_RUNNING,
    kDone = DEVRT_SIM_DONE,
    kFailed = DEVRT_SIM_FAILED,        // ended with a fault
    kDiscarded = DEVRT_SIM_DISCARDED,  // never ran: its device failed before
  };

  uint32_t device = 0;  // ordinal
  uint64_t stream = 0;  // number of the stream, unique in the machine
  // StreamRef::id() at submission; 0 for a default stream, nullopt if unknown.
  std::optional<uint64_t> stream_id;
  uint64_t seq = 0;  // number of the operation in its stream, from 1
  Kind kind = Kind::kKernel;
  Engine engine = Engine::kNone;
  State state = State::kPending;
  uint32_t thread = 0;  // number of the host thread that submitted it
  // Its place in the work of that thread since the restart, from 0.  {thread,
  // index} names one operation in every schedule.  nullopt for records and
  // waits, which do not count.
  std::optional<uint64_t> index;
  uint64_t bytes = 0;      // of a copy or fill
  uint64_t submit_ns = 0;  // of Simulator::Now, as the next two
  uint64_t begin_ns = 0;   // 0 before the operation begins
  uint64_t end_ns = 0;     // 0 before the operation ends
  std::string name;        // "copy H2D", "scale"
  std::string file;        // file of the CallSite; may be empty
  int line = 0;
  const void* native_stream = nullptr;
  // {stream, seq} of each operation that this one waited for.
  std::vector<std::pair<uint64_t, uint64_t>> dependencies;
  // TraceHash().steps at submission, begin and end, which order what happened
  // also where the times are equal.  0: not yet, or the simulator does not say.
  uint64_t submit_step = 0;
  uint64_t begin_step = 0;
  uint64_t end_step = 0;
  bool split = false;  // reads at its begin, writes at its end
  // The memory that it uses; {nullptr, UINT64_MAX} stands for any.
  std::vector<devrt_access_v0> accesses;
};

// One decision of virtual mode: a choice among candidates, 0 by default.
struct SimulatedDecision {
  // The question that the decision answers.
  enum class Kind : uint32_t {
    kSchedule = DEVRT_SIM_DECISION_SCHEDULE,  // what moves next
    kPageable = DEVRT_SIM_DECISION_PAGEABLE,  // how a pageable copy behaves
    kFault = DEVRT_SIM_DECISION_FAULT,        // whether a rule of `faults` hits
  };
  Kind kind = Kind::kSchedule;
  uint32_t count = 0;   // of the candidates; UINT32_MAX: not counted
  uint32_t choice = 0;  // less than count
  // kSchedule: the operation that moves, as SimulatedOp has it; 0, 0 if a host
  // thread moves.
  uint64_t stream = 0;
  uint64_t seq = 0;
  uint32_t thread = 0;  // that moves, or that submitted the operation
  std::string file;     // where that thread called; may be empty
  int line = 0;
};

// A fault to inject.  AllocateMemory's recovery calls a failed "alloc" again.
struct SimulatedFault {
  // What fails.
  enum class Kind : uint32_t {
    kApi = DEVRT_SIM_FAULT_API,        // one call fails
    kKernel = DEVRT_SIM_FAULT_KERNEL,  // an operation faults at its end
    kLost = DEVRT_SIM_FAULT_LOST,      // the device is lost at once
  };
  Kind kind = Kind::kKernel;
  uint32_t device = 0;      // ordinal
  uint32_t nth = 1;         // 1: the next matching call or operation
  int32_t native_code = 0;  // CUDA's number: 2, 46, 214, 700, 710, 719 ...
  // kApi: the table slot, "alloc"; kKernel: the operation's name.  Empty: any.
  std::string where;
};

// Counters of the simulated machine.
struct SimulatorStats {
  uint32_t threads = 0;       // host threads that joined the machine
  uint64_t live_streams = 0;  // without default streams
  uint64_t live_events = 0;
  uint64_t live_blocks = 0;  // device allocations
  uint64_t live_pinned = 0;
  uint64_t live_registered = 0;
  uint64_t pending_ops = 0;
  uint64_t completed_ops = 0;
  uint64_t created_streams = 0;  // since the last reset
  uint64_t created_events = 0;
  uint64_t host_funcs_run = 0;
  uint64_t kernels_run = 0;
  // How often real time decided what moved next, because a host thread slept or
  // computed for long outside of devrt, or a host function did not return.  If
  // it is not 0, a replay may differ from the run.
  uint64_t uncontrolled = 0;
  // How often rules of the key `faults` have hit something since the last
  // reset.  0 if the simulator is of before this counter.
  uint64_t faults_fired = 0;
};

// A backend's simulated machine.
class DEVRT_EXPORT Simulator {
 public:
  // UNIMPLEMENTED if the backend is not a simulator; errors of GetBackend.
  static absl::StatusOr<Simulator> Get(std::string_view backend = "mtia");
  static absl::StatusOr<Simulator> Get(Backend backend);

  // Restarts the machine: resets clock, memory, faults and peer access, and
  // repairs lost devices (C72).  `config` has the syntax of DEVRT_MTIA; keys
  // that it omits get their default, not their present value.  Rules of the
  // layer `faults` stay, and count from now on.
  //   FAILED_PRECONDITION  streams, events or allocations are alive (with their
  //                        counts), or `config` changes the number of devices
  //   INVALID_ARGUMENT     a mistake in `config`; names the key and the choices
  absl::Status Reset(std::string_view config = "") const;
  // The effective configuration with all keys, "key=value,...".
  absl::StatusOr<std::string> Config() const;

  // Nanoseconds since the last reset, of the virtual or the steady clock.
  absl::StatusOr<uint64_t> Now() const;
  // Lets other host threads and the device run: one scheduling decision.
  absl::Status Yield() const;

  // A number for the steps of a run: equal runs have equal hashes.
  struct Trace {
    uint64_t hash = 0;   // of all steps so far
    uint64_t steps = 0;  // their number
  };
  // The trace of the run since the last reset.
  absl::StatusOr<Trace> TraceHash() const;
  // The replay token "dvs1:..." of the run so far, with the rules of the layer
  // `faults`.  Logs a warning if Stats().uncontrolled says that a replay may
  // differ.
  absl::StatusOr<std::string> Token() const;
  // Resets to the token's seed and strategy, then repeats its decisions.
  // A token may lack rules of the layer `faults` that the program has set: the
  // next reset brings them back.
  //   FAILED_PRECONDITION  objects are alive, as of Reset; or the token was
  //                        made with another configuration, or with rules of
  //                        the layer that the program has not set
  absl::Status Replay(std::string_view token) const;
  // Call it where the token was asked for, at the end of the replayed run.
  //   FAILED_PRECONDITION  the token is of another program: one of its
  //                        decisions was not there, or some were left over
  absl::Status CheckReplay() const;

  // A name of an operation that stays over schedules, as in the keys `hold` and
  // `until` of strategy directed.
  struct OpId {
    uint32_t thread = 0;  // number of the host thread that submits it
    uint64_t index = 0;   // its place in the work of that thread, from 0
  };
  // The name that the calling thread's next operation will get.  The call is no
  // decision.  UNIMPLEMENTED if the simulator is older than this function.
  absl::StatusOr<OpId> NextOp() const;
  // A hash of what the run has made that a program can see: what operations
  // wrote to host memory, the contents of device memory, and faults.  Addresses
  // and the order of operations do not count, so two runs of a program without
  // races have one outcome, whatever their schedules.  Call it when all work is
  // complete; the call is no decision.
  //   FAILED_PRECONDITION  the machine was started without `outcome=on`
  //   UNIMPLEMENTED        the simulator is older than this function
  absl::StatusOr<uint64_t> Outcome() const;

  // Injects a fault; several may be pending.
  absl::Status InjectFault(const SimulatedFault& fault) const;

  // Turns the recording of operations for Timeline() on or off; off at first.
  absl::Status EnableTimeline(bool on) const;
  // The recorded operations, in order of submission.
  absl::StatusOr<std::vector<SimulatedOp>> Timeline() const;

  // Turns the record of decisions on or off; off at first.  Reset and Replay
  // empty the record and leave it on.
  absl::Status KeepDecisions(bool on) const;
  // The recorded decisions in their order.  This function and the one before
  // return UNIMPLEMENTED if the simulator is too old for them.
  absl::StatusOr<std::vector<SimulatedDecision>> Decisions() const;

  // The counters as they are now.
  absl::StatusOr<SimulatorStats> Stats() const;
  // The last deadlock report; empty if there was no deadlock.
  absl::StatusOr<std::string> DeadlockReport() const;

  // Copies `bytes` bytes from or to device memory at once, without stream order
  // and without regard to pending work.  Tests use both for their final
  // comparisons:
  absl::Status Peek(const void* device_pointer, void* host,
                    uint64_t bytes) const;
  absl::Status Poke(void* device_pointer, const void* host,
                    uint64_t bytes) const;

  // The simulated backend.
  Backend backend() const { return backend_; }

 private:
  Simulator(Backend backend, Extension found)
      : backend_(backend),
        table_(static_cast<const devrt_sim_v1*>(found.table)),
        self_(found.self) {}

  Backend backend_;
  const devrt_sim_v1* table_;
  void* self_;
};

}  // namespace devrt

#endif  // DEVRT_RUNTIME_REGISTRY_SIMULATOR_H_
