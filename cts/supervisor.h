// SPDX-License-Identifier: Apache-2.0
//
// Gives tests to workers and collects their results.
//
// A worker runs tests until one fails.  The next worker continues after that
// test, so that the state it left cannot make other tests fail.

#ifndef DEVRT_CTS_SUPERVISOR_H_
#define DEVRT_CTS_SUPERVISOR_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cts/child.h"
#include "cts/recorder.h"
#include "cts/test.h"
#include "devrt/cts/cts.h"

namespace devrt::cts {

// The last calls of a worker, also after its crash.
class SharedRing {
 public:
  SharedRing();
  ~SharedRing();
  SharedRing(const SharedRing&) = delete;
  CallRing* get() const { return ring_; }  // nullptr if memory is short
  std::vector<std::string> Lines() const;
  void Clear();

 private:
  CallRing* ring_ = nullptr;
};

class Supervisor {
 public:
  // `chosen` are indices into Catalog().
  Supervisor(const Options& options, Observer* observer, Report* report,
             std::vector<size_t> chosen);
  // Fills the report.  CANCELLED: interrupted; INVALID_ARGUMENT: a device that
  // does not exist; RESOURCE_EXHAUSTED: fork failed.
  absl::Status Run();

 private:
  // Facts about the plugin that were observed outside of tests.
  struct Seen {
    bool failed = false;
    TestResult::How how = TestResult::How::kCheck;
    std::string message, log;
    std::vector<std::string> calls;
    double seconds = 0;
  };
  struct Running;

  // Runs tests from the front of `tests`; removes those that have a result.
  absl::Status RunBatch(std::vector<size_t>* tests);
  // Returns true if the plugin is open; records a failure.
  absl::StatusOr<bool> FollowOpening(Child* child);
  // Reads a test's messages up to its end.  Returns true if the worker goes on.
  absl::StatusOr<bool> FollowTest(Child* child, size_t index);
  void Handle(Message message, Running* running);
  void NoteUnwritten(const Running& running, TestResult* result);
  void NoteHang(Child* child, Running* running);
  void NoteDeath(Child* child, Running* running);
  // Follows the end of a worker that has run all its tests: `ran` tests, the
  // last one named `last`.
  void FollowEnding(Child* child, size_t ran, const std::string& last);
  // Records how the process ended or is about to end.
  void NoteProcess(Child* child, Seen* seen);
  void CannotOpen(Child* child, TestResult::How how, std::string why);

  // The result of a test; nullptr if the test was not chosen.
  TestResult* ResultOf(std::string_view name);
  const Waiver* WaiverOf(const TestInfo& test, Waiver::Kind kind) const;
  double TimeFor(const TestCase& test) const;
  absl::Status Cancelled(std::string_view where) const;

  // In conclude.cc.
  void Conclude();
  void ConcludeOpening();
  void ConcludeEnding();
  // Makes the result of a test that was not chosen but failed; nullptr if there
  // was no failure.
  TestResult* ResultOfSeen(const char* name, const Seen& seen);
  void Fill(const Seen& seen, TestResult* result);
  void Expect(TestResult* result) const;  // applies expected failures
  void FindUnexpectedPasses();
  void ReportUnwritten();

  const Options& options_;
  Observer* const observer_;
  Report* const report_;
  const std::vector<size_t> chosen_;
  std::map<std::string, size_t, std::less<>> position_;  // in results
  SharedRing ring_;
  bool opened_ = false;
  bool cannot_open_ = false;
  std::string absent_;  // why the backend has no device
  int hangs_ = 0;
  // The errors of unimplemented slots by name; and the slots that were called,
  // by opening the plugin or by any test.
  std::map<std::string, std::string> unwritten_;
  std::set<std::string> called_ = {"device_count"};
  Seen opening_, ending_;
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_SUPERVISOR_H_
