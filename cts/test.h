// SPDX-License-Identifier: Apache-2.0
//
// One test: its entry in the list, and the object that its body works with.
//
//   namespace event_tests {  // the file's name: files are compiled together
//   namespace {
//
//   void NeverRecorded(Test& t) {
//     RawEvent e(t, t.device());
//     t.Expect(e.Query(), "an event that was never recorded is complete");
//     RawStream s(t, t.device());
//     s.Wait(e);
//     t.Expect(s.Query(), "a wait for it is over at once");
//   }
//
//   constexpr TestCase kTests[] = {
//       {"event.never_recorded_is_complete", "C24",
//        "An event that was never recorded is an empty set of work.",
//        &NeverRecorded},
//   };
//
//   }  // namespace
//   }  // namespace event_tests
//
// Expect, Equal, Ok and Code report a failure and continue.  Require, and every
// constructor that makes an object, end the test by throwing Abandon: the
// objects of the body are destroyed, and the worker catches Abandon.  It is
// never thrown through a plugin.  Bodies are small programs made of calls; the
// recorder records these calls.
//
// Threads: all threads of the body may use the Test.  Only the body's own
// thread may throw; other threads go through Threads (objects.h).  When a body
// ends, no thread, work or object of it is left.

#ifndef DEVRT_CTS_TEST_H_
#define DEVRT_CTS_TEST_H_

#include <cstdint>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "cts/machine.h"
#include "cts/result.h"
#include "devrt/devrt.h"

namespace devrt::cts {

class Test;

// Values of TestCase.flags.  If the machine or the plugin does not meet one,
// the test is skipped or unsupported, with the reason.
inline constexpr uint32_t kTwoDevices = 1;    // at least two chosen devices
inline constexpr uint32_t kNeedsGate = 2;     // a stream can be held (Gate)
inline constexpr uint32_t kNeedsProbe = 4;    // devrt.probe/0
inline constexpr uint32_t kNeedsSim = 8;      // devrt.sim/1, mode virtual
inline constexpr uint32_t kOwnProcess = 16;   // its own worker: the test faults
inline constexpr uint32_t kEndsProcess = 32;  // ... and exits with code 0
inline constexpr uint32_t kSlow = 64;         // gets 5 times the time

struct TestCase {
  const char* name;           // "group.what_it_shows"
  const char* items;          // "C24", or "C26 C18"; the first is the subject
                              // and counts for waivers; "" for extensions
  const char* promise;        // the sentence that the test enforces
  void (*run)(Test& test);    // nullptr: the supervisor decides the result
  uint64_t capabilities = 0;  // DEVRT_CAP_*, all of which the test needs
  uint32_t flags = 0;
};

// Thrown to end a test.
struct Abandon {};

struct Site {
  const char* file;
  int line;
  static constexpr Site Here(const char* file = __builtin_FILE(),
                             int line = __builtin_LINE()) {
    return {file, line};
  }
};

// Receives failures: sends them through the worker's pipe.
class Reporter {
 public:
  virtual ~Reporter() = default;
  virtual void Failure(std::string_view text) = 0;
  virtual void MayDie() = 0;
};

class Test {
 public:
  Test(Machine* machine, Reporter* reporter, uint64_t seed, int programs);

  Machine& machine() { return *machine_; }
  // The ordinals of the chosen devices; `index` counts from 0.
  const std::vector<uint32_t>& devices() const { return machine_->devices(); }
  uint32_t device(size_t index = 0) const { return devices()[index]; }
  // device(index) of the C++ API.
  Device cpp_device(size_t index = 0) const;
  uint64_t seed() const { return seed_; }
  int programs() const { return programs_; }
  std::mt19937_64& random() { return random_; }

  // ---- Checks.  Each returns true if it succeeds.

  bool Expect(bool holds, std::string_view what, Site site = Site::Here());
  template <typename A, typename B>
  bool Equal(const A& actual, const B& expected, std::string_view what,
             Site site = Site::Here()) {
    if (actual == expected) return true;
    std::ostringstream text;
    text << what << ": is " << +actual << ", not " << +expected;
    Fail(text.str(), site);
    return false;
  }
  bool Equal(std::string_view actual, std::string_view expected,
             std::string_view what, Site site = Site::Here());
  bool Ok(const Result& result, std::string_view what,
          Site site = Site::Here());
  bool Ok(const absl::Status& status, std::string_view what,
          Site site = Site::Here());
  // Expects an error with this code whose text contains `part`.
  bool Code(const Result& result, devrt_code code, std::string_view what,
            std::string_view part = "", Site site = Site::Here());
  bool Code(const absl::Status& status, devrt_code code, std::string_view what,
            std::string_view part = "", Site site = Site::Here());
  // Ends the test if the check fails.
  void Require(bool holds, std::string_view what, Site site = Site::Here());
  void Require(const Result& result, std::string_view what,
               Site site = Site::Here());
  template <typename T>
  T Require(absl::StatusOr<T> value, std::string_view what,
            Site site = Site::Here()) {
    if (!Ok(value.status(), what, site)) throw Abandon{};
    return *std::move(value);
  }

  void Fail(std::string_view text, Site site = Site::Here());
  // Ends the test as skipped: it does not apply to these devices.
  [[noreturn]] void Skip(std::string_view why);
  // Ends the test as unsupported: the plugin lacks a capability or an extension
  // that the test needs.
  [[noreturn]] void Unsupported(std::string_view why);
  // Returns an extension; ends the test as unsupported without it.
  Extension NeedExtension(const char* name, uint32_t minimum_size);

  // From here on the plugin may end the process by a signal
  // (fault_delivery=abort).  If it does, the test has passed.
  void MayDie() { reporter_->MayDie(); }

  int failures() const { return failures_; }
  const std::string& skip_reason() const { return skip_reason_; }
  const std::string& unsupported_reason() const { return unsupported_reason_; }

  // ---- Time

  // Lets devices run long enough for a missing order to show: a simulator by
  // scheduling decisions, hardware for some milliseconds.
  void Settle();
  // Repeats `question` for some seconds at most; returns true if it came true.
  template <typename Question>
  bool Eventually(Question question) {
    for (Patience patience(this); patience.Left(); patience.Wait()) {
      if (question()) return true;
    }
    return question();
  }

  // On a simulator in virtual mode: runs `body` in 100 schedules or more, until
  // each of `outcomes` has come, in 1,000 at most.  An outcome that is not in
  // `outcomes` is a failure, and so is one of them that never came.  Elsewhere
  // runs `body` once, and only the first failure is possible.  `body` destroys
  // all that it makes.
  void Reaches(const std::vector<std::string>& outcomes,
               const std::function<std::string()>& body,
               Site site = Site::Here());
  // Runs `body` with each strategy and some seeds of a simulator in virtual
  // mode; elsewhere once.  `body` destroys all that it makes.
  void InEverySchedule(const std::function<void()>& body);

 private:
  class Patience {
   public:
    explicit Patience(Test* test);
    bool Left() const;
    void Wait();

   private:
    Test* test_;
    double begin_;
    int rounds_ = 0;
  };

  Machine* const machine_;
  Reporter* const reporter_;
  const uint64_t seed_;
  const int programs_;
  std::mt19937_64 random_;
  std::atomic<int> failures_{0};
  std::string skip_reason_, unsupported_reason_;
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_TEST_H_
