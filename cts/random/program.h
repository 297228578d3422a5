// SPDX-License-Identifier: Apache-2.0
//
// A random program: a list of steps over devices, streams, events and memory,
// each with the host thread that does it, and with what it must find.
//
//   Program p = Generate(ProgramSeed(1, 37), shape);
//   std::puts(ToText(p).c_str());
//
// Objects are numbers of the program's tables; a table says of what kind an
// object is, steps make it and give it up.  Memory is used in slices of
// `slice_bytes`: a slice is written as a whole, so its content is two numbers.
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
  kHostFunc,      // stream; reads src, writes dst := value; either may be none
  kSpin,          // stream, nanoseconds
  kRecord,        // event, stream
  kWait,          // stream, event
  kWaitStream,    // stream waits for the stream `other`
  kSyncStream,    // stream
  kSyncEvent,     // event
  kSyncDevice,    // device
  kQueryStream,   // stream; reads src if the answer was true
  kQueryEvent,    // event; the same
  kPollStream,    // stream, until the query is true
  kPollEvent,     // event
  kElapsed,       // from `event` to the event `other`
  kHold,          // gate, stream: what follows in it waits
  kOpen,          // gate
  kHostWrite,     // dst, value
  kHostRead,      // src
  kSelectDevice,  // device: makes it the thread's current one
  kBarrier,       // all threads; only where Program::concurrent
};

// Bytes that go up by `stride` from `base`, modulo 256.
struct Content {
  bool defined = false;
  uint8_t base = 0;
  uint8_t stride = 0;

  // What begins `bytes` later.
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

// What a query may answer, or what an elapsed time may be.
enum class Truth {
  kAny,    // either; a time of either sign
  kTrue,   // true; a time >= 0
  kSoon,   // true before long: no item says when a wait is over
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

  // Filled in by the model.
  Truth truth = Truth::kAny;
  std::vector<Content> found;  // of each slice of src, where it is compared
};

enum class StreamKind { kNonBlocking, kBlocking, kDefault, kPerThread };

struct StreamInfo {
  StreamKind kind = StreamKind::kNonBlocking;
  int device = 0;
  int thread = 0;       // kPerThread: whose
  bool native = false;  // its handle is asked for, so it is destroyed for real

  bool IsCreated() const {
    return kind == StreamKind::kNonBlocking || kind == StreamKind::kBlocking;
  }
  // Takes part in the rule of the default stream (C8).
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
  int devices = 1;  // counted among the chosen ones
  int threads = 1;
  // Threads run at the same time between barriers, over objects of their own;
  // otherwise one after the other in the order of the list.
  bool concurrent = false;
  uint32_t slice_bytes = 1;
  std::vector<StreamInfo> streams;
  std::vector<EventInfo> events;
  std::vector<BlockInfo> blocks;
  std::vector<GateInfo> gates;
  std::vector<Step> steps;
};

// The stream of that kind and device, of that thread if it is per thread; -1.
int FindStream(const Program& program, StreamKind kind, int device,
               int thread = 0);

// What `count` slices of `step.value` hold, slice by slice.
std::vector<Content> Slices(const Content& value, int count,
                            uint32_t slice_bytes);

// One line, "record event 2 on stream 1".
std::string ToText(const Step& step);
// All steps, numbered from 1.
std::string ToText(const Program& program);

// Program `index` of seed `seed`; program 0 has the seed itself, so that
// --seed=<that of a program> --programs=1 is this program.  Below 2^63.
uint64_t ProgramSeed(uint64_t seed, int index);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_PROGRAM_H_
