// SPDX-License-Identifier: Apache-2.0
//
// The conformance suite: tests whether a plugin is a devrt backend.
//
//   int main() {
//     devrt::cts::Options options;
//     options.plugin = "/opt/acme/libdevrt_acme.so";
//     devrt::cts::Observer observer;            // or one that prints
//     auto report = devrt::cts::Run(options, &observer);
//     return report.ok() ? report->ExitCode() : 2;
//   }
//
// The command `devrt cts` calls Run with flags.  A vendor's own test program
// links devrt_cts and calls Run; docs/reference/conformance.md explains the
// report.
//
// The calling process never runs the plugin.  Tests run in worker processes,
// which are forked from the caller.  Therefore the caller must have one thread
// and must not have opened a backend.  A test that crashes or hangs ends only
// its worker.  No worker outlives the caller or leaves a core file.
//
// Errors of Run, which say nothing about the plugin's quality:
//   INVALID_ARGUMENT     an unknown group, item, test or device; a device given
//                        twice; a bad waiver
//   NOT_FOUND            no such plugin file
//   FAILED_PRECONDITION  a backend is open; several threads
//   RESOURCE_EXHAUSTED   no process could be forked
//   CANCELLED            the observer interrupted the run
// A file that devrt refuses to load is a failed test (load.opens), and so is a
// plugin that crashes when it is opened.  A plugin that answers UNAVAILABLE,
// because its hardware is not in this machine, is skipped.

#ifndef DEVRT_CTS_CTS_H_
#define DEVRT_CTS_CTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/export.h"

namespace devrt::cts {

// One test of the list.
struct TestInfo {
  std::string group;               // "event"
  std::string name;                // "event.never_recorded_is_complete"
  std::vector<std::string> items;  // items of semantics.md, "C24"; the first is
                                   // the subject of the test
  std::string promise;             // the sentence that the test enforces
};

// All tests in the order in which they run, and all groups in the list's order:
DEVRT_EXPORT std::vector<TestInfo> List();
DEVRT_EXPORT std::vector<std::string> Groups();

// A promise that a backend declares not to keep (docs/reference/semantics.md
// 0.3).
struct Waiver {
  // How long the promise is not kept.
  enum class Kind {
    kUnsupported,      // permanent: its tests do not run
    kExpectedFailure,  // temporary: its tests run, and may fail
  };
  // The name of a test, or an item for all tests that have it as first item.
  // Random programs cover many items, so only their names can be waived.
  std::string what;
  Kind kind = Kind::kExpectedFailure;
  std::string reason;
  std::string reference;  // "https://...", may be empty
  int line = 0;           // in the file of waivers
};

// Reads the waivers in `text`, one on each line:
//   C38  expected_failure  no interprocess events yet -- https://...
// `file` is the name for messages, which also give line and column:
//   INVALID_ARGUMENT  a malformed line; an item that is no test's first item; a
//                     test that does not exist; a waiver given twice
DEVRT_EXPORT absl::StatusOr<std::vector<Waiver>> ParseWaivers(
    std::string_view text, std::string_view file);

// What Run tests, and how.
struct Options {
  std::string plugin;               // absolute path
  std::vector<int> devices;         // ordinals; empty: all
  std::vector<std::string> groups;  // empty: all
  std::vector<std::string> items;   // "C27", or names of tests; empty: all
  uint64_t seed = 1;                // of random tests
  int programs = 2000;              // number of random programs
  // Seconds for one test, for opening the plugin and for the end of a process.
  // Slow tests get more.  After several hangs the other tests get less.
  int timeout_s = 60;
  std::vector<Waiver> waivers;
  bool verify_waivers = false;  // an expected failure that passes fails the run
};

// What became of a test.
struct TestResult {
  // The verdict.
  enum class Outcome {
    kPassed,
    kFailed,
    kUnsupported,  // a capability or an extension is missing, or a waiver
    kSkipped,      // does not apply to these devices: too few of them, ...
    kExpectedFailure,
    kUnexpectedPass,
    kNotRun,  // the plugin could not be opened
  };
  // How a test failed: a check, a signal, the time limit, the end of the
  // process.
  enum class How { kCheck, kCrash, kHang, kExit };

  TestInfo test;
  Outcome outcome = Outcome::kNotRun;
  How how = How::kCheck;  // the kind of failure
  // One text for each failed check; otherwise why the test did not run.
  std::vector<std::string> messages;
  std::vector<std::string> calls;  // of a failure: the calls before it
  std::string log;                 // of a failure: the plugin's output
  // Of a failed check: required or promised slots that answered UNIMPLEMENTED
  // in this test.  The test then says nothing about other promises.
  std::vector<std::string> unwritten;
  double seconds = 0;
};

// A slot of the plugin's table that is not implemented yet.
struct UnwrittenSlot {
  std::string slot;    // "mem_info"
  std::string answer;  // the text of its error
};

// The words of the report: "passed", "crash".
DEVRT_EXPORT const char* ToString(TestResult::Outcome outcome);
DEVRT_EXPORT const char* ToString(TestResult::How how);

// The conformance statement.
struct DEVRT_EXPORT Report {
  std::string plugin;                    // path
  std::string sha256;                    // of the file, 64 hexadecimal digits
  std::string backend, vendor, version;  // of the manifest
  uint32_t abi_major = 0, abi_minor = 0;
  uint64_t capabilities = 0;         // claimed by the opened backend
  std::vector<std::string> devices;  // "acme:0: Acme 9000"
  uint64_t seed = 0;                 // of Options
  // True if a simulator in virtual mode decided the order of all work: then
  // another run with this seed has this verdict.  Otherwise the seed fixes only
  // the random programs; a failure that depends on timing may come and go.
  bool deterministic = false;
  double seconds = 0;
  std::string time;  // when the run began, UTC, ISO 8601
  std::vector<Waiver> waivers;
  bool verify_waivers = false;
  std::vector<TestResult> results;
  // Unimplemented slots that caused failures, in table order.  If there are
  // any, `never_called` lists the required slots that no test called.
  std::vector<UnwrittenSlot> unwritten;
  std::vector<std::string> never_called;

  // The number of results with this outcome, in one group or in all ("").
  int Count(TestResult::Outcome outcome, std::string_view group = "") const;
  // True if no test failed, also if no test ran.  With verify_waivers an
  // unexpected pass counts as a failure.
  bool Passed() const;
  // 0: passed, 1: failed, 77: no test ran.
  int ExitCode() const;
};

// Is notified while tests run.
class DEVRT_EXPORT Observer {
 public:
  virtual ~Observer();
  // Called before and after each test.  load.opens and load.process_ends_well
  // come last in a run:
  virtual void Begin(const TestInfo& test);
  virtual void End(const TestResult& result);
  // Called several times a second.  true ends the run with CANCELLED.
  virtual bool Interrupted();
};

// Tests the plugin; `observer` may be null.  Errors: see the top.
DEVRT_EXPORT absl::StatusOr<Report> Run(const Options& options,
                                        Observer* observer);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_CTS_H_
