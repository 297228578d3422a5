// SPDX-License-Identifier: Apache-2.0
//
// The C++ face of devrt.sim/1; what the simulator does is tested in
// tests/mtia.

#include "devrt/runtime/simulator.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "devrt/devrt.h"
#include "runtime/registry/records.h"
#include "tests/support/status_matchers.h"

namespace devrt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kFailedPrecondition;
using testing::Must;
using ::testing::StartsWith;
using testing::StatusIs;

constexpr char kMachine[] = "devices=2,memory=256MiB";

class SimulatorTest : public ::testing::Test {
 protected:
  SimulatorTest() {
    setenv("DEVRT_MTIA", kMachine, 1);
    EXPECT_OK(sim().Reset(kMachine));
  }
  static Simulator sim() { return Must(Simulator::Get()); }
  static Device dev(int index = 0) { return Must(GetDevice("mtia", index)); }
};

TEST_F(SimulatorTest, PeekAndPokeNeedHostMemory) {
  const Stream stream = Must(Stream::Create(dev()));
  void* block = Must(AllocateMemory(stream, 64));
  EXPECT_STATUS(sim().Peek(block, nullptr, 64), kInvalidArgument,
                "peek on mtia:0 failed: the host pointer is null");
  EXPECT_STATUS(sim().Poke(block, nullptr, 64), kInvalidArgument,
                "poke on mtia:0 failed: the host pointer is null");
  EXPECT_OK(FreeMemory(block));
  EXPECT_OK(EmptyCache(dev()));
}

TEST_F(SimulatorTest, AFaultOfNoKindIsRefusedWithTheChoices) {
  SimulatedFault fault;
  fault.kind = static_cast<SimulatedFault::Kind>(9);
  EXPECT_STATUS(sim().InjectFault(fault), kInvalidArgument,
                "fault kind 9 does not exist: it is 0 (a call), 1 (an "
                "operation) or 2 (a lost device)");
}

TEST_F(SimulatorTest, ResetTakesAConfiguration) {
  EXPECT_OK(sim().Reset("devices=2,memory=64MiB,seed=7"));
  EXPECT_THAT(Must(sim().Config()),
              AllOf(HasSubstr("devices=2"), HasSubstr("seed=7")));
  EXPECT_EQ(Must(dev().GetMemoryInfo()).total_bytes, uint64_t{64} << 20);
  EXPECT_THAT(
      sim().Reset("devices=2,colour=red"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("colour")));
}

TEST_F(SimulatorTest, OperationsHaveNames) {
  EXPECT_OK(sim().EnableTimeline(true));
  const Stream stream = Must(Stream::Create(dev()));
  EXPECT_EQ(Must(sim().NextOp()).index, 0u);
  void* block = Must(Allocate(dev(), 64));
  EXPECT_OK(FillAsync(stream, block, 1, 64));
  EXPECT_OK(Must(Event::Create(dev())).Record(stream));
  EXPECT_EQ(Must(sim().NextOp()).index, 1u);
  EXPECT_OK(stream.Synchronize());
  const std::vector<SimulatedOp> ops = Must(sim().Timeline());
  ASSERT_EQ(ops.size(), 2u);
  EXPECT_EQ(ops[0].index, 0u);
  EXPECT_EQ(ops[1].index, std::nullopt);  // a record
  EXPECT_OK(Free(dev(), block));
}

TEST_F(SimulatorTest, TheOutcomeIsThatOfTheContents) {
  EXPECT_STATUS(sim().Outcome().status(), kFailedPrecondition, "outcome=on");
  const auto outcome = [&](const char* strategy, uint8_t value) {
    EXPECT_OK(sim().Reset("outcome=on,strategy=" + std::string(strategy)));
    const Stream stream = Must(Stream::Create(dev()));
    void* block = Must(Allocate(dev(), 64));
    EXPECT_OK(FillAsync(stream, block, value, 64));
    EXPECT_OK(stream.Synchronize());
    EXPECT_OK(Free(dev(), block));
    return Must(sim().Outcome());
  };
  EXPECT_EQ(outcome("alap", 1), outcome("asap", 1));
  EXPECT_NE(outcome("alap", 1), outcome("alap", 2));
}

TEST_F(SimulatorTest, TheEndOfAStreamThatIsCompleteLeavesNoTrace) {
  const auto pending = [&] { return Must(sim().Stats()).pending_ops; };
  const Device device = dev();
  std::optional<Stream> stream = Must(Stream::Create(device));
  void* block = Must(AllocateMemory(*stream, 64));
  EXPECT_OK(FillAsync(*stream, block, 1, 64));
  EXPECT_OK(FreeMemory(block));
  EXPECT_OK(device.Synchronize());
  const Simulator::Trace before = Must(sim().TraceHash());
  stream.reset();
  EXPECT_EQ(pending(), 0u);
  EXPECT_EQ(Must(sim().TraceHash()).hash, before.hash);
  EXPECT_OK(EmptyCache(device));
}

TEST_F(SimulatorTest, PropertiesAreReadAgainAfterReset) {
  EXPECT_EQ(Must(dev().Properties()).total_memory, uint64_t{256} << 20);
  EXPECT_OK(sim().Reset("devices=2,memory=64MiB"));
  EXPECT_EQ(Must(dev().Properties()).total_memory, uint64_t{64} << 20);
  EXPECT_TRUE(Must(dev().Properties()).device_reset);
}

TEST_F(SimulatorTest, ResetIsRefusedWhileSomethingIsAlive) {
  void* block = Must(Allocate(dev(1), 64));
  void* pinned = Must(AllocateHost(dev(1), 64));
  EXPECT_THAT(sim().Reset(kMachine),
              StatusIs(kFailedPrecondition,
                       "simulator reset is refused while objects are alive: "
                       "mtia:1 has 2 allocations; destroy them first"));
  EXPECT_EQ(Must(sim().Stats()).live_blocks, 1u);
  EXPECT_EQ(Must(sim().Stats()).live_pinned, 1u);
  EXPECT_OK(Free(dev(1), block));
  EXPECT_OK(FreeHost(pinned));
  EXPECT_OK(sim().Reset(kMachine));
}

TEST_F(SimulatorTest, ResetMakesLostDevicesWhole) {
  const uint64_t life = dev().record()->life;
  {
    SetLogLevel(LogLevel::kOff);
    Stream stream = Must(Stream::Create(dev()));
    EXPECT_OK(CommitFault(stream, FaultForm::kNullWrite));
    EXPECT_THAT(stream.Synchronize(),
                StatusIs(absl::StatusCode::kInternal,
                         HasSubstr("earlier work on mtia:0 failed")));
    EXPECT_THAT(dev().Health(),
                StatusIs(absl::StatusCode::kInternal,
                         StartsWith("device mtia:0 is quarantined: ")));
    SetLogLevel(LogLevel::kWarning);
  }
  EXPECT_OK(dev(1).Synchronize());
  EXPECT_OK(sim().Reset(kMachine));
  EXPECT_OK(dev().Health());
  EXPECT_GT(dev().record()->life, life);
  Stream stream = Must(Stream::Create(dev()));
  EXPECT_OK(stream.Synchronize());
}

TEST_F(SimulatorTest, ResetForgetsPeerAccess) {
  EXPECT_OK(EnablePeerAccess(dev(0), dev(1)));
  EXPECT_OK(sim().Reset(kMachine));
  EXPECT_THAT(DisablePeerAccess(dev(0), dev(1)),
              StatusIs(kFailedPrecondition, HasSubstr("is not enabled")));
  EXPECT_OK(EnablePeerAccess(dev(0), dev(1)));
}

TEST_F(SimulatorTest, TimelineHasKernelsWithTimesAndPlaces) {
  EXPECT_OK(sim().EnableTimeline(true));
  {
    Stream stream = Must(Stream::Create(dev(1)));
    EXPECT_OK(Spin(stream, 5000));
    EXPECT_OK(stream.Synchronize());
  }
  const std::vector<SimulatedOp> ops = Must(sim().Timeline());
  ASSERT_FALSE(ops.empty());
  const SimulatedOp& op = ops.back();
  EXPECT_EQ(op.device, 1u);
  EXPECT_EQ(op.kind, SimulatedOp::Kind::kKernel);
  EXPECT_EQ(op.engine, SimulatedOp::Engine::kCompute);
  EXPECT_EQ(op.state, SimulatedOp::State::kDone);
  EXPECT_GE(op.end_ns, op.begin_ns + 5000);
  EXPECT_THAT(op.file, HasSubstr("simulator_test.cc"));
  EXPECT_GT(op.line, 0);
  EXPECT_GE(Must(sim().Now()), op.end_ns);
}

TEST_F(SimulatorTest, TokensReplay) {
  const auto body = [] {
    Stream a = Must(Stream::Create(dev(0))), b = Must(Stream::Create(dev(0)));
    for (int i = 0; i < 4; ++i) {
      EXPECT_OK(Spin(a, 100));
      EXPECT_OK(Spin(b, 100));
    }
    EXPECT_OK(dev().Synchronize());
  };
  EXPECT_OK(sim().Reset(std::string(kMachine) + ",strategy=random,seed=9"));
  body();
  const std::string token = Must(sim().Token());
  const Simulator::Trace trace = Must(sim().TraceHash());
  EXPECT_THAT(token, StartsWith("dvs1:"));
  EXPECT_GT(trace.steps, 0u);
  EXPECT_OK(sim().Replay(token));
  body();
  EXPECT_EQ(Must(sim().TraceHash()).hash, trace.hash);
  EXPECT_FALSE(sim().Replay("nonsense").ok());
  EXPECT_OK(sim().Yield());
  EXPECT_EQ(Must(sim().DeadlockReport()), "");
}

TEST_F(SimulatorTest, PeekAndPoke) {
  void* block = Must(Allocate(dev(), 8));
  const uint64_t in = 0x1122334455667788;
  uint64_t out = 0;
  EXPECT_OK(sim().Poke(block, &in, sizeof in));
  EXPECT_OK(sim().Peek(block, &out, sizeof out));
  EXPECT_EQ(out, in);
  EXPECT_OK(Free(dev(), block));
}

TEST_F(SimulatorTest, InjectedFaults) {
  SimulatedFault fault;
  fault.kind = SimulatedFault::Kind::kApi;
  fault.native_code = 2;
  fault.where = "alloc";
  fault.nth = 2;
  EXPECT_OK(sim().InjectFault(fault));
  void* block = Must(Allocate(dev(), 64));
  EXPECT_THAT(Allocate(dev(), 64),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       StartsWith("MTIA out of memory. Tried to allocate 64 "
                                  "bytes. GPU 0 has a total capacity of "
                                  "256.00 MiB of which ")));
  EXPECT_OK(Free(dev(), block));
}

TEST_F(SimulatorTest, OutOfMemoryText) {
  EXPECT_THAT(Allocate(dev(), uint64_t{1} << 30),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(StartsWith("MTIA out of memory. Tried to "
                                        "allocate 1.00 GiB. GPU 0 has a total "
                                        "capacity of 256.00 MiB of which "),
                             HasSubstr(" is free."))));
  EXPECT_THAT(Allocate(dev(), uint64_t{1} << 60),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "MTIA out of memory. Tried to allocate more than 1EB "
                       "memory."));
}

TEST_F(SimulatorTest, OutOfPinnedMemoryText) {
  EXPECT_OK(sim().Reset(std::string(kMachine) + ",pinned=16MiB"));
  EXPECT_THAT(
      AllocateHost(dev(), uint64_t{1} << 30),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(StartsWith("MTIA out of memory. Tried to allocate 1.00 "
                                "GiB. pinned allocation on mtia:0 failed: "),
                     HasSubstr("total 16777216"))));
}

// C42
TEST_F(SimulatorTest, RefusedInHostFunctions) {
  internal::HostFunctionScope inside;
  EXPECT_THAT(sim().Reset(),
              StatusIs(kFailedPrecondition, HasSubstr("host function")));
  EXPECT_THAT(sim().Yield(),
              StatusIs(kFailedPrecondition, HasSubstr("host function")));
  EXPECT_OK(sim().Now());
  EXPECT_OK(sim().Stats());
}

TEST_F(SimulatorTest, OtherBackendsAreNone) {
  EXPECT_THAT(Simulator::Get("acme"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("acme")));
}

}  // namespace
}  // namespace devrt
