// SPDX-License-Identifier: Apache-2.0
//
// The order of the detector beside the order of the simulator: on random
// programs, an operation comes after another one by the detector's clocks if
// and only if the simulator's dependencies say so.
//
// The simulator's scheduler gets the operations, and no driver runs them.  So
// all dependencies stay as they are, and their closure can be computed.
#include <gtest/gtest.h>

#include <bitset>
#include <cstdint>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "backends/mtia/engine/dependencies.h"
#include "backends/mtia/engine/events.h"
#include "backends/mtia/engine/scheduler.h"
#include "tests/layers/validate_oracle_compare.h"
#include "tests/layers/validate_oracle_generator.h"

namespace devrt::race::oracle {
namespace {

constexpr uint64_t kPrograms = 10'000;
constexpr int kMostDifferences = 3;
constexpr size_t kMostOps = 256;
using Ops = std::bitset<kMostOps>;

// Runs nothing.
class IdleDriver final : public mtia::Driver {
 public:
  void HeadReady(mtia::StreamCore*) override {}
  void HeadGone(mtia::StreamCore*) override {}
  void Unpark(mtia::StreamCore*) override {}
  devrt_status Wait(mtia::HostThread*) override { return nullptr; }
  devrt_status SoftWait(mtia::HostThread*) override { return nullptr; }
  void Decide(mtia::HostThread*) override {}
  void Spend(mtia::HostThread*) override {}
  mtia::VTime Now(const mtia::HostThread*) const override { return 0; }
  void Stop() override {}
  void Start() override {}
};

// The simulator's order of a program with one order of all its threads.
class Engine {
 public:
  explicit Engine(const Program& program)
      : program_(program), handles_(program.streams.size(), nullptr) {
    config_.devices = static_cast<uint32_t>(program.devices);
    history_.Reset();
    streams_.Start();
    scheduler_.UseDriver(&driver_);
    for (int event = 0; event < program.events; ++event) {
      events_of_.push_back(events_.New(0, 0));
    }
  }

  // Returns the operations that the one of the step, or the host, comes after.
  Ops Take(const Step& step);
  // The number of the newest operation of the stream in the sets.
  size_t Newest(int stream) const {
    const mtia::StreamCore* const core = CoreOf(stream);
    return ops_.at({core, core->issued}).number;
  }

 private:
  struct Node {
    size_t number = 0;
    Ops before;
  };
  using Place = std::pair<const mtia::StreamCore*, uint64_t>;

  mtia::StreamCore* CoreOf(int stream) const {
    return handles_[static_cast<size_t>(stream)]->core;
  }
  mtia::Event* EventOf(int event) const {
    return events_of_[static_cast<size_t>(event)];
  }
  Ops UpTo(const mtia::Point& point) const;
  Ops UpTo(const mtia::Points& points) const {
    Ops ops;
    for (const mtia::Point& point : points) ops |= UpTo(point);
    return ops;
  }
  // Gives the operations that the scheduler got in this call their sets.
  Ops AddNew(mtia::StreamCore* core);
  void NewStream(int stream);

  const Program& program_;
  mtia::Config config_;
  mtia::History history_;
  mtia::LazyMemory memory_{&config_};
  mtia::Streams streams_{&config_};
  mtia::Events events_;
  mtia::Tokens tokens_;
  mtia::Execution execution_{&config_, &memory_, &history_.outcome};
  mtia::Scheduler scheduler_{&config_, &history_,   &streams_,
                             &tokens_, &execution_, nullptr};
  IdleDriver driver_;
  mtia::HostThread host_;
  std::vector<mtia::Stream*> handles_;
  std::vector<mtia::Event*> events_of_;
  std::map<Place, Node> ops_;
  Ops known_;  // to the host
};

Ops Engine::UpTo(const mtia::Point& point) const {
  // A stream may have been used by an earlier one, so a number may be before
  // the first operation.
  const auto node = ops_.find({point.stream, point.seq});
  if (node == ops_.end()) return Ops();
  Ops ops = node->second.before;
  ops.set(node->second.number);
  return ops;
}

Ops Engine::AddNew(mtia::StreamCore* core) {
  Ops before;
  for (const mtia::Op* op = core->head; op != nullptr; op = op->next) {
    if (ops_.count({core, op->seq}) != 0) continue;
    before = known_ | UpTo(op->deps) | UpTo(mtia::Point{core, op->seq - 1});
    ops_[{core, op->seq}] = {ops_.size(), before};
  }
  return before;
}

void Engine::NewStream(int stream) {
  const StreamInfo& info = program_.streams[static_cast<size_t>(stream)];
  const auto device = static_cast<uint32_t>(info.device);
  handles_[static_cast<size_t>(stream)] =
      info.kind == Kind::kLegacy
          ? streams_.LegacyHandle(device)
          : streams_.Create(device,
                            info.kind == Kind::kBlocking
                                ? mtia::StreamKind::kBlocking
                                : mtia::StreamKind::kNonBlocking,
                            0);
}

Ops Engine::Take(const Step& step) {
  mtia::Points points;
  switch (step.what) {
    case Do::kNewStream:
      NewStream(step.stream);
      break;
    case Do::kDropStream: {
      mtia::StreamCore* const core = CoreOf(step.stream);
      scheduler_.ReleaseStream(handles_[static_cast<size_t>(step.stream)],
                               &host_);
      AddNew(core);
      break;
    }
    case Do::kSubmit:
    case Do::kAllocateOn:
    case Do::kFreeOn:
      scheduler_.Submit(scheduler_.NewOp(mtia::OpKind::kKernel,
                                         CoreOf(step.stream), &host_, ""));
      return AddNew(CoreOf(step.stream));
    case Do::kRecord:
      scheduler_.Record(EventOf(step.event), CoreOf(step.stream), &host_);
      return AddNew(CoreOf(step.stream));
    case Do::kWait:
      scheduler_.WaitEvent(CoreOf(step.stream), EventOf(step.event), &host_);
      AddNew(CoreOf(step.stream));
      break;
    case Do::kSyncEvent:
    case Do::kQueryEvent:
      if (step.what == Do::kSyncEvent || step.answer) {
        points.push_back(EventOf(step.event)->point);
      }
      break;
    case Do::kSyncStream:
    case Do::kQueryStream:
      if (step.what == Do::kSyncStream || step.answer) {
        mtia::AddFrontier(streams_, CoreOf(step.stream), &points);
      }
      break;
    case Do::kSyncDevice:
      mtia::AddDeviceFrontier(streams_, static_cast<uint32_t>(step.device),
                              &points);
      break;
    default:
      break;
  }
  known_ |= UpTo(points);
  return known_;
}

// Compares the order of every two operations.  Empty if all are equal.
std::string CompareWithEngine(const Program& program) {
  struct Pair {
    bool exists = false;
    Epoch epoch;
    size_t number = 0;
  };
  Engine engine(program);
  Watched watched(program);
  std::vector<Pair> pairs;  // by step
  std::ostringstream text;
  for (const Step& step : program.steps) {
    const Ops before = engine.Take(step);
    watched.Take(step);
    const bool in_stream =
        step.what == Do::kSubmit || step.what == Do::kRecord ||
        step.what == Do::kAllocateOn || step.what == Do::kFreeOn;
    const VectorClock& clock = watched.detector().order().ClockOf(
        in_stream ? watched.StreamOf(step.stream)
                  : watched.ThreadOf(step.thread));
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (!pairs[i].exists) continue;
      const bool by_engine = before[pairs[i].number];
      if (clock.Knows(pairs[i].epoch) != by_engine) {
        text << "step " << i << (by_engine ? " comes" : " does not come")
             << " before step " << pairs.size() << " in the simulator\n";
      }
    }
    Pair pair;
    if (in_stream) pair = {true, clock.now(), engine.Newest(step.stream)};
    pairs.push_back(pair);
  }
  const std::string differences = text.str();
  return differences.empty() ? differences : differences + ToText(program);
}

TEST(ValidateOracleEngine, TheSimulatorHasTheOrderOfTheDetector) {
  int differences = 0;
  for (uint64_t seed = 1; seed <= kPrograms; ++seed) {
    Program program = WildProgram(seed);
    program.one_order = true;
    const std::string difference = CompareWithEngine(program);
    if (difference.empty()) continue;
    ADD_FAILURE() << "seed " << seed << "\n" << difference;
    if (++differences == kMostDifferences) return;
  }
}

}  // namespace
}  // namespace devrt::race::oracle
