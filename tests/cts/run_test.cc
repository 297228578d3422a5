// SPDX-License-Identifier: Apache-2.0
//
// devrt::cts::Run as a vendor's test program calls it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "devrt/cts/cts.h"
#include "devrt/devrt.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"

namespace devrt {
namespace {

using cts::Options;
using cts::Report;
using cts::TestInfo;
using cts::TestResult;
using cts::Waiver;
using ::testing::HasSubstr;
using testing::InChild;
using testing::kInvalid;
using testing::Must;
using testing::StatusIs;

std::string Mtia() { return std::getenv("DEVRT_TEST_MTIA_PLUGIN"); }
std::string Bad(const std::string& name) {
  return std::string(std::getenv("DEVRT_TEST_CTS_PLUGIN_DIR")) + "/libdevrt_" +
         name + ".so";
}

// Few tests of which some make an event.
Options Few(const std::string& plugin) {
  Options options;
  options.plugin = plugin;
  options.groups = {"event", "load"};
  options.items = {"C24", "load.opens", "load.process_ends_well"};
  options.timeout_s = 20;
  return options;
}

class Watcher : public cts::Observer {
 public:
  void Begin(const TestInfo& test) override {
    EXPECT_EQ(running, "");
    running = test.name;
    pid = getpid();
  }
  void End(const TestResult& result) override {
    EXPECT_EQ(running, result.test.name);
    running.clear();
    seen.push_back(result);
  }
  bool Interrupted() override { return interrupted && !running.empty(); }

  std::string running;
  std::vector<TestResult> seen;
  pid_t pid = 0;
  bool interrupted = false;
};

TEST(Run, ObserverGetsEveryReportedResult) {
  InChild([] {
    Watcher watcher;
    const Report report = Must(cts::Run(Few(Mtia()), &watcher));
    EXPECT_EQ(report.ExitCode(), 0);
    EXPECT_EQ(watcher.pid, getpid());
    EXPECT_EQ(watcher.seen.size(), report.results.size());
    for (const TestResult& result : watcher.seen) {
      EXPECT_EQ(result.outcome, TestResult::Outcome::kPassed)
          << result.test.name;
    }
    EXPECT_EQ(report.backend, "mtia");
    EXPECT_EQ(report.devices.size(), 2u);
  });
}

// The observer also gets, in full, a result that only the supervisor sees.
TEST(Run, TellsTheObserverOfAPluginThatDoesNotOpen) {
  InChild([] {
    Watcher watcher;
    Options options = Few(Bad("crashes_in_open"));
    options.items = {"C24"};
    const Report report = Must(cts::Run(options, &watcher));
    EXPECT_EQ(report.ExitCode(), 1);
    ASSERT_EQ(watcher.seen.size(), 1u);
    const TestResult& opens = watcher.seen[0];
    EXPECT_EQ(opens.test.name, "load.opens");
    EXPECT_EQ(opens.how, TestResult::How::kCrash);
    EXPECT_THAT(opens.log, HasSubstr("about to crash"));
  });
}

TEST(Run, TellsTheObserverOfABadEnd) {
  InChild([] {
    Watcher watcher;
    const Report report = Must(cts::Run(Few(Bad("crashes_at_exit")), &watcher));
    EXPECT_EQ(report.ExitCode(), 1);
    ASSERT_FALSE(watcher.seen.empty());
    const TestResult& ends = watcher.seen.back();
    EXPECT_EQ(ends.test.name, "load.process_ends_well");
    EXPECT_EQ(ends.outcome, TestResult::Outcome::kFailed);
    EXPECT_THAT(ends.log, HasSubstr("about to crash"));
  });
}

TEST(Run, RunsRepeatedlyInAProcess) {
  InChild([] {
    EXPECT_EQ(Must(cts::Run(Few(Bad("null_handles")), nullptr)).ExitCode(), 1);
    EXPECT_EQ(Must(cts::Run(Few(Mtia()), nullptr)).ExitCode(), 0);
    // And devrt itself is as it was before.
    EXPECT_EQ(Must(GetBackend("mtia")).device_count(), 2);
  });
}

TEST(Run, IsRefusedBesideOtherThreads) {
  InChild([] {
    std::promise<void> done;
    std::thread other([&done] { done.get_future().wait(); });
    EXPECT_THAT(cts::Run(Few(Mtia()), nullptr),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("2 threads")));
    done.set_value();
    other.join();
    EXPECT_EQ(Must(cts::Run(Few(Mtia()), nullptr)).ExitCode(), 0);
  });
}

TEST(Run, IsRefusedWithAnOpenBackend) {
  InChild([] {
    Must(GetBackend("mtia"));
    EXPECT_THAT(cts::Run(Few(Mtia()), nullptr),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("\"mtia\" is open in this process")));
  });
}

TEST(Run, IsEndedByItsObserver) {
  InChild([] {
    Watcher watcher;
    watcher.interrupted = true;
    EXPECT_THAT(cts::Run(Few(Bad("hangs_in_call")), &watcher),
                StatusIs(absl::StatusCode::kCancelled,
                         HasSubstr("interrupted in event.")));
  });
}

TEST(Run, RefusesInvalidOptions) {
  InChild([] {
    const auto refused = [](absl::StatusCode code, const std::string& text,
                            const std::function<void(Options*)>& change) {
      Options options = Few(Mtia());
      change(&options);
      EXPECT_THAT(cts::Run(options, nullptr), StatusIs(code, HasSubstr(text)));
    };
    refused(kInvalid, "not absolute", [](Options* o) { o->plugin = "x"; });
    refused(absl::StatusCode::kNotFound, "no such file",
            [](Options* o) { o->plugin = "/no/such.so"; });
    refused(kInvalid, "device 2 does not exist: backend \"mtia\" has 2, 0 to 1",
            [](Options* o) {
              o->devices = {0, 2};
            });
    refused(kInvalid, "device -1 does not exist",
            [](Options* o) { o->devices = {-1}; });
    refused(kInvalid, "device 1 is given twice", [](Options* o) {
      o->devices = {1, 1};
    });
    refused(kInvalid, "unknown group \"x\"",
            [](Options* o) { o->groups = {"x"}; });
    refused(kInvalid, "no test shows \"x\"",
            [](Options* o) { o->items = {"x"}; });
    refused(kInvalid, "no test shows \"x\"", [](Options* o) {
      o->waivers = {{"x", Waiver::Kind::kUnsupported, "", "", 0}};
    });
    refused(kInvalid, "load.opens cannot be waived", [](Options* o) {
      o->waivers = {{"load.opens", Waiver::Kind::kUnsupported, "", "", 0}};
    });
    refused(kInvalid, "C24 is waived twice", [](Options* o) {
      const Waiver waiver = {"C24", Waiver::Kind::kUnsupported, "", "", 0};
      o->waivers = {waiver, waiver};
    });
  });
}

}  // namespace
}  // namespace devrt
