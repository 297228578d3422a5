// SPDX-License-Identifier: Apache-2.0
//
// Programs by hand, for tests of what makes and runs random ones.
//
//   ByHand p;                               // one device, one thread
//   const int s = p.Stream(StreamKind::kNonBlocking);
//   const int x = p.Block(Space::kDevice);
//   EXPECT_EQ(p.Fill(s, x, 7), "");         // "" or why the model refuses it
//
// Streams, events and blocks are made by a step of their own.

#ifndef DEVRT_TESTS_CTS_RANDOM_PROGRAM_H_
#define DEVRT_TESTS_CTS_RANDOM_PROGRAM_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cts/random/model.h"
#include "cts/random/program.h"

namespace devrt::cts {

inline Limits Everything() {
  Limits limits;
  limits.pinned = limits.host_func = limits.peer_copy = true;
  limits.timing = limits.gates = true;
  return limits;
}

class ByHand {
 public:
  static constexpr int kThreads = 2, kDevices = 2, kObjects = 6, kSlices = 4;

  explicit ByHand(bool concurrent = false, const Limits& limits = Everything())
      : limits_(limits) {
    program_.devices = kDevices;
    program_.threads = kThreads;
    program_.concurrent = concurrent;
    program_.slice_bytes = 16;
    for (int d = 0; d < kDevices; ++d) {
      program_.streams.push_back({StreamKind::kDefault, d, 0, false});
      for (int t = 0; t < kThreads; ++t) {
        program_.streams.push_back({StreamKind::kPerThread, d, t, false});
      }
      for (const auto kind :
           {StreamKind::kNonBlocking, StreamKind::kBlocking}) {
        for (int i = 0; i < kObjects; ++i) {
          program_.streams.push_back({kind, d, 0, false});
        }
      }
      for (int i = 0; i < kObjects; ++i) {
        program_.events.push_back({d, true, false});
        for (const auto space :
             {Space::kDevice, Space::kPinned, Space::kPlain}) {
          program_.blocks.push_back({space, d, kSlices});
        }
      }
      program_.gates.push_back({d});
    }
    model_ = std::make_unique<Model>(program_, limits);
  }

  const Program& program() const { return program_; }
  const Step& last() const { return program_.steps.back(); }
  void As(int thread) { thread_ = thread; }

  // ---- Objects

  int Default(int device = 0) const {
    return FindStream(program_, StreamKind::kDefault, device);
  }
  int PerThread(int device = 0) const {
    return FindStream(program_, StreamKind::kPerThread, device, thread_);
  }
  int Stream(StreamKind kind, int device = 0) {
    for (size_t i = 0; i < program_.streams.size(); ++i) {
      const StreamInfo& info = program_.streams[i];
      const int stream = static_cast<int>(i);
      if (info.kind != kind || info.device != device ||
          model_->WasStream(stream)) {
        continue;
      }
      Step s = Of(Act::kNewStream);
      s.stream = stream;
      Take(s);
      return stream;
    }
    return -1;
  }
  int Event(int device = 0) {
    for (size_t i = 0; i < program_.events.size(); ++i) {
      const int event = static_cast<int>(i);
      if (program_.events[i].device != device || model_->WasEvent(event)) {
        continue;
      }
      Step s = Of(Act::kNewEvent);
      s.event = event;
      Take(s);
      return event;
    }
    return -1;
  }
  int Block(Space space, int device = 0) {
    for (size_t i = 0; i < program_.blocks.size(); ++i) {
      const BlockInfo& info = program_.blocks[i];
      const int block = static_cast<int>(i);
      if (info.space != space || info.device != device ||
          model_->store().WasAllocated(block)) {
        continue;
      }
      Step s = Of(Act::kNewBlock);
      s.dst.block = block;
      Take(s);
      return block;
    }
    return -1;
  }

  // ---- Steps: "" or why not.

  std::string Fill(int stream, int block, int value) {
    Step s = Of(Act::kFill);
    s.stream = stream;
    s.dst = {block, 0, kSlices};
    s.value = {true, static_cast<uint8_t>(value), 0};
    return Take(s);
  }
  std::string Copy(int stream, int dst, int src, bool blocking = false) {
    Step s = Of(Act::kCopy);
    s.stream = stream;
    s.dst = {dst, 0, kSlices};
    s.src = {src, 0, kSlices};
    s.blocking = blocking;
    return Take(s);
  }
  std::string HostFunc(int stream, int src, int dst, int value) {
    Step s = Of(Act::kHostFunc);
    s.stream = stream;
    if (src >= 0) s.src = {src, 0, kSlices};
    if (dst >= 0) s.dst = {dst, 0, kSlices};
    s.value = {true, static_cast<uint8_t>(value), 3};
    return Take(s);
  }
  std::string Write(int block, int value) {
    Step s = Of(Act::kHostWrite);
    s.dst = {block, 0, kSlices};
    s.value = {true, static_cast<uint8_t>(value), 1};
    return Take(s);
  }
  std::string Read(int block) {
    Step s = Of(Act::kHostRead);
    s.src = {block, 0, kSlices};
    return Take(s);
  }
  // About a stream, an event, both, or a gate; for waits for streams and
  // elapsed times `other`.
  std::string Do(Act act, int stream, int event = -1, int other = -1) {
    Step s = Of(act);
    s.stream = stream;
    s.event = event;
    s.other = other;
    return Take(s);
  }
  std::string Hold(int gate, int stream) {
    Step s = Of(Act::kHold);
    s.gate = gate;
    s.stream = stream;
    return Take(s);
  }
  std::string Open(int gate) {
    Step s = Of(Act::kOpen);
    s.gate = gate;
    return Take(s);
  }
  std::string SyncDevice(int device) {
    Step s = Of(Act::kSyncDevice);
    s.device = device;
    return Take(s);
  }
  std::string Free(int block) {
    Step s = Of(Act::kFreeBlock);
    s.dst.block = block;
    return Take(s);
  }
  std::string Barrier() { return Take(Of(Act::kBarrier)); }
  // The correct answers of queries.
  Truth AskStream(int stream) {
    Do(Act::kQueryStream, stream);
    return last().truth;
  }
  Truth AskEvent(int event) {
    Do(Act::kQueryEvent, -1, event);
    return last().truth;
  }

 private:
  Step Of(Act act) const {
    Step step;
    step.act = act;
    step.thread = thread_;
    return step;
  }
  std::string Take(Step step) {
    const Verdict verdict = model_->Execute(&step);
    if (!verdict.ok) return verdict.why;
    program_.steps.push_back(std::move(step));
    return "";
  }

  const Limits limits_;
  Program program_;
  std::unique_ptr<Model> model_;
  int thread_ = 0;
};

}  // namespace devrt::cts

#endif  // DEVRT_TESTS_CTS_RANDOM_PROGRAM_H_
