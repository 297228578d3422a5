// SPDX-License-Identifier: Apache-2.0
//
// The semantics engine: all ordering state of the machine (docs/simulator.md
// 2).  It decides what may run; a Driver decides when.
//
// Threads: every member is called by the thread that is inside the machine
// (see call.h): the holder of the baton in virtual mode, of `mutex` in
// threaded mode.  What may be called from elsewhere says so.

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_ENGINE_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/mtia/config/config.h"
#include "backends/mtia/drivers/strategy.h"
#include "backends/mtia/engine/op.h"
#include "backends/mtia/memory/memory.h"
#include "backends/mtia/table/current_device.h"

namespace devrt::mtia {

// Entry points, for fault injection and texts: the table's slots, then the
// calls of the extensions that can fail.
enum class Slot : uint8_t {
#define DEVRT_SLOT(name, required, capability) name,
#include "devrt/backends/abi/devrt_slots.inc"
  launch,
  spin,
  flag_create,
  flag_destroy,
  flag_wait,
  flag_set,
  flag_set_async,
  fault,
  tensor_fill,
  tensor_apply,
  tensor_reduce,
  vm_info,
  vm_reserve,
  vm_release,
  vm_create,
  vm_destroy,
  vm_map,
  vm_unmap,
  sim,  // devrt.sim/1: never injected into
};
const char* SlotName(Slot slot);

inline constexpr uint32_t kAnyDevice = UINT32_MAX;

// Tokens of one class of one device: how many operations may run at a time.
struct Tokens {
  uint32_t limit = 1;  // kUnlimited: no limit
  uint32_t used = 0;
  uint32_t pending = 0;              // ready heads that want one
  std::vector<StreamCore*> waiting;  // hw: heads whose time came too early
  bool available() const { return limit == kUnlimited || used < limit; }
};

struct DeviceState {
  uint32_t ordinal = 0;
  Fault fault;
  StreamCore* busy = nullptr;  // list of busy streams
  StreamCore* legacy = nullptr;
  Stream* legacy_handle = nullptr;
  Tokens tokens[kEngineClasses];
};

// One armed devrt.sim/1 fault.
struct InjectedFault {
  uint32_t kind = 0;
  uint32_t device = 0;
  uint32_t nth = 0;
  int32_t native_code = 0;
  std::string slot;
};

// A host function whose stream failed; it is called outside with the error.
struct Orphan {
  void (*fn)(void*, devrt_status);
  void* arg;
  Fault fault;
};
struct Garbage {
  void (*destroy)(void*);
  void* arg;
};

struct TimelineEntry {
  devrt_sim_op_v1 op = {};
  std::string name;
  std::string file;
  std::vector<uint64_t> dep_stream;
  std::vector<uint64_t> dep_seq;
  bool taken = false;            // by timeline_take
  devrt_sim_op_v1 View() const;  // valid as long as the entry
};

// Why a call cannot be answered.
enum class Hopeless : uint8_t { kWait, kPoll, kSteps };

// Runs what the engine says is able to run.
class Driver {
 public:
  virtual ~Driver() = default;
  // The head of `s` has no dependency left.
  virtual void HeadReady(StreamCore* s) = 0;
  // The head of `s`, ready or parked, is being discarded.
  virtual void HeadGone(StreamCore* s) = 0;
  // The flag that the parked head of `s` waits for is set.
  virtual void Unpark(StreamCore* s) = 0;
  // Operations were discarded, so points became done.
  virtual void Discarded() {}
  // Copies that were running when they were discarded have ended.
  virtual void AwaitDiscardedCopies() {}
  // Returns when all points of me->want are done, or with a report.
  virtual devrt_status Wait(HostThread* me) = 0;
  // `me` was told "not ready" once too often.
  virtual devrt_status SoftWait(HostThread* me) = 0;
  // A decision point: the end of a call, or yield.
  virtual void Decide(HostThread* me) = 0;
  // The clock as `me` sees it.
  virtual VTime Now(const HostThread* me) const = 0;
  // Brings everything to rest; afterwards no body runs.
  virtual void Stop() = 0;
  // Begins anew after Stop, with the engine's configuration.
  virtual void Start() = 0;
};

// Made at the first call, never destroyed.
Driver* TheVirtualDriver();
Driver* TheThreadedDriver();

class Engine {
 public:
  Engine();

  // ---- life of the machine (machine.cc) ----

  // Puts a machine where there was none.  Makes neither memory nor threads.
  void Start(const Config& config);
  // Starts afresh.  `log` (may be null) is followed as a replay.  On an error
  // nothing has changed.
  devrt_status Reset(const Config& config, const ChoiceLog* log);
  // The memory, made at its first use; nullptr with *error set.
  Memory* GetMemory(devrt_status* error);
  // The memory if it exists.  From any thread.
  Memory* memory() const { return memory_.load(std::memory_order_acquire); }

  // ---- handles (lookup.cc) ----

  // The live object, or nullptr with *error set.
  Stream* FindStream(devrt_stream handle, devrt_status* error);
  Event* FindEvent(devrt_event handle, devrt_status* error);
  Flag* FindFlag(uint64_t handle, devrt_status* error);
  devrt_status CheckDevice(uint32_t device) const;

  // ---- streams (lookup.cc) ----
  StreamCore* NewCore(uint32_t device, StreamKind kind, int32_t priority);
  Stream* NewStream(StreamCore* core);
  // The handle; work completes, and waits that no work followed hold.
  void ReleaseStream(Stream* stream, HostThread* me);
  StreamCore* Legacy(uint32_t device);
  Stream* PerThread(HostThread* me, uint32_t device);

  // ---- submission (engine.cc) ----

  // An operation to fill in; it goes to Submit or to Recycle.
  Op* NewOp(OpKind kind, StreamCore* s, HostThread* me, const char* name);
  void Recycle(Op* op);
  // The end of a discarded operation that another thread was running.
  void Abandon(Op* op) {
    if (op->kind == OpKind::kCopy) --discarded_copies;
    Retire(op);
  }
  void Submit(Op* op);
  // Unless it is over, the operation of `p` will touch no memory.
  void Drop(const Point& p);
  void Record(Event* event, StreamCore* s, HostThread* me);
  void WaitEvent(StreamCore* s, Event* event, HostThread* me);
  // Everything submitted to `s` so far, appended to `points`.
  void Frontier(StreamCore* s, Points* points);
  // What an operation of `s` comes after: that, and for a blocking stream the
  // work of its device's default stream.
  void Predecessors(StreamCore* s, Points* points);
  void DeviceFrontier(uint32_t device, Points* points);

  // ---- progress (engine.cc) ----

  // The running head of its stream has ended.
  void Complete(Op* op, VTime end);
  void SetFlag(Flag* flag, uint32_t value);
  bool FlagIsSet(const Op* op) const;
  void TakeToken(Op* op);
  void ReleaseToken(Op* op);
  Tokens& TokensOf(const Op* op) {
    return devices[op->device].tokens[static_cast<uint32_t>(op->engine)];
  }
  // Whether the operation needs a token; probes that wait for a flag do not.
  static bool NeedsToken(const Op* op) {
    return op->engine != EngineClass::kNone &&
           op->action != Action::kFlagWait && op->action != Action::kFlagSet;
  }

  // ---- execution (execute.cc) ----

  // First phase: split operations read.  Nothing else happens.
  void BeginBody(Op* op);
  // Second phase.  Returns a fault, or none.  In threaded mode both run
  // outside the lock.  Injected faults are the driver's part.
  Fault EndBody(Op* op);
  // The block of a free that will not run: nothing of its device will.
  void DropBlock(const Op* op);

  // ---- faults (faults.cc) ----

  // The stored error of `device`, or NULL.
  devrt_status DeviceError(uint32_t device, const char* entry) const;
  // The error of a stream: its device's, or that of work it waited for.
  devrt_status StreamError(StreamCore* s, const char* entry);
  // The error of the first failed point, or NULL.  The failures of all of
  // them count as told: what a destroyed stream leaves is told once.
  devrt_status PointsError(const Points& points, const char* entry);
  void FaultDevice(uint32_t device, Fault fault);
  void FailOp(Op* op, Fault fault, VTime end);
  Fault DescribeFault(const Op* op, int32_t code, const std::string& what);
  // The injected error of this call, or NULL.
  devrt_status InjectedError(Slot slot, uint32_t device);
  // The fault injected into `op`, which has run, or none; consumes it.  It may
  // hit kernels, copies and fills.
  Fault TakeInjected(const Op* op) {
    return op_faults.empty() ? Fault() : FireOn(op);
  }
  devrt_status Inject(const devrt_sim_fault_v1& fault);

  // ---- reports (report.cc) ----

  // Stores and returns the report of `me`, for which nothing will happen.
  devrt_status DeadlockReport(HostThread* me, Hopeless why);
  // Logs that `me` waits, or that a host function runs, for long.
  void WarnWaiting(const HostThread* me);
  void WarnHostFunc(const Op& op);

  // ---- timeline (timeline.cc) ----
  void TimelineSubmit(Op* op);
  void TimelineUpdate(const Op* op);
  // Visits what has ended and was not taken before; forgets what nobody will
  // ask for again.
  void TimelineTake(void (*visit)(void* arg, const devrt_sim_op_v1* op),
                    void* arg);
  bool TimelineKept() const { return timeline_on || timeline_taken_from; }

  // Nanoseconds that `op` takes by the cost model.
  VTime Cost(const Op* op) const;

  Config config;
  bool threaded = false;
  std::mutex mutex;  // threaded mode: everything below
  Driver* driver = nullptr;
  std::vector<DeviceState> devices;
  HandleTable<Stream, HandleKind::kStream> streams;
  HandleTable<Event, HandleKind::kEvent> events;
  HandleTable<Flag, HandleKind::kFlag> flags;
  Decisions decisions;
  TraceHash trace;
  std::vector<InjectedFault> api_faults;
  std::vector<InjectedFault> op_faults;
  std::vector<StreamCore*> parked;  // heads that wait for a flag
  std::vector<Orphan> orphans;
  std::vector<Garbage> garbage;
  std::deque<TimelineEntry> timeline;
  uint64_t timeline_base = 0;        // entries that were forgotten
  uint64_t timeline_next = 0;        // all entries before it are taken
  bool timeline_on = false;          // kept for timeline
  bool timeline_taken_from = false;  // kept until timeline_take
  std::string deadlock_report;
  bool nondeterministic = false;
  uint32_t discarded_copies = 0;  // that are still running
  uint64_t epoch = 0;             // counts resets
  uint64_t progress = 0;  // counts steps and calls that may free a waiter
  uint64_t steps = 0;
  std::atomic<uint64_t> last_op_id{0};  // to be read from anywhere
  uint64_t last_stream_number = 0;
  uint64_t last_event_number = 0;
  uint64_t last_flag_number = 0;
  uint64_t pending_ops = 0;
  uint64_t completed_ops = 0;
  uint64_t created_streams = 0;
  uint64_t created_events = 0;
  uint64_t live_streams = 0;  // by stream_create and not destroyed
  uint64_t host_funcs_run = 0;
  uint64_t kernels_run = 0;

 private:
  friend class EngineReset;
  void Append(Op* op, StreamCore* s);
  void CollectDeps(Op* op, StreamCore* s);
  void AddDep(Op* op, const Point& p);
  void AddImplicitDep(Op* op, const Point& p);
  static void AddCovered(StreamCore* b, Points* points);
  void Enqueue(StreamCore* s);
  void Drain();
  void EvaluateHead(StreamCore* s);
  void BlockOn(StreamCore* s, const Point& p);
  void StopWaiting(StreamCore* s);
  void WakeWaiters(StreamCore* s);
  void PopHead(StreamCore* s);
  void Retire(Op* op);
  void MarkBusy(StreamCore* s);
  void MaybeIdle(StreamCore* s);
  void LeaveBusy(StreamCore* s);
  void NoteTold(StreamCore* s);
  void PoolCore(StreamCore* s);
  std::string WaitingText(const HostThread* me);
  // The stream waits for failed work: nothing of it will run.
  void Poison(StreamCore* s, const Fault* origin);
  void DiscardAll(StreamCore* s);
  void DiscardOp(Op* op, const Fault& fault);
  Fault FireOn(const Op* op);

  std::atomic<Memory*> memory_{nullptr};
  std::vector<StreamCore*> to_evaluate_;
  bool draining_ = false;
  bool discarded_ = false;  // since the driver was told
  std::deque<StreamCore> cores_;
  std::vector<StreamCore*> free_cores_;
  std::vector<StreamCore*> failed_cores_;  // kept for points on them
  std::deque<Op> ops_;
  std::vector<Op*> free_ops_;
};

// The machine of this process; never destroyed.
extern Engine* g_engine;

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_ENGINE_H_
