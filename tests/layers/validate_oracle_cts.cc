// SPDX-License-Identifier: Apache-2.0
//
// Programs of the conformance suite as programs of the proof.
#include <algorithm>
#include <utility>
#include <vector>

#include "cts/random/generator.h"
#include "tests/layers/validate_oracle_generator.h"

namespace devrt::race::oracle {
namespace {

class Translation {
 public:
  explicit Translation(const cts::Program& from) : from_(from) {
    made_.devices = from.devices;
    made_.threads = from.threads;
    made_.one_order = true;
    for (const cts::StreamInfo& stream : from.streams) {
      const Kind kind = stream.kind == cts::StreamKind::kDefault ? Kind::kLegacy
                        : stream.IsBlocking() ? Kind::kBlocking
                                              : Kind::kNonBlocking;
      made_.streams.push_back({stream.device, kind});
    }
    // One more event, for a stream that waits for a stream.
    made_.events = static_cast<int>(from.events.size()) + 1;
    int cell = 0;
    for (const cts::BlockInfo& block : from.blocks) {
      cells_.push_back({cell, cell + block.slices});
      cell += block.slices;
    }
    is_too_large_ = cell > kCells;
  }

  Program Make() {
    if (is_too_large_) return Program();
    for (size_t i = 0; i < from_.streams.size(); ++i) {
      if (!from_.streams[i].IsCreated()) {
        Add(Do::kNewStream, static_cast<int>(i), -1);
      }
    }
    for (const cts::Step& step : from_.steps) Take(step);
    return std::move(made_);
  }

 private:
  Step& Add(Do what, int stream, int event) {
    Step step;
    step.what = what;
    step.thread = thread_;
    step.stream = stream;
    step.event = event;
    made_.steps.push_back(step);
    return made_.steps.back();
  }
  void AddUse(Step* step, const cts::Span& span, Effect effect) const {
    if (span.block < 0) return;
    const int begin =
        cells_[static_cast<size_t>(span.block)].begin + span.first;
    step->uses.push_back({{begin, begin + span.count}, effect, 0});
  }
  cts::Space SpaceOf(const cts::Span& span) const {
    return from_.blocks[static_cast<size_t>(span.block)].space;
  }
  void Block(const cts::Step& step, Do what) {
    // Plain memory of the program is not allocated by devrt.
    if (SpaceOf(step.dst) == cts::Space::kPlain) return;
    Add(what, -1, -1).block = cells_[static_cast<size_t>(step.dst.block)];
  }
  void Copy(const cts::Step& step);
  void Query(const cts::Step& step, Do what, bool answer);
  void Take(const cts::Step& step);

  const cts::Program& from_;
  Program made_;
  std::vector<Run> cells_;  // by block
  int thread_ = 0;
  bool is_too_large_ = false;
};

void Translation::Copy(const cts::Step& step) {
  const auto on_host = [&](const cts::Span& span) {
    return SpaceOf(span) != cts::Space::kDevice;
  };
  Step& copy = Add(Do::kSubmit, step.stream, -1);
  AddUse(&copy, step.src, Effect::kRead);
  AddUse(&copy, step.dst, Effect::kWrite);
  const bool within_host = on_host(step.src) && on_host(step.dst);
  const bool host_side = on_host(step.src) || on_host(step.dst);
  if (within_host || (step.blocking && host_side)) {
    Add(Do::kSyncStream, step.stream, -1);
  }
}

void Translation::Query(const cts::Step& step, Do what, bool answer) {
  Add(what, step.stream, step.event).answer = answer;
  if (answer && step.src.block >= 0) {
    AddUse(&Add(Do::kHostUse, -1, -1), step.src, Effect::kRead);
  }
}

void Translation::Take(const cts::Step& step) {
  thread_ = step.thread;
  // A query that may have either result is true here.
  const bool answer = step.truth != cts::Truth::kFalse;
  switch (step.act) {
    case cts::Act::kNewStream:
      Add(Do::kNewStream, step.stream, -1);
      break;
    case cts::Act::kDropStream:
      Add(Do::kDropStream, step.stream, -1);
      break;
    case cts::Act::kNewBlock:
      Block(step, Do::kAllocate);
      break;
    case cts::Act::kFreeBlock:
      Block(step, Do::kFree);
      break;
    case cts::Act::kFill:
    case cts::Act::kHostFunc:
    case cts::Act::kSpin:
    case cts::Act::kHold: {
      Step& submit = Add(Do::kSubmit, step.stream, -1);
      AddUse(&submit, step.src, Effect::kRead);
      AddUse(&submit, step.dst, Effect::kWrite);
      break;
    }
    case cts::Act::kCopy:
      Copy(step);
      break;
    case cts::Act::kRecord:
      Add(Do::kRecord, step.stream, step.event);
      break;
    case cts::Act::kWait:
      Add(Do::kWait, step.stream, step.event);
      break;
    case cts::Act::kWaitStream:
      if (step.other == step.stream) break;
      Add(Do::kRecord, step.other, made_.events - 1);
      Add(Do::kWait, step.stream, made_.events - 1);
      break;
    case cts::Act::kSyncStream:
    case cts::Act::kPollStream:
      Add(Do::kSyncStream, step.stream, -1);
      break;
    case cts::Act::kSyncEvent:
    case cts::Act::kPollEvent:
      Add(Do::kSyncEvent, -1, step.event);
      break;
    case cts::Act::kSyncDevice:
      Add(Do::kSyncDevice, -1, -1).device = step.device;
      break;
    case cts::Act::kQueryStream:
      Query(step, Do::kQueryStream, answer);
      break;
    case cts::Act::kQueryEvent:
      Query(step, Do::kQueryEvent, answer);
      break;
    case cts::Act::kHostRead:
      AddUse(&Add(Do::kHostUse, -1, -1), step.src, Effect::kRead);
      break;
    case cts::Act::kHostWrite:
      AddUse(&Add(Do::kHostUse, -1, -1), step.dst, Effect::kWrite);
      break;
    default:  // no order and no memory
      break;
  }
}

}  // namespace

Program ProgramOfCts(uint64_t seed) {
  cts::ProgramShape shape;
  shape.limits.pinned = shape.limits.host_func = shape.limits.peer_copy = true;
  shape.limits.timing = shape.limits.gates = true;
  shape.max_devices = 2;
  shape.max_threads = 1 + static_cast<int>(seed % 2);
  const cts::Program from =
      cts::Generate(cts::ProgramSeed(1, static_cast<int>(seed)), shape);
  return Translation(from).Make();
}

}  // namespace devrt::race::oracle
