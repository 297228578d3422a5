// SPDX-License-Identifier: Apache-2.0
//
// The objects of the machine: points, operations, streams, events, flags and
// host threads.  Each is used again after its end and never freed, so a stale
// pointer to one still points to an object of its class.

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_OP_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_OP_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/mtia/common/error.h"
#include "backends/mtia/engine/handles.h"
#include "backends/mtia/engine/small_vector.h"
#include "backends/mtia/system/thread_watch.h"
#include "devrt/backends/abi/devrt_launch.h"
#include "devrt/backends/abi/devrt_sim.h"

namespace devrt::mtia {

using VTime = uint64_t;  // ns of the machine's clock, virtual or steady
inline constexpr uint64_t kNever = UINT64_MAX;
// 146 years: clocks pass it by steps of at most 1 ns, so that neither they nor
// the sums that callers ask for wrap.
inline constexpr VTime kHorizon = uint64_t{1} << 62;
inline VTime After(VTime from, uint64_t duration) {
  if (from < kHorizon) return from + std::min(duration, kHorizon - from);
  return from + std::min<uint64_t>(duration, 1);
}

struct CollectivePart;
struct StreamCore;
struct Event;
struct Flag;

// All operations of `stream` up to number `seq`.  A core that is used again
// goes on counting, so the points of a stream that has ended are done.
struct Point {
  StreamCore* stream;
  uint64_t seq;
};
using Points = SmallVector<Point, 4>;

enum class OpKind : uint8_t {
  kRecord = DEVRT_SIM_OP_RECORD,
  kWait = DEVRT_SIM_OP_WAIT,
  kKernel = DEVRT_SIM_OP_KERNEL,
  kCopy = DEVRT_SIM_OP_COPY,
  kFill = DEVRT_SIM_OP_FILL,
  kHostFunc = DEVRT_SIM_OP_HOST_FUNC,
  kAlloc = DEVRT_SIM_OP_ALLOC,
  kFree = DEVRT_SIM_OP_FREE,
  kCollective = DEVRT_SIM_OP_COLLECTIVE,
};
// "record"
const char* KindName(OpKind kind);  // report.cc

enum class EngineClass : uint8_t {
  kNone = DEVRT_SIM_ENGINE_NONE,
  kCompute = DEVRT_SIM_ENGINE_COMPUTE,
  kH2D = DEVRT_SIM_ENGINE_H2D,
  kD2H = DEVRT_SIM_ENGINE_D2H,
  kP2P = DEVRT_SIM_ENGINE_P2P,
  kHost = DEVRT_SIM_ENGINE_HOST,
  kCollective = DEVRT_SIM_ENGINE_COLLECTIVE,
};
inline constexpr uint32_t kEngineClasses = 7;

enum class OpState : uint8_t {
  kPending = DEVRT_SIM_PENDING,
  kRunning = DEVRT_SIM_RUNNING,
  kDone = DEVRT_SIM_DONE,
  kFailed = DEVRT_SIM_FAILED,
  kDiscarded = DEVRT_SIM_DISCARDED,
};

// The index of a record or a wait, which are not counted: how often a program
// makes them may depend on the answers of queries.
inline constexpr uint64_t kNoIndex = DEVRT_SIM_NO_INDEX;

// What a kernel does: its body, or one of the probes.
enum class Action : uint8_t { kBody, kSpin, kFlagWait, kFlagSet, kFault };

struct Site {
  const char* file = nullptr;  // static storage
  int32_t line = 0;
};

// A range that a kernel declares, and the place of its scratch copy if the
// kernel runs in two phases.
struct Range {
  std::byte* ptr;  // the address that the program uses
  uint64_t size;
  uint32_t mode;     // DEVRT_ACCESS_*
  uint64_t scratch;  // offset in Op::scratch
};

struct Op {
  Op* next = nullptr;
  StreamCore* stream = nullptr;
  uint64_t seq = 0;
  uint64_t id = 0;  // number of the submission; the smaller, the older
  OpKind kind = OpKind::kRecord;
  EngineClass engine = EngineClass::kNone;
  OpState state = OpState::kPending;
  Action action = Action::kBody;
  bool split = false;     // two phases: reads at begin, writes at end
  bool declared = false;  // kernels: `ranges` is all that it may touch
  bool staged = false;    // copies: `scratch` holds the source
  bool holds_token = false;
  bool runs_elsewhere = false;  // another thread runs it now
  bool hangs = false;           // it has begun and does not end, by a rule
  bool dropped = false;         // copies: does nothing, because the call failed
  // Collectives: another operation of its group and device holds the slot.
  bool shares_slot = false;
  uint32_t device = 0;
  uint32_t thread = 0;        // the index of the thread that submitted it
  uint64_t index = kNoIndex;  // its place in the work of that thread
  uint32_t next_dep = 0;      // the first of `deps` not known to be done
  uint32_t implicit = 0;      // `deps` from here on: by the legacy rule
  VTime submitted = 0;
  VTime began = 0;
  VTime ended = 0;
  VTime duration = 0;
  uint64_t timeline = kNever;  // index in the timeline
  uint64_t rank = 0;           // of strategy pos; 0: not drawn
  Site site;
  const char* name = "";  // static storage; `label` wins if not empty
  std::string label;
  Points deps;

  // Record: the event, and its number of this record.
  Event* event = nullptr;
  uint64_t capture = 0;
  // Allocation and free of the stream-ordered block at `dst`.
  uint64_t block = 0;  // number of the block
  // Copy and fill.
  void* dst = nullptr;
  const void* src = nullptr;
  uint64_t size = 0;
  uint32_t value = 0;
  uint32_t dst_device = 0;
  uint32_t src_device = 0;
  // Kernel.
  std::vector<Range> ranges;
  void (*body)(void*, const devrt_kernel_context_v0*) = nullptr;
  void (*destroy)(void*) = nullptr;
  void* arg = nullptr;
  Flag* flag = nullptr;
  uint64_t flag_tag = 0;
  uint64_t timeout = 0;
  int32_t fault_code = 0;  // of Action::kFault, or met by the first phase
  std::string fault_text;
  CollectivePart* part = nullptr;  // of a collective
  // Host function.
  void (*host_func)(void*, devrt_status) = nullptr;

  std::vector<std::byte> scratch;   // the body works on this copy
  std::vector<std::byte> snapshot;  // what Begin read, to find changed bytes

  const char* Name() const { return label.empty() ? name : label.c_str(); }
};

enum class StreamKind : uint8_t {
  kLegacy,
  kPerThread,
  kBlocking,
  kNonBlocking
};

// The state of the head of a stream, which is its first operation.
enum class HeadState : uint8_t {
  kNone,     // no operation
  kBlocked,  // waits for a point of `waits_on`
  kReady,    // may take a step, if a token is free
  kParked,   // begun, and waits for a flag or a host function
};

struct StreamCore {
  uint32_t device = 0;
  StreamKind kind = StreamKind::kNonBlocking;
  int32_t priority = 0;
  bool destroyed = false;
  bool busy = false;    // has work, waits or a failure to report
  bool in_use = false;  // not in the pool
  uint64_t number = 0;  // unique in the machine since reset
  // The program's number of the stream plus 1, as of the last submission; 0 if
  // it is not known.
  uint64_t host_number = 0;
  uint64_t base = 0;  // `issued` when this stream began
  uint64_t life = 0;  // how many streams the core has been
  uint64_t issued = 0;
  uint64_t completed = 0;
  uint64_t failed_from = kNever;  // operations from here on have failed
  const Fault* origin = nullptr;  // the fault that they failed of
  bool failure_reported = false;  // a call has returned it
  uint64_t native = 0;            // the handle; 0 for default streams
  uint32_t thread = 0;            // kPerThread: index of the thread
  uint32_t queued_work = 0;       // kernels, copies, fills; see queue_depth
  Op* head = nullptr;
  Op* tail = nullptr;
  Points pending;          // waits that the next operation will have
  Op* group_op = nullptr;  // of a group of collectives, while it is submitted
  VTime last_end = 0;
  StreamCore* busy_prev = nullptr;  // per device
  StreamCore* busy_next = nullptr;
  // The list of streams whose head waits for a point of this stream, and this
  // stream's place in the list of another.
  StreamCore* waiters = nullptr;
  StreamCore* next_waiter = nullptr;
  StreamCore* waits_on = nullptr;
  uint64_t waits_seq = 0;
  // For the driver.
  HeadState head_state = HeadState::kNone;
  VTime when = 0;           // of the head's next step
  uint64_t rank = 0;        // of strategy pct; 0: not drawn
  uint32_t heap_index = 0;  // + 1, in the driver's heap; 0: not there
  bool in_token_list = false;
  bool queued_eval = false;
};

// The object of a devrt_stream: one handle of a core.
struct Stream : HandleSlot {
  StreamCore* core = nullptr;
  uint64_t life = 0;  // of the core when the handle was made
  bool adopted = false;
  bool is_default = false;
};

// The object of a devrt_event.
struct Event : HandleSlot {
  uint32_t device = 0;
  uint32_t flags = 0;
  uint64_t capture = 0;     // counts the records; never set back
  Point point{nullptr, 0};  // of the newest record
  VTime end = 0;            // valid when `ended`
  bool ended = false;
};

// The object of a devrt_flag.
struct Flag : HandleSlot {
  uint32_t device = 0;
  uint32_t value = 0;
  uint64_t number = 0;
};

enum class HostState : uint8_t {
  kOutside,   // runs code of the program without the baton, or blocks there
  kHolding,   // has the baton
  kArriving,  // sleeps at the start of a call
  kPaused,    // sleeps at the end of a call
  kBlocked,   // sleeps until `want` is done
  kCaught,    // waits in a lock outside of devrt, and sleeps in the handler
};

// What a thread that waits or polls without success has seen of the others.
struct StuckWatch {
  void Start() { began = look_at = RealClock::now(); }
  uint64_t progress = kNever;  // History::progress when the watch began
  RealClock::time_point began{};
  RealClock::time_point look_at{};
  std::chrono::nanoseconds pause = ThreadWatch::kSecondLook;
  bool is_certain = false;  // at the last look no other thread could act
  bool warned = false;
  uint32_t polls = 0;  // since the watch began
  ThreadWatch threads;
};

// The number of a thread that has none yet.
inline constexpr uint32_t kNoThreadIndex = 0x7ffffffe;

// A thread of the program that calls devrt.
struct HostThread {
  uint32_t index = 0;
  std::atomic<uint64_t> calls{0};
  uint64_t epoch = 0;        // number of the machine that it joined
  uint64_t work = 0;         // operations with an index that it has submitted
  uint64_t allocations = 0;  // of device memory, since the restart
  uint64_t host_copies = 0;  // from host to host, since the restart
  bool is_leaving = false;   // sleeps in its thread exit
  bool is_dropped = false;   // as before, and a reset has dropped it
  bool arbitrates = false;   // got the baton to decide who goes on
  bool is_called = false;    // to sleep in the handler (catching.h)
  bool is_let_go = false;    // from there, without the baton
  // Not nullptr: the thread waits in a lock while the word has the value.
  const uint32_t* lock_word = nullptr;
  uint32_t lock_value = 0;
  int32_t tid = 0;
  VTime now = 0;
  VTime observed = 0;    // when it last learnt that work is complete
  uint64_t jitter = 0;   // state of the generator for host_call
  uint64_t rank = 0;     // of strategies pos and pct; 0: not drawn
  uint32_t chances = 0;  // strategy lifo: at how many decisions it could go on
  Points want;           // what a blocking call waits for
  uint32_t want_next = 0;
  Site site;               // where the program made the present call
  const char* entry = "";  // name of that call
  // The first point of the last "not ready".  An event at one address may stand
  // for several records, and which address it has is no part of the schedule.
  Point polled = {};
  uint32_t polled_same = 0;  // "not ready" for it in a row
  uint32_t polled_any = 0;   // "not ready" for any point in a row
  StuckWatch stuck_watch;
  std::vector<Stream*> per_thread;  // by device
  // Guarded by the mutex of HostThreads, in threaded mode by the machine's.
  HostState state = HostState::kOutside;
  bool granted = false;
  bool soft_wait = false;  // kBlocked until anything happens
  uint64_t progress = 0;   // History::progress when the soft wait began
  uint64_t turn = 0;       // number of the turn in which it went on last
  std::condition_variable wake;
};

// True if the word has changed for which the thread waits in a lock.
inline bool HasChanged(const HostThread* thread) {
  return __atomic_load_n(thread->lock_word, __ATOMIC_ACQUIRE) !=
         thread->lock_value;
}

// True for kernels, copies, fills and collectives: they count for queue_depth,
// and injected faults hit them.
inline bool IsWork(const Op* op) {
  return op->kind == OpKind::kKernel || op->kind == OpKind::kCopy ||
         op->kind == OpKind::kFill || op->kind == OpKind::kCollective;
}
// True for the operations that begin and end the life of a stream-ordered
// block.
inline bool IsLifetime(const Op* op) {
  return op->kind == OpKind::kAlloc || op->kind == OpKind::kFree;
}
// True for the operations that have an index.
inline bool HasIndex(OpKind kind) {
  return kind != OpKind::kRecord && kind != OpKind::kWait;
}
inline bool Done(const Point& p) { return p.stream->completed >= p.seq; }
inline bool Failed(const Point& p) { return p.seq >= p.stream->failed_from; }
inline bool AllDone(const Points& points) {
  return std::all_of(points.begin(), points.end(), Done);
}

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_OP_H_
