// SPDX-License-Identifier: Apache-2.0
//
// Hands tests to workers and notes what they say.
//
// A worker runs tests until one fails; what that left behind must not fail
// others, so the next worker goes on behind it.

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

// Where the last calls of a worker are, also when it has crashed.
class SharedRing {
 public:
  SharedRing();
  ~SharedRing();
  SharedRing(const SharedRing&) = delete;
  CallRing* get() const { return ring_; }  // nullptr: without memory for it
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
  // Fills the report.  CANCELLED: interrupted; INVALID_ARGUMENT: a device
  // that does not exist; RESOURCE_EXHAUSTED: no process.
  absl::Status Run();

 private:
  // What the supervisor sees of the plugin without a test.
  struct Seen {
    bool failed = false;
    TestResult::How how = TestResult::How::kCheck;
    std::string message, log;
    std::vector<std::string> calls;
    double seconds = 0;
  };
  struct Running;

  // Runs tests from the front of `tests` and takes away what has a result.
  absl::Status RunBatch(std::vector<size_t>* tests);
  // Whether the plugin is open; a failure is noted.
  absl::StatusOr<bool> FollowOpening(Child* child);
  // A test's messages up to its end; whether the worker goes on.
  absl::StatusOr<bool> FollowTest(Child* child, size_t index);
  void Take(Message message, Running* running);
  void NoteUnwritten(const Running& running, TestResult* result);
  void NoteHang(Child* child, Running* running);
  void NoteDeath(Child* child, Running* running);
  // The end of a worker that has nothing left to do; `ran` tests, the last of
  // that name.
  void FollowEnding(Child* child, size_t ran, const std::string& last);
  // How the process ended, which it has or is about to.
  void NoteProcess(Child* child, Seen* seen);
  void CannotOpen(Child* child, TestResult::How how, std::string why);

  // The result of a test that was chosen, or nullptr.
  TestResult* ResultOf(std::string_view name);
  const Waiver* WaiverOf(const TestInfo& test, Waiver::Kind kind) const;
  double TimeFor(const TestCase& test) const;
  absl::Status Cancelled(std::string_view where) const;

  // In conclude.cc.
  void Conclude();
  void ConcludeOpening();
  void ConcludeEnding();
  // The result of a test that was not chosen, made when its failure was seen
  // all the same; nullptr: nothing to tell.
  TestResult* ResultOfSeen(const char* name, const Seen& seen);
  void Fill(const Seen& seen, TestResult* result);
  void Expect(TestResult* result) const;  // a failure may be expected
  void FindUnexpectedPasses();
  void TellUnwritten();

  const Options& options_;
  Observer* const observer_;
  Report* const report_;
  const std::vector<size_t> chosen_;
  std::map<std::string, size_t, std::less<>> position_;  // in results
  SharedRing ring_;
  bool opened_ = false;
  bool cannot_open_ = false;
  std::string absent_;  // why the backend has nothing to drive
  int hangs_ = 0;
  // By slot, what it said; and the slots that were called, by opening it or by
  // any test.
  std::map<std::string, std::string> unwritten_;
  std::set<std::string> called_ = {"device_count"};
  Seen opening_, ending_;
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_SUPERVISOR_H_
