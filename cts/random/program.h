// SPDX-License-Identifier: Apache-2.0
//
// A random program: a list of steps with devices, streams, events and memory.
// Each step has the host thread that runs it, and the result that is expected.
//
//   Program p = Generate(ProgramSeed(1, 37), shape);
//   std::puts(ToText(p).c_str());
//
// Objects are indices of the program's tables.  A table has the kind of each
// object; steps create and destroy it.  Memory is used in slices of
// `slice_bytes`.  A slice is always written as a whole, so two numbers describe
// its content.
//
// A Program is a value; it owns nothing and knows no backend.

#ifndef DEVRT_CTS_RANDOM_PROGRAM_H_
#define DEVRT_CTS_RANDOM_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

namespace devrt::cts {

enum class Act {
  kNewStream,     // stream
  kDropStream,    // stream
  kNewEvent,      // event
  kDropEvent,     // event
  kNewBlock,      // dst.block
  kFreeBlock,     // dst.block
  kFill,          // stream, dst, value
  kCopy,          // stream, dst, src, blocking
  kHostFunc,      // stream; reads src, writes value to dst; either may be none
  kSpin,          // stream, nanoseconds
  kRecord,        // event, stream
  kWait,          // stream, event
  kWaitStream,    // stream, other: stream waits for the stream `other`
  kSyncStream,    // stream
  kSyncEvent,     // event
  kSyncDevice,    // device
  kQueryStream,   // stream; reads src if the result is true
  kQueryEvent,    // event; reads src if the result is true
  kPollStream,    // stream; queries until the result is true
  kPollEvent,     // event; queries until the result is true
  kElapsed,       // from `event` to the event `other`
  kHold,          // gate, stream: later work of the stream waits
  kOpen,          // gate
  kHostWrite,     // dst, value
  kHostRead,      // src
  kSelectDevice,  // device: becomes current in the thread
  kBarrier,       // all threads; only where Program::concurrent
};

// Bytes that go up by `stride` from `base`, modulo 256.
struct Content {
  bool defined = false;
  uint8_t base = 0;
  uint8_t stride = 0;

  // The content that begins `bytes` later.
  Content After(uint64_t bytes) const {
    return {defined, static_cast<uint8_t>(base + bytes * stride), stride};
  }
  friend bool operator==(const Content& a, const Content& b) {
    return a.defined == b.defined && a.base == b.base && a.stride == b.stride;
  }
};

// Some slices of a block; block < 0: none.
struct Span {
  int block = -1;
  int first = 0;
  int count = 0;
};

// The legal results of a query, or of an elapsed time.
enum class Truth {
  kAny,    // either; a time of either sign
  kTrue,   // true; a time >= 0
  kSoon,   // true soon: no item says when a wait is complete
  kFalse,  // false; a time <= 0
  kError,  // elapsed time only: FAILED_PRECONDITION, not complete yet
};

struct Step {
  Act act = Act::kBarrier;
  int thread = 0;
  int device = -1;
  int stream = -1;
  int event = -1;
  int gate = -1;
  int other = -1;
  Span dst, src;
  Content value;
  bool blocking = false;
  uint32_t nanoseconds = 0;

  // The model fills in these.
  Truth truth = Truth::kAny;
  std::vector<Content> found;  // of each slice of src that is compared
};

enum class StreamKind { kNonBlocking, kBlocking, kDefault, kPerThread };

struct StreamInfo {
  StreamKind kind = StreamKind::kNonBlocking;
  int device = 0;
  int thread = 0;       // kPerThread: the thread
  bool native = false;  // the handle is given out, so it is not recycled

  bool IsCreated() const {
    return kind == StreamKind::kNonBlocking || kind == StreamKind::kBlocking;
  }
  // True if the stream takes part in the legacy rule (C8).
  bool IsBlocking() const {
    return kind == StreamKind::kBlocking || kind == StreamKind::kPerThread;
  }
};

struct EventInfo {
  int device = 0;
  bool timing = false;
  bool blocking_sync = false;
};

enum class Space { kDevice, kPinned, kPlain };

struct BlockInfo {
  Space space = Space::kDevice;
  int device = 0;
  int slices = 1;
};

struct GateInfo {
  int device = 0;
};

struct Program {
  uint64_t seed = 0;
  int devices = 1;  // of the chosen devices
  int threads = 1;
  // True if threads run at the same time between barriers, each with its own
  // objects.  Otherwise the steps run one after the other, in their order.
  bool concurrent = false;
  uint32_t slice_bytes = 1;
  std::vector<StreamInfo> streams;
  std::vector<EventInfo> events;
  std::vector<BlockInfo> blocks;
  std::vector<GateInfo> gates;
  std::vector<Step> steps;
};

// The stream of a kind, a device and, if it is per thread, a thread; or -1.
int FindStream(const Program& program, StreamKind kind, int device,
               int thread = 0);

// The contents of `count` slices that begin with `step.value`.
std::vector<Content> Slices(const Content& value, int count,
                            uint32_t slice_bytes);

// One line, "record event 2 on stream 1".
std::string ToText(const Step& step);
// All steps, numbered from 1.
std::string ToText(const Program& program);

// The seed of program `index` of `seed`, below 2^63.  Program 0 has `seed`
// itself, so --seed=<the seed of a program> --programs=1 runs that program.
uint64_t ProgramSeed(uint64_t seed, int index);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_PROGRAM_H_
