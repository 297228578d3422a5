// SPDX-License-Identifier: Apache-2.0
//
// The conformance suite: whether a plugin is a devrt backend.
//
//   devrt::cts::Options options;
//   options.plugin = "/opt/acme/libdevrt_acme.so";
//   devrt::cts::Observer observer;              // or one that prints
//   DEVRT_ASSIGN_OR_RETURN(devrt::cts::Report report,
//                          devrt::cts::Run(options, &observer));
//   return report.ExitCode();
//
// `devrt cts` is this with flags.  A vendor's own test program links devrt_cts
// and calls Run; docs/conformance.md says what a report means.
//
// The calling process never runs the plugin: tests run in workers, which are
// forked from it.  A test that crashes or hangs ends its worker and nothing
// else; it never outlives the caller, and leaves no core file.  So the caller
// must not have opened a backend, and be the only thread.
//
// Errors of Run, none of them about the plugin's quality:
//   INVALID_ARGUMENT     an unknown group, item, test or device; a device given
//                        twice; a bad waiver
//   NOT_FOUND            no such plugin file
//   FAILED_PRECONDITION  a backend is open; several threads
//   RESOURCE_EXHAUSTED   no process could be forked
//   CANCELLED            the observer wished so
// A file that devrt refuses to load is no error of Run but a failed test
// (load.opens), like a plugin that crashes when it is opened; one that answers
// UNAVAILABLE, as its hardware is not here, is skipped.

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

// One test, as it stands in the list.
struct TestInfo {
  std::string group;               // "event"
  std::string name;                // "event.never_recorded_is_complete"
  std::vector<std::string> items;  // "C24": items of semantics.md; the first is
                                   // what it is about
  std::string promise;             // the sentence that it enforces
};

// All tests in the order in which they run, and all groups in that of the list.
DEVRT_EXPORT std::vector<TestInfo> List();
DEVRT_EXPORT std::vector<std::string> Groups();

// What a backend declares not to keep (docs/semantics.md 0.3).
struct Waiver {
  enum class Kind {
    kUnsupported,      // for good: its tests do not run
    kExpectedFailure,  // for now: its tests run, and may fail
  };
  // The name of a test; or an item, for the tests that have it first.  Random
  // programs mix many items, and are waived by their names only.
  std::string what;
  Kind kind = Kind::kExpectedFailure;
  std::string reason;
  std::string reference;  // "https://...", may be empty
  int line = 0;           // of the file it came from
};

// The waivers in `text`, one a line:
//   C38  expected_failure  no interprocess events yet -- https://...
// `file` is for messages, which name line and column:
//   INVALID_ARGUMENT  a line that is none; an item that no test has first, a
//                     test that does not exist; the same one twice
DEVRT_EXPORT absl::StatusOr<std::vector<Waiver>> ParseWaivers(
    std::string_view text, std::string_view file);

struct Options {
  std::string plugin;               // absolute path
  std::vector<int> devices;         // ordinals; empty: all
  std::vector<std::string> groups;  // empty: all
  std::vector<std::string> items;   // "C27", or names of tests; empty: all
  uint64_t seed = 1;                // for random tests
  int programs = 2000;              // random programs
  // For one test, for opening and for the end of a process; slow tests get
  // more, and where several hang, the rest gets less.
  int timeout_s = 60;
  std::vector<Waiver> waivers;
  bool verify_waivers = false;  // an expected failure that passes fails the run
};

struct TestResult {
  enum class Outcome {
    kPassed,
    kFailed,
    kUnsupported,  // the plugin does not promise what it needs, or a waiver
    kSkipped,      // this machine cannot show it: too few devices, ...
    kExpectedFailure,
    kUnexpectedPass,
    kNotRun,  // the plugin could not be opened
  };
  enum class How { kCheck, kCrash, kHang, kExit };

  TestInfo test;
  Outcome outcome = Outcome::kNotRun;
  How how = How::kCheck;  // of a failure
  // Failures: one text a failed check; otherwise why it was not run.
  std::vector<std::string> messages;
  std::vector<std::string> calls;  // of a failure: the calls that led there
  std::string log;                 // of a failure: what the plugin wrote
  // Of a failed check: slots that every backend has, or that this one promises,
  // and that answered UNIMPLEMENTED in this test.  It says nothing of the rest.
  std::vector<std::string> unwritten;
  double seconds = 0;
};

// A slot of the plugin's table that is not written yet.
struct UnwrittenSlot {
  std::string slot;    // "mem_info"
  std::string answer;  // what it said
};

DEVRT_EXPORT const char* ToString(TestResult::Outcome outcome);
DEVRT_EXPORT const char* ToString(TestResult::How how);

// The conformance statement.
struct DEVRT_EXPORT Report {
  std::string plugin;  // path
  std::string sha256;
  std::string backend, vendor, version;  // of the manifest
  uint32_t abi_major = 0, abi_minor = 0;
  uint64_t capabilities = 0;         // claimed by the opened backend
  std::vector<std::string> devices;  // "acme:0: Acme 9000"
  uint64_t seed = 0;
  // A simulator in virtual mode decided what ran when: another run of this seed
  // has this verdict.  Elsewhere the random programs are those of the seed, but
  // a failure that depends on what runs when may come in one run and not in
  // the next.
  bool deterministic = false;
  double seconds = 0;
  std::string time;  // of its beginning, UTC, ISO 8601
  std::vector<Waiver> waivers;
  bool verify_waivers = false;
  std::vector<TestResult> results;
  // Slots that are the reason of failures, in the order of the table; where
  // there are any, also those that every backend has and that no test called.
  std::vector<UnwrittenSlot> unwritten;
  std::vector<std::string> never_called;

  int Count(TestResult::Outcome outcome, std::string_view group = "") const;
  // Nothing failed; not whether anything ran.
  bool Passed() const;
  // 0 passed, 1 failed, 77 nothing ran.
  int ExitCode() const;
};

// Looks on while tests run.
class DEVRT_EXPORT Observer {
 public:
  virtual ~Observer();
  // load.opens and load.process_ends_well come at the end of a run.
  virtual void Begin(const TestInfo& test);
  virtual void End(const TestResult& result);
  // Asked some times a second; true ends the run, and Run answers CANCELLED.
  virtual bool Interrupted();
};

DEVRT_EXPORT absl::StatusOr<Report> Run(const Options& options,
                                        Observer* observer);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_CTS_H_
