// SPDX-License-Identifier: Apache-2.0
//
// FaultSweep of devrt/sim/faults.h: what it finds in bodies with mistakes.
#include <signal.h>
#include <stdlib.h>

#include <chrono>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "devrt/sim/explore.h"
#include "tests/sim/sweeps.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

TEST(FaultSweep, ARightBodyPassesEveryClass) {
  InSweep([] {
    const sim::SweepResult result = sim::FaultSweep({}, RightBody);
    EXPECT_TRUE(result.ok()) << result.text();
    EXPECT_GT(result.points, 10u);
    EXPECT_GT(result.reported, 20u);
    EXPECT_EQ(result.missed, 0u) << result.text();
    EXPECT_EQ(result.reported + result.handled, result.faults);
    EXPECT_THAT(result.text(), HasSubstr("passed: "));
  });
}

TEST(FaultSweep, ALeakOfAFailedRunIsFound) {
  InSweep([] {
    sim::SweepOptions options;
    options.classes = {"error"};
    const auto body = []() -> absl::Status {
      DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice("mtia:0"));
      DEVRT_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device));
      DEVRT_ASSIGN_OR_RETURN(void* const memory, Allocate(device, 4));
      // The mistake: this return frees nothing.
      DEVRT_RETURN_IF_ERROR(FillAsync(stream, memory, 3, 4));
      const absl::Status waited = stream.Synchronize();
      DEVRT_RETURN_IF_ERROR(Free(device, memory));
      return waited;
    };
    const sim::SweepResult result = sim::FaultSweep(options, body);
    ASSERT_THAT(result.failures, SizeIs(1)) << result.text();
    const sim::SweepFailure& failure = result.failures[0];
    EXPECT_EQ(failure.what, "leak");
    EXPECT_EQ(failure.call, "fill_async");
    EXPECT_EQ(failure.index, 1u);
    EXPECT_THAT(failure.file, HasSubstr("fault_sweep_test.cc"));
    EXPECT_EQ(failure.rule, "api_error:call=fill_async:nth=1:code=UNAVAILABLE");
    EXPECT_THAT(failure.token, HasSubstr("dvs1:"));
    EXPECT_STATUS(failure.status, kFailedPrecondition, "1 allocation");
    EXPECT_THAT(result.text(),
                AllOf(HasSubstr("leak: class error at fill_async, number 1"),
                      HasSubstr("repeat it: sweep with the rule "
                                "api_error:call=fill_async:nth=1")));
    EXPECT_STATUS(result.status, kFailedPrecondition, "left objects alive");
  });
}

TEST(FaultSweep, AFreeBeforeTheLastUseIsFound) {
  InSweep([] {
    sim::SweepOptions options;
    options.classes = {"error"};
    const auto body = []() -> absl::Status {
      DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice("mtia:0"));
      DEVRT_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device));
      DEVRT_ASSIGN_OR_RETURN(void* const memory, Allocate(device, 4));
      const absl::Status filled = FillAsync(stream, memory, 3, 4);
      const absl::Status waited = stream.Synchronize();
      // The mistake: without a wait the fill may not have run.
      if (!Free(device, memory).ok()) return Free(device, memory);
      return filled.ok() ? waited : filled;
    };
    const sim::SweepResult result = sim::FaultSweep(options, body);
    ASSERT_THAT(result.failures, SizeIs(1)) << result.text();
    EXPECT_EQ(result.failures[0].what, "lost device");
    EXPECT_EQ(result.failures[0].call, "stream_sync");
    EXPECT_STATUS(result.failures[0].status, kInternal, "it is freed block");
    // Its rule makes the one run, which fails alike.
    options.rule = result.failures[0].rule;
    const sim::SweepResult again = sim::FaultSweep(options, body);
    EXPECT_EQ(again.faults, 1u);
    ASSERT_THAT(again.failures, SizeIs(1)) << again.text();
    EXPECT_EQ(again.failures[0].what, "lost device");
    EXPECT_EQ(again.failures[0].call, "stream_sync");
    EXPECT_EQ(again.failures[0].token, result.failures[0].token);
    options.rule = "api_error:call=stream_sync:nth=9:code=UNAVAILABLE";
    EXPECT_STATUS(sim::FaultSweep(options, body).status, kNotFound,
                  "no fault of the body has SweepOptions::rule");
  });
}

TEST(FaultSweep, AnErrorThatIsSwappedIsFound) {
  InSweep([] {
    sim::SweepOptions options;
    options.classes = {"error", "oom"};
    const auto body = [] {
      const absl::Status status = RightBody();
      return status.ok() ? status : absl::UnknownError("it went wrong");
    };
    const sim::SweepResult result = sim::FaultSweep(options, body);
    EXPECT_TRUE(result.status.ok());
    EXPECT_EQ(result.failures.size(), result.faults - result.handled);
    EXPECT_EQ(result.failures.at(0).what, "wrong status");
    EXPECT_STATUS(result.failures.at(0).status, kUnknown, "it went wrong");
  });
}

TEST(FaultSweep, DiscardedWorkMustBeNoticed) {
  InSweep([] {
    sim::SweepOptions options;
    options.classes = {"kernel_fault", "device_lost", "hang"};
    const auto body = []() -> absl::Status {
      DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice("mtia:0"));
      DEVRT_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device));
      DEVRT_RETURN_IF_ERROR(Spin(stream, 1000));
      stream.Synchronize().IgnoreError();  // the mistake
      return absl::OkStatus();
    };
    const sim::SweepResult result = sim::FaultSweep(options, body);
    ASSERT_THAT(result.failures, SizeIs(3)) << result.text();
    for (const sim::SweepFailure& failure : result.failures) {
      EXPECT_EQ(failure.what, "unnoticed");
      EXPECT_EQ(failure.call, "spin");
    }
    EXPECT_THAT(result.text(), HasSubstr("the rule kernel_fault:nth=1\n"));
  });
}

TEST(FaultSweep, StateThatOutlivesAFaultIsFound) {
  InSweep([] {
    sim::SweepOptions options;
    options.classes = {"error"};
    bool is_broken = false;
    const auto body = [&]() -> absl::Status {
      if (is_broken) {
        is_broken = false;
        return absl::InternalError("the cache is broken");
      }
      is_broken = true;
      DEVRT_RETURN_IF_ERROR(RightBody());
      is_broken = false;
      return absl::OkStatus();
    };
    const sim::SweepResult result = sim::FaultSweep(options, body);
    ASSERT_FALSE(result.failures.empty());
    EXPECT_EQ(result.failures[0].what, "next run");
    EXPECT_STATUS(result.failures[0].status, kInternal, "the cache is broken");
  });
}

TEST(FaultSweep, AnExceptionIsAnErrorOfTheBody) {
  InSweep([] {
    sim::SweepOptions options;
    options.classes = {"error", "late"};
    const auto body = [] { Must(RightBody()); };
    const sim::SweepResult result = sim::FaultSweep(options, body);
    EXPECT_TRUE(result.ok()) << result.text();
  });
}

TEST(FaultSweep, ABodyThatHangsEndsWithAReport) {
  const ProcessResult result = RunInChild([] {
    setenv("DEVRT_LOG", "off", 1);
    Must(sim::EnableFaults());
    sim::SweepOptions options;
    options.classes = {"error"};
    options.time_limit = std::chrono::seconds(2);
    sim::FaultSweep(options, [] {
      if (RightBody().ok()) return;
      while (true) pause();  // the mistake
    });
  });
  EXPECT_EQ(result.signal, SIGABRT);
  EXPECT_THAT(result.output,
              HasSubstr("takes longer than its time limit. The run is one "
                        "with the fault api_error:call="));
}

TEST(FaultSweep, AnExitInTheBodyNamesTheRun) {
  const ProcessResult result = RunInChild([] {
    Must(sim::EnableFaults());
    sim::FaultSweep({}, [] { std::exit(0); });
  });
  EXPECT_THAT(result.output,
              HasSubstr("the body called exit() in the run with no fault"));
}

TEST(FaultSweep, WhatHangsBehindARunEndsWithAReport) {
  const ProcessResult result = RunInChild([] {
    setenv("DEVRT_LOG", "off", 1);
    Must(sim::EnableFaults());
    sim::SweepOptions options;
    options.time_limit = std::chrono::milliseconds(300);
    options.around_run = []() -> absl::Status {
      while (true) pause();
    };
    sim::FaultSweep(options, RightBody);
  });
  EXPECT_EQ(result.signal, SIGABRT);
  EXPECT_THAT(result.output, HasSubstr("The run is one before the first"));
}

int g_alarms = 0;

TEST(FaultSweep, AlarmsOfOthersGoToTheirHandler) {
  InSweep([] {
    signal(SIGALRM, [](int) { ++g_alarms; });
    sim::SweepOptions options;
    options.classes = {"oom"};
    const sim::SweepResult result = sim::FaultSweep(options, [] {
      raise(SIGALRM);
      return RightBody();
    });
    EXPECT_TRUE(result.ok()) << result.text();
    EXPECT_EQ(g_alarms, 4) << "two runs first, one with a fault, one behind";
    raise(SIGALRM);
    EXPECT_EQ(g_alarms, 5) << "the handler is back";
  });
  const ProcessResult ended = RunInChild([] {
    setenv("DEVRT_LOG", "off", 1);
    Must(sim::EnableFaults());
    sim::FaultSweep({}, [] { raise(SIGALRM); });
  });
  EXPECT_EQ(ended.signal, SIGALRM) << "no handler: the signal ends a process";
}

// A fault in the order of ends is at another place than one in that of begins.
TEST(FaultSweep, AHangHitsTheOperationThatBeginsThen) {
  InSweep([] {
    sim::SweepOptions options;
    const auto body = []() -> absl::Status {
      DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice("mtia:0"));
      DEVRT_ASSIGN_OR_RETURN(const Stream a, Stream::Create(device));
      DEVRT_ASSIGN_OR_RETURN(const Stream b, Stream::Create(device));
      DEVRT_ASSIGN_OR_RETURN(const Memory memory, Memory::Create(device, 4));
      DEVRT_RETURN_IF_ERROR(Spin(a, 1'000'000));
      DEVRT_RETURN_IF_ERROR(FillAsync(b, memory.ptr(), 3, 4));
      // The mistake: nobody looks at the results.
      b.Synchronize().IgnoreError();
      a.Synchronize().IgnoreError();
      return absl::OkStatus();
    };
    options.classes = {"hang"};
    const sim::SweepResult hangs = sim::FaultSweep(options, body);
    ASSERT_THAT(hangs.failures, SizeIs(2)) << hangs.text();
    EXPECT_EQ(hangs.failures[0].call, "spin");
    EXPECT_EQ(hangs.failures[0].rule, "hang:nth=1:timeout=1ms");
    EXPECT_EQ(hangs.failures[1].call, "fill");
    options.classes = {"kernel_fault"};
    const sim::SweepResult faults = sim::FaultSweep(options, body);
    ASSERT_THAT(faults.failures, SizeIs(2)) << faults.text();
    EXPECT_EQ(faults.failures[0].call, "fill");
    EXPECT_EQ(faults.failures[1].call, "spin");
  });
}

TEST(FaultSweep, CountedFaultsRunUntilNoneComes) {
  InSweep([] {
    const auto body = []() -> absl::Status {
      DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice("mtia:0"));
      DEVRT_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device));
      DEVRT_ASSIGN_OR_RETURN(const Memory a, Memory::Create(device, 4));
      DEVRT_ASSIGN_OR_RETURN(const Memory b, Memory::Create(device, 4));
      DEVRT_RETURN_IF_ERROR(FillAsync(stream, a.ptr(), 3, 4));
      DEVRT_RETURN_IF_ERROR(stream.Synchronize());
      // The thread knows the answer, so that no stale one is possible.
      DEVRT_RETURN_IF_ERROR(stream.Query().status());
      DEVRT_RETURN_IF_ERROR(FillAsync(stream, b.ptr(), 3, 4));
      while (true) {
        DEVRT_ASSIGN_OR_RETURN(const bool is_done, stream.Query());
        if (is_done) return absl::OkStatus();
      }
    };
    sim::SweepOptions options;
    options.classes = {"fragmentation"};
    const sim::SweepResult fragmented = sim::FaultSweep(options, body);
    EXPECT_TRUE(fragmented.ok()) << fragmented.text();
    EXPECT_EQ(fragmented.faults, 2u);
    EXPECT_EQ(fragmented.reported, 2u);
    options.classes = {"stale_query"};
    const sim::SweepResult stale = sim::FaultSweep(options, body);
    EXPECT_TRUE(stale.ok()) << stale.text();
    EXPECT_EQ(stale.faults, 1u);
    EXPECT_EQ(stale.handled, 1u);
    EXPECT_EQ(stale.missed, 0u);
  });
}

TEST(FaultSweep, ALinkHasOneFault) {
  InSweep([] {
    setenv("DEVRT_MTIA", "devices=3", 1);
    const auto body = []() -> absl::Status {
      DEVRT_ASSIGN_OR_RETURN(const Device from, GetDevice("mtia:0"));
      DEVRT_ASSIGN_OR_RETURN(const Device to, GetDevice("mtia:2"));
      DEVRT_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(from));
      DEVRT_ASSIGN_OR_RETURN(const Memory a, Memory::Create(from, 4));
      DEVRT_ASSIGN_OR_RETURN(const Memory b, Memory::Create(to, 4));
      DEVRT_RETURN_IF_ERROR(FillAsync(stream, a.ptr(), 3, 4));
      DEVRT_RETURN_IF_ERROR(CopyAsync(stream, b.ptr(), a.ptr(), 4));
      DEVRT_RETURN_IF_ERROR(CopyAsync(stream, b.ptr(), a.ptr(), 4));
      stream.Synchronize().IgnoreError();  // the mistake
      return absl::OkStatus();
    };
    sim::SweepOptions options;
    options.config = "devices=3";
    options.classes = {"link_down"};
    const sim::SweepResult result = sim::FaultSweep(options, body);
    EXPECT_EQ(result.faults, 1u);
    ASSERT_THAT(result.failures, SizeIs(1)) << result.text();
    EXPECT_EQ(result.failures[0].what, "unnoticed");
    EXPECT_EQ(result.failures[0].call, "link 0-2");
    EXPECT_EQ(result.failures[0].rule, "link_down:link=0-2");
    EXPECT_THAT(result.failures[0].file, HasSubstr("fault_sweep_test.cc"));
  });
}

TEST(FaultSweep, ASweepThatEndsEarlyLeavesNothingArmed) {
  InSweep([] {
    sim::SweepOptions options;
    options.classes = {"kernel_fault", "error"};
    int runs = 0;
    options.around_run = [&runs] {
      // Behind the run with the first fault.
      return ++runs < 4 ? absl::OkStatus() : absl::AbortedError("enough");
    };
    const sim::SweepResult result = sim::FaultSweep(options, RightBody);
    EXPECT_STATUS(result.status, kAborted, "after 0 faults: enough");
    EXPECT_THAT(Must(Must(Simulator::Get()).Config()), Not(HasSubstr("nth=")));
    for (int i = 0; i < 3; ++i) EXPECT_OK(RightBody());
  });
}

TEST(FaultSweep, ASweepInASweepIsRefused) {
  InSweep([] {
    sim::SweepOptions options;
    options.classes = {"oom"};
    EXPECT_STATUS(
        sim::FaultSweep(options,
                        [&] { return sim::FaultSweep({}, RightBody).status; })
            .status,
        kFailedPrecondition, "a fault sweep runs already");
    EXPECT_STATUS(
        sim::FaultSweep(options, [] { return sim::Explore({}, [] {}).status; })
            .status,
        kFailedPrecondition, "a fault sweep runs already");
    EXPECT_STATUS(
        sim::Explore({},
                     [&] { return sim::FaultSweep(options, RightBody).status; })
            .status,
        kFailedPrecondition, "an exploration runs already");
    EXPECT_TRUE(sim::FaultSweep(options, RightBody).ok());
  });
}

TEST(FaultSweep, WhatPreventsASweepIsSaid) {
  InChild([] {
    setenv("DEVRT_LOG", "off", 1);
    Must(GetDevice("mtia:0"));
    EXPECT_STATUS(sim::FaultSweep({}, RightBody).status, kFailedPrecondition,
                  "DEVRT_LAYERS=faults");
  });
  InSweep([] {
    sim::SweepOptions options;
    options.classes = {"oom", "flood"};
    EXPECT_STATUS(sim::FaultSweep(options, RightBody).status, kInvalidArgument,
                  "has no class of faults \"flood\"; the classes are oom, ");
    options.classes = {};
    EXPECT_STATUS(
        sim::FaultSweep(options, [] { return absl::AbortedError("no"); })
            .status,
        kAborted, "the body fails without a fault: no");
    options.config = "devices=x";
    EXPECT_STATUS(sim::FaultSweep(options, RightBody).status, kInvalidArgument,
                  "devices");
    options.config = "seed=1,faults=ecc";
    EXPECT_STATUS(sim::FaultSweep(options, RightBody).status, kInvalidArgument,
                  "has the key \"faults\", which the sweep sets");
    options.config = "mode=threaded";
    EXPECT_STATUS(sim::FaultSweep(options, RightBody).status, kInvalidArgument,
                  "SweepOptions::config has mode=threaded");
    options.config = "";
    options.time_limit = std::chrono::seconds(0);
    EXPECT_STATUS(sim::FaultSweep(options, RightBody).status, kInvalidArgument,
                  "time_limit is 0 ns: above 0");
    options.time_limit = std::chrono::seconds(10);
    options.around_run = [] { return absl::CancelledError("enough"); };
    EXPECT_STATUS(sim::FaultSweep(options, RightBody).status, kCancelled,
                  "enough");
  });
}

TEST(FaultSweep, PointsAreTheCallsOfTheBody) {
  InSweep([] {
    sim::SweepOptions options;
    options.classes = {"slow", "stale_query"};
    const sim::SweepResult result = sim::FaultSweep(options, RightBody);
    EXPECT_TRUE(result.ok()) << result.text();
    EXPECT_GE(result.faults, 2u);  // the fill and the copy
    options.most_points = 1;
    options.classes = {"slow"};
    EXPECT_EQ(sim::FaultSweep(options, RightBody).faults, 1u);
  });
}

}  // namespace
}  // namespace devrt::testing
