// SPDX-License-Identifier: Apache-2.0
//
// devrt/streams/validate.h: the validate layer as a program uses it.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "devrt/devrt.h"
#include "devrt/streams/validate.h"
#include "tests/layers/validate_findings.h"
#include "tests/layers/validate_streams.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"

namespace devrt::testing {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Validate, WithoutTheLayerEveryFunctionDoesNothing) {
  InChild([] {
    const Device device = Must(GetDevice("mtia:0"));
    const Stream stream = Must(Stream::Create(device));
    EXPECT_FALSE(validate::IsActive());
    const validate::Scope scope;
    int word = 0;
    EXPECT_OK(validate::UseOnHost({Read(&word, sizeof word)}));
    EXPECT_OK(validate::AnnotateWork(stream, {Read(&word, sizeof word)}, "x"));
    EXPECT_OK(validate::AnnotateOrder(stream, DefaultStream(device)));
    EXPECT_THAT(scope.Findings(), IsEmpty());
  });
}

TEST(Validate, EnableComesBeforeTheFirstBackend) {
  InChild([] {
    EXPECT_OK(validate::Enable());
    EXPECT_OK(validate::Enable());
    EXPECT_THAT(Layers(), ElementsAre("validate"));
    EXPECT_FALSE(validate::IsActive());
    Must(GetDevice("mtia:0"));
    EXPECT_TRUE(validate::IsActive());
    EXPECT_OK(validate::Enable());
  });
  InChild([] {
    Must(GetDevice("mtia:0"));
    EXPECT_EQ(validate::Enable().code(), absl::StatusCode::kFailedPrecondition);
  });
}

TEST(Validate, EnableKeepsOtherLayers) {
  InChild([] {
    setenv("DEVRT_LAYERS", "trace", 1);
    EXPECT_OK(validate::Enable());
    EXPECT_THAT(Layers(), ElementsAre("validate", "trace"));
  });
}

TEST(Validate, AScopeHasTheFindingsOfItsTime) {
  InChild([] {
    const TwoStreams s;
    s.Race("before");
    const validate::Scope outer;
    EXPECT_THAT(outer.Findings(), IsEmpty());
    s.Race("during");
    const std::vector<validate::Finding> findings = outer.Findings();
    ASSERT_FALSE(findings.empty());
    EXPECT_THAT(findings[0].id, HasSubstr("race-"));
    EXPECT_EQ(findings[0].kind, "write-after-write");
    EXPECT_THAT(findings[0].text, HasSubstr("validate_streams.h:"));
    EXPECT_THAT(findings[0].json, HasSubstr("\"kind\":\"write-after-write\""));
    const validate::Scope later;
    EXPECT_THAT(later.Findings(), IsEmpty());
  });
}

TEST(Validate, AScopeHasAFindingThatIsMadeAgain) {
  InChild([] {
    const TwoStreams s;
    for (int round = 0; round < 2; ++round) {
      const validate::Scope scope;
      s.Race("again");
      EXPECT_FALSE(scope.Findings().empty()) << "round " << round;
    }
  });
}

TEST(Validate, TheHostReadsMemoryInFlight) {
  InChild([] {
    const TwoStreams s;
    void* const host = Must(AllocateHost(s.device, kBytes));
    EXPECT_OK(CopyAsync(s.a, host, s.block, kBytes));
    const validate::Scope scope;
    EXPECT_OK(validate::UseOnHost({Read(host, kBytes)}));
    EXPECT_THAT(scope.Findings(), ElementsAre(Field(&validate::Finding::kind,
                                                    "host-access-in-flight")));
    EXPECT_OK(s.a.Synchronize());
    const validate::Scope after;
    EXPECT_OK(validate::UseOnHost({Read(host, kBytes)}));
    EXPECT_THAT(after.Findings(), IsEmpty());
    EXPECT_OK(FreeHost(host));
  });
}

TEST(Validate, APointerReadsPinnedMemoryThatACopyWrites) {
  InChild([] {
    const TwoStreams s;
    auto* const host =
        static_cast<volatile char*>(Must(AllocateHost(s.device, kBytes)));
    EXPECT_OK(CopyAsync(s.a, const_cast<char*>(host), s.block, kBytes));
    const validate::Scope early;
    const int line = __LINE__ + 1;
    (void)host[100];
    EXPECT_THAT(KindsOf(early), ElementsAre("host-access-in-flight"));
    EXPECT_THAT(early.Findings()[0].text, HasSubstr("\"host read\""));
    // The module's offset where libdw is missing.
    EXPECT_THAT(early.Findings()[0].text,
                AnyOf(HasSubstr("validate_api_test.cc:" + std::to_string(line)),
                      HasSubstr("layers_validate_api+0x")));
    EXPECT_OK(s.a.Synchronize());
    const validate::Scope late;
    (void)host[100];
    host[100] = 1;
    EXPECT_THAT(KindsOf(late), IsEmpty());
    EXPECT_OK(FreeHost(const_cast<char*>(host)));
  });
}

TEST(Validate, APointerMayReadPinnedMemoryThatACopyReads) {
  InChild([] {
    const TwoStreams s;
    auto* const host =
        static_cast<volatile char*>(Must(AllocateHost(s.device, kBytes)));
    host[0] = 1;
    EXPECT_OK(CopyAsync(s.a, s.block, const_cast<char*>(host), kBytes));
    const validate::Scope reads;
    (void)host[0];
    EXPECT_THAT(KindsOf(reads), IsEmpty());
    const validate::Scope writes;
    host[0] = 2;
    EXPECT_THAT(KindsOf(writes), ElementsAre("host-access-in-flight"));
    EXPECT_EQ(host[0], 2);
    EXPECT_OK(s.a.Synchronize());
    EXPECT_OK(FreeHost(const_cast<char*>(host)));
  });
}

TEST(Validate, APageIsWatchedIfAllItsBytesAreInFlight) {
  InChild([] {
    const TwoStreams s;
    void* const block = Must(Allocate(s.device, 2 * kBytes));
    auto* const host =
        static_cast<volatile char*>(Must(AllocateHost(s.device, 2 * kBytes)));
    EXPECT_OK(CopyAsync(s.a, const_cast<char*>(host), block, 3 * kBytes / 2));
    const validate::Scope scope;
    host[2 * kBytes - 1] = 3;
    EXPECT_THAT(KindsOf(scope), IsEmpty());
    (void)host[0];
    EXPECT_THAT(KindsOf(scope), ElementsAre("host-access-in-flight"));
    EXPECT_OK(s.a.Synchronize());
    EXPECT_OK(FreeHost(const_cast<char*>(host)));
  });
}

TEST(Validate, ASystemCallMayUseTheRestOfABufferInFlight) {
  InChild([] {
    const TwoStreams s;
    auto* const host = static_cast<char*>(Must(AllocateHost(s.device, kBytes)));
    EXPECT_OK(CopyAsync(s.a, host, s.block, kBytes / 2));
    const int file = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(read(file, host + kBytes / 2, 16), 16);
    close(file);
    EXPECT_OK(s.a.Synchronize());
    EXPECT_OK(FreeHost(host));
  });
}

TEST(Validate, ABufferThatAHostFunctionHandsOverIsOpen) {
  InChild([] {
    const TwoStreams s;
    auto* const host = static_cast<char*>(Must(AllocateHost(s.device, kBytes)));
    std::promise<void> arrived;
    EXPECT_OK(CopyAsync(s.a, host, s.block, kBytes));
    EXPECT_OK(
        LaunchHostFunc(s.a, [&](const absl::Status&) { arrived.set_value(); }));
    EXPECT_OK(s.a.Query());  // lets the simulator run
    EXPECT_OK(s.a.Synchronize());
    arrived.get_future().wait();
    const int file = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    EXPECT_EQ(read(file, host, 16), 16);
    close(file);
    EXPECT_OK(FreeHost(host));
  });
}

TEST(Validate, AHostFunctionOfABlockingStreamComesAfterTheLegacyStream) {
  InChild([] {
    const TwoStreams s;
    StreamOptions options;
    options.blocking = true;
    const Stream blocking = Must(Stream::Create(s.device, options));
    const validate::Scope scope;
    Use(DefaultStream(s.device), Write(s.block, kBytes), "write");
    std::promise<void> ran;
    EXPECT_OK(LaunchHostFunc(blocking,
                             [&](const absl::Status&) { ran.set_value(); }));
    std::future<void> future = ran.get_future();
    while (future.wait_for(std::chrono::seconds(0)) !=
           std::future_status::ready) {
      EXPECT_OK(Must(Simulator::Get()).Yield());
    }
    Use(s.a, Read(s.block, kBytes), "read");
    EXPECT_THAT(KindsOf(scope), IsEmpty());
  });
}

TEST(Validate, RefusedNativeWorkIsNotRemembered) {
  InChild([] {
    setenv("DEVRT_RACE", "throw", 1);
    const TwoStreams s;
    Use(s.a, Write(s.block, kBytes), "write");
    EXPECT_FALSE(
        validate::AnnotateWork(s.b, {Write(s.block, kBytes)}, "native").ok());
    Use(s.a, Write(s.block, kBytes), "write again");
  });
}

TEST(Validate, ThreadsThatEndLeaveNoStreamBehind) {
  InChild([] {
    const TwoStreams s;
    for (int i = 0; i < 200; ++i) {
      std::thread([&] {
        Use(Must(PerThreadDefaultStream(s.device)), Reduction(s.block, kBytes),
            "sum");
      }).join();
    }
    EXPECT_OK(s.device.Synchronize());
    const validate::Scope scope;
    s.Race("afterwards");
    EXPECT_FALSE(KindsOf(scope).empty());
  });
}

// Asks for a stream of the thread when the thread ends.
struct AsksAtTheEnd {
  ~AsksAtTheEnd() {
    const StreamRef stream = Must(PerThreadDefaultStream(device));
    EXPECT_OK(stream.Synchronize());
  }
  Device device;
};

TEST(Validate, AThreadMayAskForItsStreamWhileItEnds) {
  InChild([] {
    EXPECT_OK(EnableQuietly());
    const Device first = Must(GetDevice("mtia:0"));
    const Device second = Must(GetDevice("mtia:1"));
    for (int i = 0; i < 3; ++i) {
      std::thread([&] {
        // It ends after the layer's own objects, which the next call makes.
        static thread_local AsksAtTheEnd asks{second};
        EXPECT_EQ(asks.device, second);
        Must(PerThreadDefaultStream(first));
      }).join();
    }
  });
}

TEST(Validate, ThreadsMayRecordAndWaitAtOneTime) {
  InChild([] {
    setenv("DEVRT_MTIA", "mode=threaded", 1);
    const TwoStreams s;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        const Event event = Must(Event::Create(s.device));
        for (int round = 0; round < 200; ++round) {
          EXPECT_OK(event.Record(s.a));
          EXPECT_OK(s.b.Wait(event));
          EXPECT_OK(event.Query());
          EXPECT_OK(s.b.Synchronize());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(Validate, AHostFunctionUsesPinnedMemoryInItsStreamsOrder) {
  InChild([] {
    const TwoStreams s;
    auto* const host =
        static_cast<volatile char*>(Must(AllocateHost(s.device, kBytes)));
    const validate::Scope scope;
    EXPECT_OK(CopyAsync(s.a, const_cast<char*>(host), s.block, kBytes));
    EXPECT_OK(LaunchHostFunc(s.a, [=](const absl::Status&) { host[0] = 4; }));
    EXPECT_OK(CopyAsync(s.a, s.block, const_cast<char*>(host), kBytes));
    EXPECT_OK(s.a.Synchronize());
    EXPECT_EQ(host[0], 4);
    EXPECT_THAT(KindsOf(scope), IsEmpty());
    EXPECT_OK(FreeHost(const_cast<char*>(host)));
  });
}

TEST(Validate, DeclaredWorkIsChecked) {
  InChild([] {
    const TwoStreams s;
    const validate::Scope scope;
    EXPECT_OK(validate::AnnotateWork(s.a, {Write(s.block, kBytes)}, "native"));
    Use(s.b, Read(s.block, kBytes), "read");
    ASSERT_EQ(scope.Findings().size(), 1U);
    EXPECT_THAT(scope.Findings()[0].text, HasSubstr("\"native\""));
  });
}

TEST(Validate, DeclaredOrderIsKnown) {
  InChild([] {
    const TwoStreams s;
    const validate::Scope scope;
    Use(s.a, Write(s.block, kBytes), "write");
    EXPECT_OK(validate::AnnotateOrder(s.a, s.b));
    Use(s.b, Read(s.block, kBytes), "read");
    EXPECT_THAT(scope.Findings(), IsEmpty());
  });
}

TEST(Validate, ReductionsOfOneOperatorNeedNoOrder) {
  InChild([] {
    const TwoStreams s;
    const validate::Scope scope;
    Use(s.a, Reduction(s.block, kBytes, 1), "sum");
    Use(s.b, Reduction(s.block, kBytes, 1), "sum");
    EXPECT_THAT(KindsOf(scope), IsEmpty());
    Use(s.b, Reduction(s.block, kBytes, 2), "maximum");
    EXPECT_THAT(KindsOf(scope), Not(IsEmpty()));
  });
}

TEST(Validate, ThrowRefusesTheLaterOperation) {
  InChild([] {
    setenv("DEVRT_RACE", "throw", 1);
    const TwoStreams s;
    Use(s.a, Write(s.block, kBytes), "write");
    bool ran = false;
    const absl::Status status =
        Launch(s.b, {Read(s.block, kBytes)},
               [&](const LaunchContext&) { ran = true; });
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("read-after-write"));
    EXPECT_OK(s.device.Synchronize());
    EXPECT_FALSE(ran);
  });
}

TEST(Validate, WorkThatTheBackendRefusesIsNotRemembered) {
  InChild([] {
    const TwoStreams s;
    SimulatedFault fault;
    fault.kind = SimulatedFault::Kind::kApi;
    fault.where = "fill_async";
    fault.native_code = 2;
    EXPECT_OK(Must(Simulator::Get()).InjectFault(fault));
    const validate::Scope scope;
    EXPECT_FALSE(FillAsync(s.a, s.block, 0, kBytes).ok());
    Use(s.b, Write(s.block, kBytes), "write");
    EXPECT_THAT(scope.Findings(), IsEmpty());
  });
}

// The error of Enable with a setting of the environment.
std::string EnableError(const char* name, const char* value) {
  setenv(name, value, 1);
  return std::string(validate::Enable().message());
}

TEST(Validate, AMistakeInASettingIsAnError) {
  InChild([] {
    EXPECT_THAT(EnableError("DEVRT_RACE", "loud"),
                HasSubstr("DEVRT_RACE=loud; expected report, throw, witness "
                          "or off"));
  });
  InChild([] {
    EXPECT_THAT(EnableError("DEVRT_RACE_FILE", "/no/such/folder/file"),
                HasSubstr("/no/such/folder/file"));
  });
  InChild([] {
    EXPECT_THAT(EnableError("DEVRT_RACE_FILE", "/dev/full"),
                HasSubstr("/dev/full: No space left on device"));
  });
  InChild([] {
    EXPECT_THAT(EnableError("DEVRT_RACE_SUPPRESSIONS", "/"),
                HasSubstr("cannot read the suppressions /"));
  });
  InChild([] {
    EXPECT_THAT(EnableError("DEVRT_RACE_HOST_ORDER", "none"),
                HasSubstr("DEVRT_RACE_HOST_ORDER=none; expected observed or "
                          "exact"));
  });
  InChild([] {
    EXPECT_THAT(EnableError("DEVRT_RACE_STACKS", "yes"),
                HasSubstr("DEVRT_RACE_STACKS=yes; expected off or on"));
  });
  InChild([] {
    EXPECT_THAT(EnableError("DEVRT_RACE_FLIE", "findings"),
                HasSubstr("DEVRT_RACE_FLIE is no setting; expected DEVRT_RACE, "
                          "or DEVRT_RACE_ with FILE"));
  });
  InChild([] {
    EXPECT_THAT(EnableError("DEVRT_LAYERS", "no_such_layer"),
                HasSubstr("no_such_layer"));
  });
}

TEST(Validate, AnEmptySettingIsNotSet) {
  for (const char* name :
       {"DEVRT_RACE", "DEVRT_RACE_FILE", "DEVRT_RACE_FOREIGN",
        "DEVRT_RACE_HOST_ORDER", "DEVRT_RACE_LEAKS", "DEVRT_RACE_STACKS",
        "DEVRT_RACE_SUPPRESSIONS"}) {
    InChild([name] { EXPECT_EQ(EnableError(name, ""), "") << name; });
  }
}

TEST(Validate, AProgramMayCloseFilesThatItDoesNotKnow) {
  const FindingsFile file;
  const std::string other = ::testing::TempDir() + "other.txt";
  const ProcessResult done = file.RunInChild([&] {
    const TwoStreams s;
    s.Race("before");
    for (int fd = 3; fd < 256; ++fd) close(fd);
    // They get the numbers that the layer's file may have had.
    for (int fd = 3; fd < 256; ++fd) {
      EXPECT_EQ(open(other.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), fd);
    }
    s.Race("after");
    EXPECT_EQ(std::filesystem::file_size(other), 0);
  });
  std::filesystem::remove(other);
  EXPECT_EQ(done.exit_code, 0) << done;
  std::set<std::string> names;
  for (const nlohmann::json& finding : file.Findings()) {
    names.insert(finding.at("later").at("name"));
  }
  EXPECT_THAT(names, ElementsAre("after", "before"));
}

TEST(Validate, AGoogleTestListenerFailsTestsWithFindings) {
  const ProcessResult done =
      RunProgram({std::getenv("DEVRT_TEST_GTEST_PROGRAM")});
  EXPECT_EQ(done.exit_code, 1) << done;
  EXPECT_THAT(done.output,
              HasSubstr("[       OK ] Listener.OrderedWorkPasses"));
  EXPECT_THAT(done.output,
              HasSubstr("[  FAILED  ] Listener.UnorderedWorkFails"));
  EXPECT_THAT(done.output, HasSubstr("[write-after-write]"));
}

}  // namespace
}  // namespace devrt::testing
