// SPDX-License-Identifier: Apache-2.0
//
// The layer `faults` in front of a backend.
#include "devrt/sim/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "devrt/devrt.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"

namespace devrt::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Runs `body` in a process with the rules.
template <typename Body>
void With(const char* rules, Body body) {
  InChild([&] {
    setenv("DEVRT_LAYERS", "faults", 1);
    setenv("DEVRT_FAULTS", rules, 1);
    setenv("DEVRT_LOG", "off", 1);
    body();
  });
}

TEST(Faults, ARuleOfTheEnvironmentHitsItsCall) {
  With("api_error:call=event_create:nth=2:code=ABORTED:native=7", [] {
    const Device device = Must(GetDevice("mtia:0"));
    const Event first = Must(Event::Create(device));
    const Event second = Must(Event::Create(device));
    const Stream stream = Must(Stream::Create(device));
    EXPECT_OK(first.Record(stream));
    const absl::Status failed = second.Record(stream);
    EXPECT_STATUS(failed, kAborted, "event_create: injected fault \"api_error");
    const std::optional<ErrorInfo> info = GetErrorInfo(failed);
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->native_code, 7);
    EXPECT_EQ(info->entry_point, "event_create");
    EXPECT_FALSE(info->sticky);
    // The call had no effect, and the next one succeeds.
    EXPECT_OK(second.Record(stream));
    EXPECT_OK(stream.Synchronize());
  });
}

TEST(Faults, ALateErrorComesBehindTheEffect) {
  With("api_error:call=fill_async:late=yes", [] {
    const Device device = Must(GetDevice("mtia:0"));
    const Stream stream = Must(Stream::Create(device));
    void* const memory = Must(Allocate(device, 4));
    const absl::Status failed = FillAsync(stream, memory, 5, 4);
    EXPECT_STATUS(failed, kInternal, "injected");
    EXPECT_TRUE(GetErrorInfo(failed)->async);
    EXPECT_OK(stream.Synchronize());
    char bytes[4] = {};
    EXPECT_OK(Must(Simulator::Get()).Peek(memory, bytes, 4));
    EXPECT_THAT(bytes, ElementsAre(5, 5, 5, 5));
    EXPECT_OK(Free(device, memory));
  });
}

TEST(Faults, ExtensionsFailToo) {
  With("api_error:call=launch.launch+api_error:call=probe.spin", [] {
    const Device device = Must(GetDevice("mtia:0"));
    const Stream stream = Must(Stream::Create(device));
    bool is_run = false;
    EXPECT_STATUS(
        Launch(stream, {}, [&](const LaunchContext&) { is_run = true; }),
        kInternal, "launch.launch: injected fault");
    EXPECT_STATUS(Spin(stream, 1000), kInternal, "probe.spin: injected");
    EXPECT_OK(stream.Synchronize());
    EXPECT_FALSE(is_run);
  });
}

TEST(Faults, AnAllocatorTriesAgainWithoutItsCache) {
  With("oom", [] {
    const Device device = Must(GetDevice("mtia:0"));
    const Stream stream = Must(Stream::Create(device));
    void* const memory = Must(AllocateMemory(stream, 1000));
    EXPECT_OK(FreeMemory(memory));
  });
  With("oom:times=0", [] {
    const Device device = Must(GetDevice("mtia:0"));
    const Stream stream = Must(Stream::Create(device));
    const absl::Status failed = AllocateMemory(stream, 1000).status();
    EXPECT_STATUS(failed, kResourceExhausted, "out of memory");
    EXPECT_TRUE(GetOutOfMemoryInfo(failed).has_value());
  });
}

// The array is gone, so that its copy must not run any more.
TEST(Faults, ACopyIntoPlainMemoryThatFailsIsOver) {
  With("", [] {
    const Simulator simulator = Must(Simulator::Get());
    EXPECT_OK(simulator.Reset("pageable=late,strategy=alap"));
    const Array x =
        Must(Array::Full({4}, kFloat32, 1.0, Must(GetDevice("mtia:0"))));
    EXPECT_OK(x.Ready());
    for (const char* const rule :
         {"api_error:call=copy_async:late=yes", "api_error:call=stream_sync",
          "api_error:call=event_record:times=0"}) {
      EXPECT_OK(sim::SetFaults(rule));
      const absl::Status status = x.To(Place::Host()).status();
      EXPECT_EQ(Must(simulator.Stats()).pending_ops, 0u) << rule;
      EXPECT_OK(sim::SetFaults(""));
      EXPECT_TRUE(status.ok() || absl::IsInternal(status)) << status;
    }
  });
}

TEST(Faults, AMistakeIsAnErrorOfTheOpening) {
  With("oom:nth=x", [] {
    EXPECT_STATUS(GetDevice("mtia:0"), kInvalidArgument,
                  "DEVRT_FAULTS: fault \"oom:nth=x\": key \"nth\"");
  });
}

TEST(Faults, RulesCanBeSetFromCode) {
  InChild([] {
    setenv("DEVRT_LOG", "off", 1);
    EXPECT_OK(sim::EnableFaults());
    EXPECT_OK(sim::EnableFaults());
    EXPECT_THAT(Layers(), ElementsAre("faults"));
    const Device device = Must(GetDevice("mtia:0"));
    EXPECT_OK(
        sim::SetFaults("{\"faults\": [{\"class\": \"api_error\", "
                       "\"call\": \"mem_info\"}]}"));
    EXPECT_STATUS(sim::SetFaults("oom:nth=0"), kInvalidArgument, "nth");
    EXPECT_STATUS(device.GetMemoryInfo(), kInternal,
                  "mem_info: injected fault");
    EXPECT_OK(device.GetMemoryInfo());
    EXPECT_OK(sim::SetFaults("api_error:call=mem_info"));
    EXPECT_OK(sim::SetFaults(""));
    EXPECT_OK(device.GetMemoryInfo());
  });
  InChild([] {
    Must(GetDevice("mtia:0"));
    EXPECT_STATUS(sim::EnableFaults(), kFailedPrecondition, "");
    EXPECT_STATUS(sim::SetFaults("oom"), kFailedPrecondition,
                  "EnableFaults before the first use");
  });
}

// Makes three events; the number of the one that fails, or 0.
int FailingEvent() {
  const Device device = Must(GetDevice("mtia:0"));
  const Stream stream = Must(Stream::Create(device));
  int failing = 0;
  for (int i = 1; i <= 3; ++i) {
    const Event event = Must(Event::Create(device));
    if (!event.Record(stream).ok()) failing = i;
  }
  EXPECT_OK(stream.Synchronize());
  return failing;
}

constexpr char kSecondEvent[] = "api_error:call=event_record:nth=2";

TEST(Faults, ATokenHasTheRulesAndRefusesOthers) {
  With(kSecondEvent, [] {
    const Simulator simulator = Must(Simulator::Get());
    EXPECT_EQ(FailingEvent(), 2);
    EXPECT_EQ(FailingEvent(), 0);
    // Each run counts from its begin on.
    EXPECT_OK(simulator.Reset());
    EXPECT_EQ(FailingEvent(), 2);
    const std::string token = Must(simulator.Token());
    EXPECT_THAT(token, HasSubstr(std::string(":") + kSecondEvent));
    EXPECT_OK(simulator.Replay(token));
    EXPECT_EQ(FailingEvent(), 2);
    EXPECT_EQ(Must(simulator.Token()), token);
    EXPECT_OK(sim::SetFaults(""));
    EXPECT_STATUS(simulator.Replay(token), kFailedPrecondition,
                  std::string("made with the rules ") + kSecondEvent +
                      " of the layer faults, and the layer is without a rule");
    const std::string plain = Must(simulator.Token());
    EXPECT_OK(sim::SetFaults("oom"));
    EXPECT_STATUS(simulator.Replay(plain), kFailedPrecondition,
                  "without a rule of the layer faults, and the layer is with "
                  "the rules oom: set the rules of the token");
  });
}

TEST(Faults, ATokenOfTheEnvironmentBringsItsRules) {
  const ProcessResult first = RunInChild([] {
    setenv("DEVRT_LAYERS", "faults", 1);
    setenv("DEVRT_FAULTS", kSecondEvent, 1);
    FailingEvent();
    std::puts(Must(Must(Simulator::Get()).Token()).c_str());
  });
  const size_t begin = first.output.find("dvs1:");
  ASSERT_NE(begin, std::string::npos) << first.output;
  const std::string token =
      first.output.substr(begin, first.output.find('\n', begin) - begin);
  With("", [&] {
    setenv("DEVRT_SIM_REPLAY", token.c_str(), 1);
    EXPECT_EQ(FailingEvent(), 2);
  });
  With("oom", [&] {
    setenv("DEVRT_SIM_REPLAY", token.c_str(), 1);
    EXPECT_STATUS(GetDevice("mtia:0"), kFailedPrecondition,
                  "DEVRT_SIM_REPLAY: the token was made with the rules api_");
  });
  // The first run has the rules of the token, the next one those of the
  // program.
  With((std::string("oom:nth=90+") + kSecondEvent).c_str(), [&] {
    setenv("DEVRT_SIM_REPLAY", token.c_str(), 1);
    EXPECT_EQ(FailingEvent(), 2);
    const Simulator simulator = Must(Simulator::Get());
    EXPECT_EQ(Must(simulator.Token()), token);
    EXPECT_OK(simulator.Reset());
    EXPECT_THAT(Must(simulator.Token()), HasSubstr(":oom:nth=90+api_error:"));
  });
  InChild([&] {
    setenv("DEVRT_SIM_REPLAY", token.c_str(), 1);
    EXPECT_STATUS(GetDevice("mtia:0"), kFailedPrecondition,
                  "which is not loaded: set DEVRT_LAYERS=faults");
  });
}

TEST(Faults, EveryCallOfADeviceCanFail) {
  With("api_error:device=1:times=0", [] {
    const Device good = Must(GetDevice("mtia:0"));
    const Device bad = Must(GetDevice("mtia:1"));
    EXPECT_OK(Stream::Create(good));
    EXPECT_STATUS(Stream::Create(bad), kInternal, "injected");
    EXPECT_STATUS(bad.Synchronize(), kInternal, "injected");
  });
  // The handles of default streams are of a device, too.
  With("", [] {
    const Device good = Must(GetDevice("mtia:0"));
    const Device bad = Must(GetDevice("mtia:1"));
    const StreamRef own = Must(PerThreadDefaultStream(bad));
    for (const StreamRef stream : {DefaultStream(bad), own}) {
      EXPECT_OK(stream.Synchronize());
    }
    EXPECT_OK(sim::SetFaults("api_error:device=1:call=stream_sync:times=0"));
    EXPECT_OK(DefaultStream(good).Synchronize());
    for (const StreamRef stream : {DefaultStream(bad), own}) {
      const absl::Status failed = stream.Synchronize();
      EXPECT_STATUS(failed, kInternal, "stream_sync: injected fault");
      EXPECT_EQ(GetErrorInfo(failed)->device, 1);
    }
  });
}

}  // namespace
}  // namespace devrt::testing
