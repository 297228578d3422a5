// SPDX-License-Identifier: Apache-2.0
//
// Engines on host memory: what devrt brings, by an engine of one rank.

#include "devrt/collectives/host_engine.h"

#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "collectives/core/comm.h"
#include "devrt/collectives/communicator.h"
#include "tests/collectives/collectives_fixture.h"

namespace devrt::testing {
namespace {

using collectives::Communicator;
using collectives::HostCommunicator;
using collectives::HostEngine;
using collectives::HostPlace;
using collectives::Options;

// What the engine does with the next operations.
struct Behaviour {
  absl::Status start;
  bool ends = true;
  int started = 0;
  std::function<void()> on_start;
  int alive = 0;  // communicators
  bool finishes = true;
};
Behaviour g_behaviour;

class LoopCommunicator final : public HostCommunicator {
 public:
  LoopCommunicator() { ++g_behaviour.alive; }
  LoopCommunicator(const LoopCommunicator&) = delete;
  LoopCommunicator& operator=(const LoopCommunicator&) = delete;
  ~LoopCommunicator() override { --g_behaviour.alive; }

  HostPlace place() const override { return {0, 1}; }
  absl::StatusOr<bool> IsReady() override { return ++asked_ > 2; }
  absl::Status Start(const devrt_collective_v0& op) override {
    ++g_behaviour.started;
    if (g_behaviour.on_start) g_behaviour.on_start();
    if (!g_behaviour.start.ok()) return g_behaviour.start;
    // With one rank the input is the output.
    if (op.src != nullptr && op.dst != nullptr) {
      std::memcpy(op.dst, op.src, op.count * (op.dtype & 0xff) / 8);
    }
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Test() override { return g_behaviour.ends; }
  absl::StatusOr<std::unique_ptr<HostCommunicator>> Split(int color,
                                                          int) override {
    if (color < 0) return nullptr;
    return std::make_unique<LoopCommunicator>();
  }
  absl::StatusOr<bool> Finish() override { return g_behaviour.finishes; }

 private:
  int asked_ = 0;
};

class LoopEngine final : public HostEngine {
 public:
  explicit LoopEngine(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::string version() const override { return "loop 1.2"; }
  bool Supports(uint32_t, uint32_t dtype, uint32_t) const override {
    return dtype != DEVRT_FLOAT16;
  }
  absl::StatusOr<std::unique_ptr<HostCommunicator>> Begin(uint32_t,
                                                          uint32_t) override {
    return std::make_unique<LoopCommunicator>();
  }

 private:
  const std::string name_;
};

class HostEngines : public CommTest {
 protected:
  void SetUp() override {
    CommTest::SetUp();
    g_behaviour = {};
    static const bool is_registered =
        collectives::RegisterEngine(std::make_unique<LoopEngine>("loop")).ok();
    ASSERT_TRUE(is_registered);
  }
  Communicator Make(absl::Duration timeout = absl::Seconds(60)) {
    Options options;
    options.provider = "loop";
    options.timeout = timeout;
    const Device devices[] = {dev(0)};
    auto made = Communicator::CreateAll(devices, options);
    EXPECT_TRUE(made.ok()) << made.status();
    return std::move((*made)[0]);
  }
  Array Of(double value, DType dtype = kFloat32) {
    return Array::Full({5}, dtype, value, dev(0)).value();
  }
};

TEST_F(HostEngines, AnOperationFollowsTheStreamAndIsCompleteOnReturn) {
  Communicator comm = Make();
  EXPECT_EQ(comm.provider().name, "loop");
  EXPECT_EQ(comm.provider().version, "loop 1.2");
  const Stream stream = Stream::Create(dev(0)).value();
  const StreamGuard on(stream);
  const Array x = Of(3);
  const Array y = Of(0);
  ASSERT_TRUE(comm.AllReduce(y, x).ok());
  EXPECT_TRUE(ArrayEqual(x, y).value());
  const auto child = comm.Split(0, 0);
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ((*child)->size(), 1);
  EXPECT_FALSE(comm.Split(-1, 0).value().has_value());
}

TEST_F(HostEngines, WhatTheEngineLacksIsRefusedBeforeItStarts) {
  Communicator comm = Make();
  const Array x = Of(1, kFloat16);
  EXPECT_TRUE(absl::IsUnimplemented(comm.AllReduce(x, x)));
  EXPECT_EQ(g_behaviour.started, 0);
  EXPECT_EQ(comm.state(), collectives::State::kReady);
}

// So that the records of a process that hangs in a call have the call.
TEST_F(HostEngines, ACallIsRecordedBeforeItReturns) {
  Communicator comm = Make();
  const Array x = Of(1);
  size_t recorded = 0;
  uint64_t end_ns = 1;
  g_behaviour.on_start = [&] {
    const auto records = comm.Records();
    recorded = records.size();
    if (recorded != 0) end_ns = records.back().end_ns;
  };
  ASSERT_TRUE(comm.AllReduce(x, x).ok());
  EXPECT_EQ(recorded, 1u);
  EXPECT_EQ(end_ns, 0u);
  EXPECT_NE(comm.comm()->ring->Find(1)->end_ns, 0u);  // without a Wait
}

// The calls before have returned, so that they are complete.
TEST_F(HostEngines, AFailureNamesTheCallThatFailed) {
  Communicator comm = Make(absl::Milliseconds(20));
  const Array x = Of(1);
  const Array y = Of(1);
  ASSERT_OK(comm.AllReduce(x, x));
  collectives::Group group;
  group.Add(comm, collectives::AllReduce(x, x));
  group.Add(comm, collectives::AllReduce(y, y));
  ASSERT_OK(group.Submit());
  g_behaviour.ends = false;
  EXPECT_THAT(comm.AllReduce(x, x),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       ::testing::HasSubstr(" failed at 4 all_reduce(")));
  g_behaviour.ends = true;
  const auto calls = comm.Records();
  ASSERT_EQ(calls.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(calls[i].end_ns != 0, i < 3) << i;
}

TEST_F(HostEngines, AnErrorOfTheEngineFailsTheCommunicator) {
  Communicator comm = Make();
  g_behaviour.start = absl::UnavailableError("the cable is out");
  const Array x = Of(1);
  const absl::Status status = comm.AllReduce(x, x);
  EXPECT_TRUE(absl::StrContains(status.message(), "the cable is out"))
      << status;
  EXPECT_EQ(comm.state(), collectives::State::kFailed);
  EXPECT_TRUE(absl::IsAborted(comm.AllReduce(x, x)));
  EXPECT_EQ(g_behaviour.started, 1);
}

TEST_F(HostEngines, AnOperationThatDoesNotEndEndsAtItsTime) {
  {
    Communicator comm = Make(absl::Milliseconds(20));
    g_behaviour.ends = false;
    const Array x = Of(1);
    const absl::Status status = comm.AllReduce(x, x);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                 ::testing::HasSubstr("within")));
    EXPECT_EQ(comm.state(), collectives::State::kFailed);
    EXPECT_TRUE(absl::IsAborted(comm.AllReduce(x, x)));
  }
  // The engine still works for it: it is freed when that has ended.
  EXPECT_EQ(g_behaviour.alive, 1);
  g_behaviour.ends = true;
  const Communicator next = Make();
  EXPECT_EQ(g_behaviour.alive, 1);
}

// The time of an operation counts from its submission.
TEST_F(HostEngines, EarlierWorkThatDoesNotEndCountsToo) {
  Reset("mode=threaded");
  {
    Communicator comm = Make(absl::Milliseconds(20));
    const Array x = Of(1);
    const Stream stream = Must(Stream::Create(dev(0)));
    std::promise<void> release;
    ASSERT_OK(LaunchHostFunc(stream, [future = release.get_future().share()](
                                         absl::Status) { future.wait(); }));
    EXPECT_THAT(comm.AllReduce(x, x, Reduction::kSum, stream),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         ::testing::HasSubstr("the earlier work")));
    EXPECT_EQ(comm.state(), collectives::State::kFailed);
    EXPECT_EQ(g_behaviour.started, 0);
    release.set_value();
    EXPECT_OK(stream.Synchronize());
  }
  const Communicator next = Make();  // frees the copies' memory
  EXPECT_EQ(g_behaviour.alive, 1);
}

// K-C16
TEST_F(HostEngines, FinishWaitsUntilTheEngineSaysThatAllRanksHaveCome) {
  Communicator comm = Make();
  g_behaviour.finishes = false;
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      comm.Finish(absl::Now() + absl::Milliseconds(5))));
  EXPECT_EQ(comm.state(), collectives::State::kReady);
  g_behaviour.finishes = true;
  EXPECT_OK(comm.Finish());
  EXPECT_EQ(comm.state(), collectives::State::kFinished);
}

TEST_F(HostEngines, NamesAreUsedOnce) {
  EXPECT_TRUE(absl::IsAlreadyExists(
      collectives::RegisterEngine(std::make_unique<LoopEngine>("loop"))));
  EXPECT_TRUE(absl::IsInvalidArgument(
      collectives::RegisterEngine(std::make_unique<LoopEngine>(""))));
  EXPECT_TRUE(absl::IsInvalidArgument(collectives::RegisterEngine(nullptr)));
}

}  // namespace
}  // namespace devrt::testing
