// SPDX-License-Identifier: Apache-2.0
//
// The nouns of the engine: points, operations, streams, events, flags and host
// threads.  All are pooled and never freed, so that a stale pointer to one is
// never a wild one.

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

#include "backends/mtia/engine/error.h"
#include "backends/mtia/engine/handles.h"
#include "backends/mtia/engine/small_vector.h"
#include "backends/mtia/threads/thread_watch.h"
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

struct StreamCore;
struct Event;
struct Flag;

// "Everything in `stream` up to `seq`."  Numbers go on when a core is reused,
// so a stale point is complete.
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
};
const char* KindName(OpKind kind);  // "record"; report.cc

enum class EngineClass : uint8_t {
  kNone = DEVRT_SIM_ENGINE_NONE,
  kCompute = DEVRT_SIM_ENGINE_COMPUTE,
  kH2D = DEVRT_SIM_ENGINE_H2D,
  kD2H = DEVRT_SIM_ENGINE_D2H,
  kP2P = DEVRT_SIM_ENGINE_P2P,
  kHost = DEVRT_SIM_ENGINE_HOST,
};
inline constexpr uint32_t kEngineClasses = 6;

enum class OpState : uint8_t {
  kPending = DEVRT_SIM_PENDING,
  kRunning = DEVRT_SIM_RUNNING,
  kDone = DEVRT_SIM_DONE,
  kFailed = DEVRT_SIM_FAILED,
  kDiscarded = DEVRT_SIM_DISCARDED,
};

// What a kernel does.
enum class Action : uint8_t { kBody, kSpin, kFlagWait, kFlagSet, kFault };

struct Site {
  const char* file = nullptr;  // static storage
  int32_t line = 0;
};

// A declared range and where it lies during a two-phase execution.
struct Range {
  std::byte* ptr;  // public address
  uint64_t size;
  uint32_t mode;     // DEVRT_ACCESS_*
  uint64_t scratch;  // offset of the copy in Op::scratch
};

struct Op {
  Op* next = nullptr;
  StreamCore* stream = nullptr;
  uint64_t seq = 0;
  uint64_t id = 0;  // number of the submission: age
  OpKind kind = OpKind::kRecord;
  EngineClass engine = EngineClass::kNone;
  OpState state = OpState::kPending;
  Action action = Action::kBody;
  bool split = false;     // two phases: reads at begin, writes at end
  bool declared = false;  // kernels: `ranges` is all that it may touch
  bool staged = false;    // copies: `scratch` holds the source
  bool holds_token = false;
  bool abroad = false;   // another thread runs it right now
  bool dropped = false;  // copies: does nothing, its call was refused
  uint32_t device = 0;
  uint32_t thread = 0;      // who submitted it,
  uint64_t call_index = 0;  // and in which of its calls
  uint32_t next_dep = 0;    // the first of `deps` not known to be done
  uint32_t implicit = 0;    // from here on `deps` are of the legacy rule
  VTime submitted = 0;
  VTime began = 0;
  VTime ended = 0;
  VTime duration = 0;
  uint64_t timeline = kNever;  // index in the timeline
  Site site;
  const char* name = "";  // static storage; `label` wins if not empty
  std::string label;
  Points deps;

  // Record: whose capture ends here.
  Event* event = nullptr;
  uint64_t capture = 0;
  // Stream-ordered memory, at `dst`.
  uint64_t block = 0;  // its number
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
  int32_t fault_code = 0;  // kFault, or found by the first phase
  std::string fault_text;
  // Host function.
  void (*host_func)(void*, devrt_status) = nullptr;

  std::vector<std::byte> scratch;   // what the body works on
  std::vector<std::byte> snapshot;  // what was read, to find changed bytes

  const char* Name() const { return label.empty() ? name : label.c_str(); }
};

enum class StreamKind : uint8_t {
  kLegacy,
  kPerThread,
  kBlocking,
  kNonBlocking
};

// Where the head of a stream stands.
enum class HeadState : uint8_t {
  kNone,     // no operation
  kBlocked,  // waits for a point of `waits_on`
  kReady,    // able to take a step (if a token is free)
  kParked,   // begun, and waits for a flag or a host function
};

struct StreamCore {
  uint32_t device = 0;
  StreamKind kind = StreamKind::kNonBlocking;
  int32_t priority = 0;
  bool destroyed = false;
  bool busy = false;    // has work, pending waits, or failed
  bool in_use = false;  // not in the pool
  uint64_t number = 0;  // unique in the machine since reset
  // The program's number plus 1, by the last submission; 0: not known.
  uint64_t host_number = 0;
  uint64_t base = 0;  // `issued` when this life of the core began
  uint64_t life = 0;  // counts the lives
  uint64_t issued = 0;
  uint64_t completed = 0;
  uint64_t failed_from = kNever;  // points from here on have failed
  const Fault* origin = nullptr;  // why
  bool failure_told = false;      // a call has returned it
  uint64_t native = 0;            // handle value, 0 for default streams
  uint32_t thread = 0;            // kPerThread: whose
  uint32_t queued_work = 0;       // kernels, copies, fills: queue_depth
  Op* head = nullptr;
  Op* tail = nullptr;
  Points pending;  // waits not yet attached to an operation
  VTime last_end = 0;
  StreamCore* busy_prev = nullptr;  // per device
  StreamCore* busy_next = nullptr;
  // Streams whose head waits for one of our points, and our place in such a
  // list.
  StreamCore* waiters = nullptr;
  StreamCore* next_waiter = nullptr;
  StreamCore* waits_on = nullptr;
  uint64_t waits_seq = 0;
  // Scheduling of the head.
  HeadState head_state = HeadState::kNone;
  VTime when = 0;           // of the head's next step
  uint32_t heap_index = 0;  // + 1, in the driver's heap; 0: not there
  bool in_token_list = false;
  bool queued_eval = false;
};

// What a devrt_stream names.
struct Stream : HandleSlot {
  StreamCore* core = nullptr;
  uint64_t life = 0;  // of the core when the handle was made
  bool adopted = false;
  bool is_default = false;
};

// What a devrt_event names.
struct Event : HandleSlot {
  uint32_t device = 0;
  uint32_t flags = 0;
  uint64_t number = 0;
  uint64_t capture = 0;     // counts records, over all lives
  Point point{nullptr, 0};  // of the newest capture
  VTime end = 0;            // valid when `ended`
  bool ended = false;
};

struct Flag : HandleSlot {
  uint32_t device = 0;
  uint32_t value = 0;
  uint64_t number = 0;
};

enum class HostState : uint8_t {
  kOutside,   // runs user code (or is blocked there) without the baton
  kHolding,   // has the baton
  kArriving,  // sleeps at the start of a call
  kPaused,    // sleeps at the end of a call
  kBlocked,   // sleeps until `want` is done
};

// What a thread that polls in vain has seen of the others.
struct PollWatch {
  uint64_t progress = kNever;  // when it began
  std::chrono::steady_clock::time_point look_at{};
  uint32_t looks = 0;
  ThreadWatch watch;
};

struct HostThread {
  uint32_t index = 0;
  bool left = false;
  std::atomic<uint64_t> calls{0};
  uint64_t epoch = 0;       // of the machine that it joined
  bool is_leaving = false;  // asleep at its end
  bool is_dropped = false;  // and of no machine any more
  int32_t tid = 0;
  VTime now = 0;
  uint64_t jitter = 0;  // state of the generator for host_call
  Points want;          // what a blocking call waits for
  uint32_t want_next = 0;
  Site site;                     // of the call that it is in
  const char* entry = "";        // name of that call
  const void* polled = nullptr;  // the object of the last "not ready"
  uint32_t polled_same = 0;      // in a row
  uint32_t polled_any = 0;
  PollWatch poll_watch;
  std::vector<Stream*> per_thread;  // by device
  // Guarded by the baton's or the machine's mutex.
  HostState state = HostState::kOutside;
  bool granted = false;
  bool soft_wait = false;  // kBlocked until anything happens
  uint64_t progress = 0;   // counter value at the start of a soft wait
  uint64_t turn = 0;       // of all threads, when it went on last
  std::condition_variable wake;
};

// Kernels, copies and fills: what fills a queue and what faults are injected
// into.
inline bool IsWork(const Op* op) {
  return op->kind == OpKind::kKernel || op->kind == OpKind::kCopy ||
         op->kind == OpKind::kFill;
}
// What begins and ends the life of a stream-ordered block.
inline bool IsLifetime(const Op* op) {
  return op->kind == OpKind::kAlloc || op->kind == OpKind::kFree;
}
inline bool Done(const Point& p) { return p.stream->completed >= p.seq; }
inline bool Failed(const Point& p) { return p.seq >= p.stream->failed_from; }

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_OP_H_
