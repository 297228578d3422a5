// SPDX-License-Identifier: Apache-2.0
//
// devrt/sim/witness.h: findings that become wrong values.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "devrt/devrt.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"

namespace devrt::testing {
namespace {

using sim::Witness;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kBytes = 4096;

struct Values {
  uint8_t before = 1;
  uint8_t written = 2;
  bool waits = false;
};

// A reader that may read before the writer has written.  Returns an error if it
// has done so, and `checks`.
absl::Status ReadEarly(const Values& values, bool checks = false) {
  DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice("mtia:0"));
  DEVRT_ASSIGN_OR_RETURN(const Stream writer, Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(const Stream reader, Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(void* const memory, Allocate(device, kBytes));
  DEVRT_ASSIGN_OR_RETURN(void* const result, Allocate(device, kBytes));
  DEVRT_RETURN_IF_ERROR(FillAsync(writer, memory, values.before, kBytes));
  DEVRT_RETURN_IF_ERROR(writer.Synchronize());
  DEVRT_RETURN_IF_ERROR(FillAsync(writer, memory, values.written, kBytes));
  if (values.waits) DEVRT_RETURN_IF_ERROR(reader.Wait(writer));
  DEVRT_RETURN_IF_ERROR(CopyAsync(reader, result, memory, kBytes));
  DEVRT_RETURN_IF_ERROR(device.Synchronize());
  uint8_t got = 0;
  if (checks) DEVRT_RETURN_IF_ERROR(Copy(reader, &got, result, 1));
  DEVRT_RETURN_IF_ERROR(Free(device, memory));
  DEVRT_RETURN_IF_ERROR(Free(device, result));
  if (!checks || got == values.written) return absl::OkStatus();
  return absl::InternalError("the reader got " + std::to_string(got));
}

// The simulator under the layer.
Simulator Validated() {
  setenv("DEVRT_LOG", "off", 1);
  EXPECT_OK(validate::Enable());
  return Must(Simulator::Get());
}

TEST(Witness, ABodyThatNeverEndsIsNamed) {
  const ProcessResult result = RunInChild([] {
    sim::WitnessOptions options;
    options.time_limit = std::chrono::milliseconds(50);
    const auto wait = []() -> absl::Status {
      for (;;) pause();
    };
    Witness::Create(Validated(), wait, options).IgnoreError();
  });
  EXPECT_EQ(result.signal, SIGABRT);
  EXPECT_THAT(
      result.output,
      HasSubstr("a run of the witness takes longer than its time limit. "
                "The run is the one with strategy=asap,outcome=on"));
  InChild([] {
    sim::WitnessOptions options;
    options.time_limit = std::chrono::nanoseconds(-1);
    EXPECT_STATUS(Witness::Create(
                      Validated(), [] { return ReadEarly({}); }, options)
                      .status(),
                  kInvalidArgument, "WitnessOptions::time_limit is -1 ns");
  });
}

TEST(Witness, ARaceBecomesAWrongValueThatATokenRepeats) {
  InChild([] {
    const Simulator sim = Validated();
    const auto body = [] { return ReadEarly({}); };
    const Witness witness = Must(Witness::Create(sim, body));
    ASSERT_THAT(witness.findings(), SizeIs(1));
    const auto result = Must(witness.Try(witness.findings()[0]));
    EXPECT_TRUE(result.confirmed);
    EXPECT_EQ(result.text,
              "wrong value in directed run " + std::to_string(result.runs));
    EXPECT_OK(sim.Replay(result.token));
    EXPECT_THAT(ReadEarly({}, true),
                StatusIs(absl::StatusCode::kInternal, "the reader got 1"));
  });
}

TEST(Witness, ABodyThatFailsIsAWitness) {
  InChild([] {
    const auto body = [] { return ReadEarly({}, true); };
    const Witness witness = Must(Witness::Create(Validated(), body));
    const auto result = Must(witness.Try(witness.findings()[0]));
    EXPECT_TRUE(result.confirmed);
    EXPECT_THAT(result.text, HasSubstr("failure (the reader got 1)"));
  });
}

TEST(Witness, EqualValuesAreNoWitness) {
  InChild([] {
    const auto body = [] { return ReadEarly({1, 1}); };
    const Witness witness =
        Must(Witness::Create(Validated(), body, {"memory=64MiB", 3}));
    const auto result = Must(witness.Try(witness.findings()[0]));
    EXPECT_FALSE(result.confirmed);
    EXPECT_EQ(result.text, "unconfirmed in 3 directed runs");
    EXPECT_THAT(Must(Must(Simulator::Get()).Config()),
                HasSubstr("memory=64MiB"));
  });
}

TEST(Witness, AFindingNamesTheOperationsOfItsFirstTimeInARun) {
  InChild([] {
    const Simulator sim = Validated();
    const auto body = [] {
      DEVRT_RETURN_IF_ERROR(ReadEarly({}));
      return ReadEarly({});
    };
    const Witness witness = Must(Witness::Create(sim, body));
    ASSERT_THAT(witness.findings(), SizeIs(1));
    const validate::Finding& finding = witness.findings()[0];
    const auto named = [](std::string op) {
      op.replace(op.find('.'), 1, ",");
      return HasSubstr("\"op\":[" + op + "]");
    };
    EXPECT_THAT(finding.json, named(finding.hold));
    EXPECT_THAT(finding.json, named(finding.until));
  });
}

TEST(Witness, AMendedBodyHasNoFindings) {
  InChild([] {
    const auto body = [] { return ReadEarly({1, 2, true}); };
    EXPECT_THAT(Must(Witness::Create(Validated(), body)).findings(), IsEmpty());
  });
}

TEST(Witness, WhatTheHostReadsInFlightCounts) {
  InChild([] {
    const auto body = []() -> absl::Status {
      const Device device = Must(GetDevice("mtia:0"));
      const Stream stream = Must(Stream::Create(device));
      void* const memory = Must(Allocate(device, kBytes));
      std::vector<char> host(kBytes);
      Must(FillAsync(stream, memory, 3, kBytes));
      Must(CopyAsync(stream, host.data(), memory, kBytes));
      Must(validate::UseOnHost({Read(host.data(), kBytes)}));
      Must(stream.Synchronize());
      return Free(device, memory);
    };
    const Witness witness =
        Must(Witness::Create(Validated(), body, {"pageable=late"}));
    ASSERT_THAT(witness.findings(), SizeIs(1));
    EXPECT_EQ(witness.findings()[0].kind, "host-access-in-flight");
    EXPECT_TRUE(Must(witness.Try(witness.findings()[0])).confirmed);
  });
}

TEST(Witness, TheSimulatorDoesNotRunNativeWork) {
  InChild([] {
    const auto body = []() -> absl::Status {
      const Device device = Must(GetDevice("mtia:0"));
      const Stream a = Must(Stream::Create(device));
      const Stream b = Must(Stream::Create(device));
      void* const memory = Must(Allocate(device, kBytes));
      Must(validate::AnnotateWork(a, {Write(memory, kBytes)}, "native"));
      Must(FillAsync(b, memory, 1, kBytes));
      Must(device.Synchronize());
      return Free(device, memory);
    };
    const Witness witness = Must(Witness::Create(Validated(), body));
    ASSERT_THAT(witness.findings(), SizeIs(1));
    EXPECT_STATUS(witness.Try(witness.findings()[0]), kInvalidArgument,
                  "does not run its earlier operation");
  });
}

TEST(Witness, ABodyIsRepeatable) {
  InChild([] {
    uint8_t next = 0;
    const auto body = [&] { return ReadEarly({next++, 200}); };
    EXPECT_OK(Witness::Create(Validated(), body));  // overwritten, in order
    const auto other = [&] { return ReadEarly({0, next++, true}); };
    EXPECT_STATUS(Witness::Create(Validated(), other), kFailedPrecondition,
                  "computed different values");
  });
}

TEST(Witness, AThrowingBodyIsAnErrorOfTheRun) {
  InChild([] {
    const auto body = []() -> absl::Status { throw 1; };
    EXPECT_THAT(Must(Witness::Create(Validated(), body)).findings(), IsEmpty());
  });
}

TEST(Witness, ABodyMayEndItsThread) {
  InChild([] {
    const Simulator sim = Validated();
    bool has_returned = false;
    std::thread thread([&] {
      const auto body = []() -> absl::Status { pthread_exit(nullptr); };
      EXPECT_OK(Witness::Create(sim, body));
      has_returned = true;
    });
    thread.join();
    EXPECT_FALSE(has_returned);
  });
}

TEST(Witness, NeedsTheLayerAndRuns) {
  InChild([] {
    const auto body = [] { return absl::OkStatus(); };
    EXPECT_STATUS(Witness::Create(Must(Simulator::Get()), body),
                  kFailedPrecondition, "DEVRT_LAYERS=validate");
  });
  InChild([] {
    const auto body = [] { return absl::OkStatus(); };
    EXPECT_STATUS(Witness::Create(Validated(), body, {"", 0}), kInvalidArgument,
                  "expected at least 1");
    EXPECT_STATUS(Witness::Create(Validated(), body, {"memory=x"}),
                  kInvalidArgument, "memory");
  });
}

}  // namespace
}  // namespace devrt::testing
